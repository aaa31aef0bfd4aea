"""Define the dialects: where each sends a call, and in which format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from toolwire.core.model import Call, Json, Kind, Result, Value

from . import call_request, call_response


class Dialect(NamedTuple):
    """How to call the tools of one kind of server.

    ``paths`` are tried in turn while the server answers 404 or 405. ``write`` gives the body for a call and the
    server's id of the tool; ``read`` takes the data of a 200 and the id of the call. ``kinds`` is what its other
    statuses mean. Where a server ``deduplicates_calls``, a call id makes a call idempotent.
    """

    # OTC-019

    title: str
    paths: tuple[str, ...]
    write: Callable[[Call, str], Json]
    read: Callable[[Json, str], Result]
    kinds: Mapping[int, Kind]
    stores_calls: bool = False


def _read_value(data: Json, _call_id: str) -> Result:
    return Value(data)


_FRAMEWORK = {400: Kind.INVALID_ARGUMENTS, 404: Kind.UNKNOWN_TOOL, 500: Kind.TOOL_FAILED}

RFC = Dialect(
    "Open Tool Calling (RFC)", ("/call", "/tools/call"), call_request.write, call_response.read, {}, stores_calls=True
)
OXP = Dialect("OXP 1.0", ("/tools/call", "/call"), call_request.write, call_response.read, {}, stores_calls=True)
UNIVERSAL = Dialect("universal-tool", ("/tools/call",), call_request.write_universal, call_response.read, _FRAMEWORK)
OPEN_TOOL = Dialect("open-tool", ("/tools/call",), call_request.write_legacy, _read_value, _FRAMEWORK)
