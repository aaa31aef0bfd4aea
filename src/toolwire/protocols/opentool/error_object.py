"""Write a Problem as the ``error`` object of an answer, and read it."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsonrpc, jsontext
from toolwire.framing.rate_headers import parse_wait_ms

_NOT_FROM_A_SERVER = frozenset({Kind.UNREACHABLE, Kind.BAD_ANSWER})
"""What only this side can say of a call: a server that claims it would blame the network."""

_KINDS: dict[int, Kind] = {
    jsonrpc.PARSE_ERROR: Kind.MALFORMED,
    jsonrpc.INVALID_REQUEST: Kind.MALFORMED,
    jsonrpc.METHOD_NOT_FOUND: Kind.UNKNOWN_TOOL,
    jsonrpc.INVALID_PARAMS: Kind.INVALID_ARGUMENTS,
    400: Kind.MALFORMED,
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    404: Kind.UNKNOWN_TOOL,
    405: Kind.UNKNOWN_TOOL,
    408: Kind.TOO_SLOW,
    413: Kind.TOO_LARGE,
    428: Kind.UNCONFIRMED,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
}
"""The kind that a code means; any other integer is the tool's failure. [A-13]"""

_MAX_MESSAGE = 4_000


def write(problem: Problem, code: int | None = None) -> dict[str, Json]:
    """Return the error object of ``problem``; what has no place in it goes into its ``data``."""
    #
    data: dict[str, Json] = {"kind": problem.kind.value}
    if problem.can_retry:
        data["can_retry"] = True
    if problem.retry_after_ms is not None:
        data["retry_after_ms"] = problem.retry_after_ms
    if problem.additional_prompt_content:
        data["additional_prompt_content"] = problem.additional_prompt_content
    if problem.parameter_errors:
        data["parameter_errors"] = dict(problem.parameter_errors)
    if problem.details:
        data["details"] = dict(problem.details)
    return {
        "code": jsonrpc.CODES.get(problem.kind, jsonrpc.TOOL_FAILURE) if code is None else code,
        "message": problem.message or problem.kind.value,
        "data": data,
    }


def read(error: Mapping[str, Json]) -> Problem:
    """Return the Problem an error object tells of, each member checked by itself."""
    # C-3, OTC-030
    data = jsontext.get_object(error, "data")
    message, more, wait = error.get("message"), data.get("additional_prompt_content"), data.get("retry_after_ms")
    return Problem(
        kind=_kind(error.get("code"), data.get("kind")),
        message=message[:_MAX_MESSAGE] if isinstance(message, str) and message else "The tool failed without a word.",
        can_retry=data.get("can_retry") is True,
        retry_after_ms=parse_wait_ms(wait),
        additional_prompt_content=more[:_MAX_MESSAGE] if isinstance(more, str) and more else None,
        parameter_errors={
            name: text for name, text in jsontext.get_object(data, "parameter_errors").items() if isinstance(text, str)
        },
        details=jsontext.get_object(data, "details"),
    )


def _kind(code: Json, kind: Json) -> Kind:
    if isinstance(kind, str) and kind in set(Kind) - _NOT_FROM_A_SERVER:
        return Kind(kind)
    return _KINDS.get(code, Kind.TOOL_FAILED) if type(code) is int else Kind.TOOL_FAILED
