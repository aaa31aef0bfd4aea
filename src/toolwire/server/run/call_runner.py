"""Run the call of a request, and send its result: at once, as a stream, or when its user has decided."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

import anyio

from toolwire.core.codec import Pending, Streaming
from toolwire.core.http import EVENT_HEADERS, Headers, Request, Response
from toolwire.core.model import AFTER_START, Call, Problem, Progress, Result, Value
from toolwire.core.toolbox import Notify, StartCall, ignore_progress
from toolwire.framing import sse
from toolwire.server.asking.confirmation import CONFIRMATION
from toolwire.server.asking.inbox_waiters import InboxWaiter, InboxWaiters
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import send_messages, send_response
from toolwire.server.http.response_stream import (
    CHECK_S,
    KEEP_ALIVE_S,
    REVOKED,
    IsStillAuthorized,
    wait_for_disconnect,
)
from toolwire.telemetry.calls import Observer, Telemetry, create_observer
from toolwire.telemetry.current_call import Arrival
from toolwire.telemetry.redaction import hide_secrets

from .call_headers import CallHeaders, add_call_location
from .idempotency import KEY_HEADER, IdempotencyRunner
from .large_results import COLLECTIONS, is_large
from .responses import build_large_response, build_response, build_stream_end
from .service import Service

_log = logging.getLogger("toolwire")


class CallRunner:
    """Runs the calls of requests by ``service``, and records them as ``telemetry`` says.

    ``headers`` reads what heads of requests say about calls. ``waits`` holds the calls that wait for answers in the
    inbox, if there is one.
    """

    def __init__(
        self,
        service: Service,
        headers: CallHeaders,
        waits: InboxWaiters | None,
        telemetry: Telemetry,
        idempotency: IdempotencyRunner,
    ) -> None:
        self.service = service
        self._headers, self._waits = headers, waits
        self._has_rare_headers = headers.find_own_host is not None or headers.has_inbox
        self._telemetry, self._idempotency = telemetry, idempotency
        self._observer: Observer | None = None
        self._silences = _Silences()

    def observe_calls(self) -> None:
        """Take the telemetry providers of the process from now on, if it has some."""
        # Not before the first request: a program sets them while it starts (docs/decisions/0015).
        self._observer = create_observer(self._telemetry)
        if self._observer is not None:
            self._idempotency.observe_ledgers(self._observer.observe_ledger)

    def drain(self) -> None:
        """Refuse each new call from now on; calls that wait for users end without a decision."""
        self.service.draining = True
        if self._waits is not None:
            self._waits.drain()

    async def answer(  # noqa: C901 - in line: all calls pass
        self,
        scope: Scope,
        exchange: Exchange,
        fields: Mapping[bytes, bytes],
        *,
        request: Request,
        reading: Pending | Streaming,
        call: Call,
        protocol: str,
        is_unrevoked: IsStillAuthorized | None,
    ) -> None:
        """Run ``call``, which was read as ``reading`` from ``request``, and send its result.

        Where ``is_unrevoked`` returns False meanwhile, its caller gets a refusal instead.
        """
        # These lookups instead of a copy of the call: most requests have none of these fields.
        if (
            self._has_rare_headers
            or call.tool.long
            or call.context.can_ask
            or b"traceparent" in fields
            or CONFIRMATION in fields
            or KEY_HEADER in fields
        ):
            call = self._headers.apply(call, fields, scope, request)
        arrival = None if self._observer is None else _build_arrival(request, scope)
        if not isinstance(reading, Pending):
            start, survives_disconnect = self._prepare_stream(call, protocol, arrival, is_unrevoked)
            await _stream_call(
                scope, exchange, reading, start, survives_disconnect=survives_disconnect, is_unrevoked=is_unrevoked
            )
            return
        began = 0.0 if is_unrevoked is None else asyncio.get_running_loop().time()
        if not call.key:  # a recorded call continues: the same call sent again gets its result
            exchange.cancel_on_disconnect()
        if reading.as_event:
            self._silences.watch(exchange, fields)
        try:
            result, duration = await (
                self._run_waiting(exchange, call, protocol, arrival, is_unrevoked)
                if call.context.inbox_wait_s
                else self._start_run(call, protocol, arrival)
            )
        except asyncio.CancelledError:
            # The client has gone, so no response is needed. Any other cancellation is one of the server.
            if not exchange.is_disconnected():
                raise
            return
        finally:
            exchange.ignore_disconnect()
            body = self._silences.stop(exchange) if reading.as_event else None
        # D-38: as in a stream, who has lost their access learns of no result.
        is_slow = is_unrevoked is not None and asyncio.get_running_loop().time() - began >= CHECK_S
        if is_slow and is_unrevoked is not None and not await is_unrevoked():
            _report_revoked(call)
            result = REVOKED
        response = await _build_response(reading, call, result, duration)
        if call.tool.long:
            response = add_call_location(response, result, scope, request)
        if body is not None:
            await body.close(sse.write("message", response.body))
        # The fast way writes head and body at once; servers of other makers get ASGI messages.
        elif not exchange.try_send_response(response):
            await send_messages(scope, exchange.send, response)

    def _start_run(
        self, call: Call, protocol: str, arrival: Arrival | None, notify: Notify = ignore_progress
    ) -> Awaitable[tuple[Result, float]]:
        """Run ``call``, with telemetry if it is on, and keep its secrets out of every log."""
        run, context, observer = self.service.run, call.context, self._observer
        if context.tokens or context.secrets:
            return self._run_hiding_secrets(call, protocol, arrival, notify)
        return run(call, notify) if observer is None else observer.run_call(run, call, notify, protocol, arrival)

    async def _run_hiding_secrets(
        self, call: Call, protocol: str, arrival: Arrival | None, notify: Notify
    ) -> tuple[Result, float]:
        with hide_secrets(call.context):
            if self._observer is None:
                return await self.service.run(call, notify)
            return await self._observer.run_call(self.service.run, call, notify, protocol, arrival)

    def _run_waiting(
        self,
        exchange: Exchange,
        call: Call,
        protocol: str,
        arrival: Arrival | None,
        is_unrevoked: IsStillAuthorized | None,
    ) -> Awaitable[tuple[Result, float]]:
        """Run ``call`` when its user has decided. While it waits, a recorded call ends with its client too."""
        waits, start = self._waits, partial(self._start_run, call, protocol, arrival)
        if waits is None:
            return start()
        return InboxWaiter(waits, call, start, exchange if call.key else None, is_unrevoked).run()

    def _prepare_stream(
        self, call: Call, protocol: str, arrival: Arrival | None, is_unrevoked: IsStillAuthorized | None
    ) -> tuple[StartCall, Callable[[], bool]]:
        """Return what runs a ``call`` that streams, and what says whether it continues if its client leaves now."""
        start = partial(self._start_run, call, protocol, arrival)
        if not call.context.inbox_wait_s or self._waits is None:
            return start, partial(bool, call.key)
        waiting = InboxWaiter(self._waits, call, start, None, is_unrevoked)  # the stream watches its client by itself
        return waiting.run, waiting.survives_disconnect


async def _build_response(pending: Pending, call: Call, result: Result, duration: float) -> Response:
    """Return the response to ``call``; that with a large value is written in a thread."""
    if isinstance(result, Value) and type(result.value) in COLLECTIONS and is_large(result.value):
        return await build_large_response(pending, call, result, duration)
    return build_response(pending, call, result, duration)


async def _stream_call(
    scope: Scope,
    exchange: Exchange,
    streaming: Streaming,
    start: StartCall,
    *,
    survives_disconnect: Callable[[], bool],
    is_unrevoked: IsStillAuthorized | None,
) -> None:
    """Send the progress and the result of a call as a stream.

    If the client disconnects, the call is cancelled, unless ``survives_disconnect`` returns true, as for a recorded
    call: then the client can ask for its result later. The same happens when ``is_unrevoked`` returns False, after a
    refusal. A problem before anything was sent is sent as a usual response with its own status.
    """
    body = _CallBody(scope, exchange, streaming)

    async def watch_disconnect() -> None:
        await wait_for_disconnect(exchange)
        leave()

    async def watch_access(is_unrevoked: IsStillAuthorized) -> None:
        await asyncio.sleep(CHECK_S)
        while await is_unrevoked():  # noqa: ASYNC110 - a revocation elsewhere tells nobody
            await asyncio.sleep(CHECK_S)
        if not body.over.is_set():
            _report_revoked(streaming.call)
            with anyio.move_on_after(CHECK_S):  # its client may not read
                await body.end(REVOKED, 0.0)
            leave()

    def leave() -> None:
        body.is_gone = True
        if not survives_disconnect():
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch_disconnect)
        if is_unrevoked is not None:
            group.start_soon(watch_access, is_unrevoked)
        if streaming.comment:
            group.start_soon(body.break_silence)
        result, duration = await start(body.write_progress)
        await body.end(result, duration)
        group.cancel_scope.cancel()


def _report_revoked(call: Call) -> None:
    _log.warning("Call %s of %s got no result: the access of its caller was revoked.", call.call_id, call.tool.id)


class _StreamBody:
    """A response that is a stream, which begins with the first thing that is written."""

    def __init__(self, exchange: Exchange, headers: Headers, opening: bytes, comment: bytes) -> None:
        self._send, self._headers, self._opening, self._comment = exchange.send, headers, opening, comment
        self._lock, self._written = asyncio.Lock(), 0
        self.is_open: bool = False
        self.is_gone: bool = False
        self.over = asyncio.Event()
        self.breaking: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        """Send ``data``, unless there is none or the client has gone."""
        if self.is_gone or not data:
            return
        async with self._lock:
            self._written += 1
            if not self.is_open:
                self.is_open = True
                start = {"type": "http.response.start", "status": 200, "headers": list(self._headers)}
                await self._send(start)
                await self._send({"type": "http.response.body", "body": self._opening, "more_body": True})
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def close(self, data: bytes) -> None:
        """Send ``data`` as the end of the stream."""
        await self.write(data)
        await self._send({"type": "http.response.body", "body": b""})

    async def break_silence(self, silent_s: float = 0.0) -> None:
        """Send a comment whenever the call has reported nothing for a while: proxies end a silent connection.

        It has reported nothing for ``silent_s`` seconds so far.
        """
        while not self.over.is_set():
            before = self._written
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), KEEP_ALIVE_S - silent_s)
            if self._written == before and not self.over.is_set():
                with suppress(OSError):  # servers of other makers raise it if the client has gone
                    await self.write(self._comment)
            silent_s = 0.0


class _CallBody(_StreamBody):
    """The response of a call that streams its progress."""

    def __init__(self, scope: Scope, exchange: Exchange, streaming: Streaming) -> None:
        super().__init__(exchange, streaming.headers, streaming.opening, streaming.comment)
        self._scope, self._exchange, self._streaming = scope, exchange, streaming

    async def end(self, result: Result, duration: float) -> None:
        """Send how the call ended, unless the client has gone or the response is over."""
        if self.over.is_set() or self.is_gone:
            return
        self.over.set()
        streaming = self._streaming
        # Nothing was sent yet, so the status can still say what went wrong.
        if isinstance(result, Problem) and result.kind not in AFTER_START and not self.is_open:
            await send_response(self._scope, self._exchange, streaming.refuse(result))
        elif streaming.answer is not None and not self.is_open:
            pending = Pending(streaming.call, streaming.answer)
            response = await _build_response(pending, streaming.call, result, duration)
            await send_response(self._scope, self._exchange, response)
        else:
            await self.close(build_stream_end(streaming, result, duration))

    async def write_progress(self, progress: Progress) -> None:
        """Send one Progress in the format of the protocol."""
        if not self.over.is_set():
            await self.write(self._streaming.frame(progress))


class _Silences:
    """Begins the responses to silent calls as event streams, which end with the result of the call.

    One timer serves all calls, so one that ends soon costs an entry in a dictionary.
    """

    # I-32

    def __init__(self) -> None:
        self._waiting: dict[Exchange, tuple[float, Mapping[bytes, bytes]]] = {}  # the oldest first
        self._begun: dict[Exchange, _StreamBody] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop with the timer, if one is set."""

    def watch(self, exchange: Exchange, fields: Mapping[bytes, bytes]) -> None:
        """Begin the response of ``exchange``, whose request has ``fields``, unless ``stop`` is called before."""
        loop = asyncio.get_running_loop()
        self._waiting[exchange] = loop.time() + KEEP_ALIVE_S, fields
        if loop is not self._loop:
            self._loop = loop
            loop.call_later(KEEP_ALIVE_S, self._begin_streams, loop)

    def stop(self, exchange: Exchange) -> _StreamBody | None:
        """Return the body of ``exchange`` if its response has begun. It gets no more comments."""
        if self._waiting.pop(exchange, None) is not None:
            return None
        body = self._begun.pop(exchange, None)
        if body is not None:
            body.over.set()
        return body

    def _begin_streams(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            exchange, (due, fields) = next(iter(self._waiting.items()))
            if due > loop.time():
                loop.call_at(due, self._begin_streams, loop)
                return
            del self._waiting[exchange]
            if exchange.has_connection and b"text/event-stream" in fields.get(b"accept", b"").lower():
                body = self._begun[exchange] = _StreamBody(exchange, EVENT_HEADERS, b"", sse.COMMENT)
                body.breaking = loop.create_task(body.break_silence(KEEP_ALIVE_S))
        self._loop = None


def _build_arrival(request: Request, scope: Scope) -> Arrival:
    client = scope.get("client")
    return Arrival(request, client[0] if client else "", scope.get("http_version", ""))
