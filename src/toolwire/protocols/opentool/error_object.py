"""Write a Problem as the ``error`` object of an answer, and read it."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.model import Json, Kind, Problem
from toolwire.framing import jsonrpc, jsontext, problem_members

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


def write(problem: Problem, code: int | None = None) -> dict[str, Json]:
    """Return the error object of ``problem``; what has no place in it goes into its ``data``."""
    #
    return {
        "code": jsonrpc.CODES.get(problem.kind, jsonrpc.TOOL_FAILURE) if code is None else code,
        "message": problem.message or problem.kind.value,
        "data": problem_members.write(problem),
    }


def read(error: Mapping[str, Json]) -> Problem:
    """Return the Problem an error object tells of, each member checked by itself."""
    # C-3, OTC-030
    data, message = jsontext.get_object(error, "data"), error.get("message")
    sentence = message if isinstance(message, str) and message else "The tool failed without a reason."
    return problem_members.read(data, _kind(error.get("code"), data.get("kind")), sentence)


def _kind(code: Json, kind: Json) -> Kind:
    if isinstance(kind, str) and kind in set(Kind) - _NOT_FROM_A_SERVER:
        return Kind(kind)
    return _KINDS.get(code, Kind.TOOL_FAILED) if type(code) is int else Kind.TOOL_FAILED
