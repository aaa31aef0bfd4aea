"""Read requests and build responses by a protocol; answer and log its bugs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import ceil

from anyio import to_thread

from toolwire.core.codec import BlockingTask, CallQuery, Pending, Reading, Streaming
from toolwire.core.http import Request, Response
from toolwire.core.interpreter import pause_collection, switch_threads_often
from toolwire.core.ledger import is_replayed
from toolwire.core.model import Call, Kind, Problem, RateLimit, Result, Value
from toolwire.framing.response_fields import list_passed_fields
from toolwire.server.route_table import RouteEntry

from .idempotency import mark_replayed
from .large_results import split_value

_log = logging.getLogger("toolwire")
_FAILED = Problem(kind=Kind.INTERNAL, message="The server failed. See its log.")


def read_request(entry: RouteEntry, request: Request) -> Reading | BlockingTask:
    """Return what ``entry`` reads from ``request``; a response with an error if its reader has a bug."""
    try:
        return entry.read(request)
    except Exception:  # noqa: BLE001 - a reader that raises has a bug; the caller still gets an answer
        _log.exception("reading %s %s failed", request.method, request.url.partition("?")[0])
        return entry.refuse(_FAILED)


class TaskOnce:
    """Does each ``BlockingTask`` once for all requests that wait for it."""

    def __init__(self) -> None:
        self._tasks: dict[Callable[[], object], asyncio.Task[None]] = {}

    async def run(self, work: BlockingTask) -> None:
        """Return when ``work`` is done. An error in it is logged."""
        task = self._tasks.get(work.run)
        if task is None:
            task = self._tasks[work.run] = asyncio.create_task(_run_in_thread(work))
            task.add_done_callback(lambda _: self._tasks.pop(work.run, None))
        await asyncio.shield(task)  # a client that leaves does not stop the work that others wait for


async def _run_in_thread(work: BlockingTask) -> None:
    """Do ``work`` in a thread, while other requests are answered; an error in it is logged."""

    def run() -> None:
        with switch_threads_often(), pause_collection():
            work.run()

    try:
        await to_thread.run_sync(run)
    except Exception:  # noqa: BLE001 - as above; the request is read again, and finds that nothing was made
        _log.exception("a list of the tools cannot be written")


def read_after_task(entry: RouteEntry, request: Request) -> Reading:
    """Return what ``entry`` reads from ``request`` after the task that it returned; a refusal if that failed."""
    reading = read_request(entry, request)
    return entry.refuse(_FAILED) if isinstance(reading, BlockingTask) else reading


def build_response(pending: Pending, call: Call, result: Result, duration: float) -> Response:
    """Return the response to ``call``; a replayed result carries the header field that says so."""
    try:
        response = pending.reply(result, duration)
    except (TypeError, ValueError, RecursionError):  # a Toolbox of another author returned a value that is no JSON
        response = pending.reply(_build_unwritable(call), duration)
    if isinstance(result, Problem) and "rate_limited" in result.details:
        response = _add_rate_limit(response, call.tool.rate_limit, result)
    if fields := list_passed_fields(result):
        # CR-04: what the server or route behind this one said, over each protocol; what is said here wins.
        own = {name for name, _ in response.headers}
        written = ((name.encode(), str(value).encode()) for name, value in fields.items())
        more = [field for field in written if field[0] not in own]
        response = response._replace(headers=(*response.headers, *more))
    return mark_replayed(response) if call.key and is_replayed(result) else response


async def build_large_response(pending: Pending, call: Call, result: Value, duration: float) -> Response:
    """Return the response to ``call`` from a thread, written part by part, so that others are answered meanwhile."""

    def build() -> Response:
        with switch_threads_often():
            return build_response(pending, call, Value(split_value(result.value), result.notes), duration)

    try:
        return await to_thread.run_sync(build)
    except (TypeError, ValueError, RecursionError, RuntimeError):  # no JSON, or changed meanwhile by another call
        return build_response(pending, call, result, duration)


def _add_rate_limit(response: Response, limit: RateLimit | None, problem: Problem) -> Response:
    """Return ``response`` with the header fields of the limit that was reached, as in draft-ietf-httpapi-ratelimit."""
    if limit is None or problem.retry_after_ms is None:
        return response
    policy = b'"tool";q=%d;w=%d' % (limit.max, ceil(limit.window_s))
    # Rounded up: a client that comes a moment too early would be refused again.
    state = b'"tool";r=0;t=%d' % -(-problem.retry_after_ms // 1_000)
    return response._replace(headers=(*response.headers, (b"ratelimit-policy", policy), (b"ratelimit", state)))


def build_stream_end(streaming: Streaming, result: Result, duration: float) -> bytes:
    """Return the last bytes of a stream whose call ended with ``result``."""
    try:
        return streaming.closing(result, duration)
    except (TypeError, ValueError, RecursionError):
        return streaming.closing(_build_unwritable(streaming.call), duration)


def build_refusal(reading: Reading, problem: Problem) -> Response:
    """Return ``problem`` as a response of the protocol and form in which the call would be answered."""
    if isinstance(reading, Response):
        return reading
    if isinstance(reading, CallQuery):
        return reading.reply(problem)
    return reading.reply(problem, 0.0) if isinstance(reading, Pending) else reading.refuse(problem)


def _build_unwritable(call: Call) -> Problem:
    _log.exception("the result of %s in call %s cannot be written", call.tool.id, call.call_id)
    return Problem(kind=Kind.INTERNAL, message="The tool's result cannot be written as JSON.")
