"""What a protocol reads and says, when something goes wrong with that itself: a bug is answered too, and logged."""

from __future__ import annotations

import logging

from toolwire.core.codec import Pending, Reading, Streaming
from toolwire.core.http import Request, Response
from toolwire.core.ledger import is_replayed
from toolwire.core.model import Call, Kind, Problem, Result
from toolwire.server.route_table import RouteEntry

from .idempotency import mark_replayed

_log = logging.getLogger("toolwire")


def read_request(entry: RouteEntry, request: Request) -> Reading:
    """Return what ``entry`` makes of ``request``."""
    try:
        return entry.read(request)
    except Exception:  # noqa: BLE001 - a reader that raises has a bug; the caller still gets an answer
        _log.exception("reading %s %s failed", request.method, request.url.partition("?")[0])
        return entry.refuse(Problem(kind=Kind.INTERNAL, message="The server failed; its log has the details."))


def build_response(pending: Pending, call: Call, result: Result, duration: float) -> Response:
    """Return what ``pending`` says of how ``call`` ended, with a mark where that was told before."""
    try:
        response = pending.reply(result, duration)
    except (TypeError, ValueError, RecursionError):  # somebody's Toolbox gave what is no JSON data
        response = pending.reply(_build_unwritable(call), duration)
    return mark_replayed(response) if call.key and is_replayed(result) else response


def build_stream_end(streaming: Streaming, result: Result, duration: float) -> bytes:
    """Return the end of a stream whose call ended with ``result``."""
    try:
        return streaming.closing(result, duration)
    except (TypeError, ValueError, RecursionError):
        return streaming.closing(_build_unwritable(streaming.call), duration)


def build_refusal(reading: Reading, problem: Problem) -> Response:
    """Return ``problem`` in the words in which the call would have been answered."""
    if isinstance(reading, Response):
        return reading
    return reading.reply(problem, 0.0) if isinstance(reading, Pending) else reading.refuse(problem)


def _build_unwritable(call: Call) -> Problem:
    _log.exception("the result of %s in call %s cannot be written", call.tool.id, call.call_id)
    return Problem(kind=Kind.INTERNAL, message="The tool's result cannot be written as JSON.")
