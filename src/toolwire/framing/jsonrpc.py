"""Read JSON-RPC 2.0 messages, for all protocols that use them."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import NamedTuple, cast

from toolwire.core.model import Json, Kind, Problem

from .jsontext import describe_type

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

CODES: dict[Kind, int] = {
    Kind.MALFORMED: INVALID_REQUEST,
    Kind.UNSUPPORTED_TYPE: INVALID_REQUEST,
    Kind.UNKNOWN_TOOL: METHOD_NOT_FOUND,
    Kind.INVALID_ARGUMENTS: INVALID_PARAMS,
    Kind.CONFLICT: INVALID_PARAMS,
    Kind.MISSING_REQUIREMENTS: INVALID_PARAMS,
    Kind.UNAUTHORIZED: 401,
    Kind.FORBIDDEN: 403,
    Kind.DENIED: 403,
    Kind.UNCONFIRMED: 428,
    Kind.NOT_FOUND: 404,
    Kind.WRONG_METHOD: 405,
    Kind.TOO_SLOW: 408,
    Kind.TOO_LARGE: 413,
    Kind.MISDIRECTED: 421,
    Kind.ACCEPTED: 202,
    Kind.RATE_LIMITED: 429,
    Kind.OVERLOADED: 503,
}
"""The code of each kind of Problem; any other is 500, the tool's failure."""
#

TOOL_FAILURE = 500

_VERSIONS = ("2.0", "2.0.0")
_ID_TYPES = (str, int, float)  # exactly these: a boolean is an int to isinstance


class Message(NamedTuple):
    """A request or notification. ``params`` is as sent; ``id`` is None where there was none or it was null."""

    method: str
    params: Json
    id: str | int | float | None
    expects_answer: bool


_make_message = cast(
    "Callable[[tuple[str, Json, str | int | float | None, bool]], Message]", MethodType(tuple.__new__, Message)
)


def read(data: dict[str, Json]) -> Message | Problem:
    """Return the message in ``data``, or a Problem that says why it is no JSON-RPC request.

    ``jsonrpc`` may be "2.0", "2.0.0" or missing, as real implementations send it.
    """
    # S-4, A-18
    if data.get("jsonrpc", "2.0") not in _VERSIONS:
        return _build_invalid('"jsonrpc" must be "2.0"')
    method = data.get("method")
    if not isinstance(method, str) or not method:
        return _build_invalid('"method" must be the name of what to call, as a string')
    id_ = data.get("id")
    if id_ is not None and type(id_) not in _ID_TYPES:
        return _build_invalid(f'"id" must be a string or a number, not {describe_type(id_)}')
    return _make_message((method, data.get("params"), id_, "id" in data))


def get_id(data: Json) -> str | int | float | None:
    """Return the id for the response to a broken message: its own id if it is legal, else ``None``."""
    id_ = data.get("id") if isinstance(data, dict) else None
    return id_ if type(id_) in _ID_TYPES else None


def _build_invalid(what: str) -> Problem:
    return Problem(kind=Kind.MALFORMED, message=f"Invalid JSON-RPC request: {what}.")
