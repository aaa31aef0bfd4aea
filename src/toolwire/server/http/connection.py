"""Read requests from one connection, limit how slow and how large they may be, and start their exchanges.

**Rules**
- A request costs two small comparisons and no timer: one timer for each connection checks all deadlines.
- A refusal never overtakes the responses to earlier requests of the same connection.
- What cannot be parsed is answered in JSON; the connection then closes, after the client had time to read the answer.
- A request that a proxy could read as one for another host, or with another body, is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any

import httptools

from toolwire.core.model import Kind

from .deadlines import DEADLINES, Deadlines
from .flow_control import FlowControl
from .refusal import RefusalApp, build_closing_headers, build_refusal_body
from .request_cycle import STATUS_LINES, RequestCycle
from .request_syntax import (
    FIELD_OVERHEAD,
    TrailerSink,
    build_body_parser,
    has_other_authority,
    parse_request_target,
)
from .trusted_proxies import TrustedProxies
from .uvicorn_interface import UvicornConfig, UvicornState

BUFFERED_BODY_BYTES = 64 * 1024
"""How much of a body may wait for the application before no more is read from the socket."""

LINGER_S = 1.0
"""How long a refused client may go on sending, unread, so that it can read the refusal, in seconds."""

_PARSED_AT_ONCE = 2_048
"""How many bytes are parsed at once where they may hold many requests."""


class HttpConnection(asyncio.Protocol):
    """One HTTP/1.1 connection, under ``config.deadlines`` or the default deadlines."""

    transport: asyncio.Transport
    flow: FlowControl

    def __init__(
        self,
        config: UvicornConfig,
        server_state: UvicornState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        **_newer: object,
    ) -> None:
        """Prepare a connection. uvicorn gives these by keyword; any that a later version adds are ignored."""
        self.server_state = server_state
        self.access_log: bool = config.access_log
        self.pipeline: deque[tuple[RequestCycle, Any]] = deque()
        self.on_lost: Callable[[], None] | None = None
        self._app = config.loaded_app
        self._app_state = app_state
        self._note_probe: Callable[[], None] | None = getattr(config.loaded_app, "note_probe", None)
        self._root_path = config.root_path
        self._proxies: TrustedProxies | None = getattr(config, "trusted_proxies", None)
        self._is_proxied = False
        self._loop = _loop or asyncio.get_running_loop()
        self._deadlines: Deadlines = getattr(config, "deadlines", DEADLINES)
        self._check_every = min(self._deadlines.head_s, self._deadlines.idle_s)
        self._max_head_bytes = self._deadlines.head_bytes
        self._max_head_fields = self._deadlines.head_fields
        self._parser: Any = httptools.HttpRequestParser(self)  # None once the connection is lost
        # A request with "connection: close" is answered even if more bytes follow it; they are not parsed.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._last_cycle: RequestCycle | None = None  # of the request whose head was parsed last
        self._running_cycle: RequestCycle | None = None  # the same, or one that is before it in the pipeline
        self._trailer = TrailerSink(self._max_head_bytes, lambda: self._last_cycle, self._refuse_large_head)
        self._headers: Any = []  # takes header fields: the list of the current head, then self._trailer
        self._target = b""
        self._scope: dict[str, Any] = {}
        self._in_head = False
        self._unknown_coding = False
        self._ignores_input = False
        # Times of the event loop's clock, in seconds
        self._head_since = 0.0
        self._idle_since = 0.0
        self._unread_since = 0.0  # since when the client has read nothing of what was sent
        # Sizes in bytes
        self._unsent = -1
        self._chunk = 0  # what is being parsed
        self._head_at_most = 0
        self._head_at_least = 0
        self._since_body = 0

    # asyncio.Protocol, and shutdown() for uvicorn

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # sockets have no other
        """Start the connection and its one timer."""
        self.transport = transport
        self.flow = FlowControl(transport, self.pipeline, self._deadlines.pipelined)
        self.server_state.connections.add(self)
        self._head_since = self._loop.time()
        self._timer = self._loop.call_later(self._check_every, self._check_deadlines)
        server, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        # A client of IPv4 at a socket for both counts, and is trusted, as one of IPv4.
        client = (peer[0].removeprefix("::ffff:"), peer[1]) if isinstance(peer, tuple) else None
        self._scope_of_all: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            # A Unix socket has a path, and its client no address.
            "server": tuple(server[:2]) if isinstance(server, tuple) else (server, None) if server else None,
            "client": client,
            "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
            "root_path": self._root_path,
        }
        is_known = client is not None or isinstance(server, (str, bytes))
        address = None if client is None else client[0]
        self._is_proxied = self._proxies is not None and is_known and self._proxies.trusts(address)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature of asyncio.Protocol
        """Stop the timer, and tell every exchange that its client has gone."""
        self._timer.cancel()
        self.server_state.connections.discard(self)
        if self.on_lost is not None:
            self.on_lost()
        for cycle in (self._running_cycle, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnect()
        self.flow.resume_writing()  # whatever waits to send finds that the client has gone
        # Exchanges and the parser refer back to this connection: without them it is freed at once, not by the garbage
        # collector.
        self._last_cycle = self._running_cycle = None
        self._parser = self._headers = None
        del self._trailer
        self.flow.unread = b""
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; large data piece by piece, until as many requests wait as may."""
        if self._ignores_input:
            return
        if len(data) > _PARSED_AT_ONCE or self.flow.has_waiting():
            self.flow.unread += data
            self._parse_unread()
        else:
            self._parse(data)

    def pause_writing(self) -> None:
        """Note since when the client reads nothing."""
        self._unread_since = self._loop.time()
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """Let responses be sent again."""
        self.flow.resume_writing()

    @property
    def is_unused(self) -> bool:
        """Whether no request has come yet."""
        return self._last_cycle is None and not self.transport.is_closing()

    def shutdown(self) -> None:
        """Close the connection after the response to the last request that was read."""
        if self._last_cycle is not None and not self._last_cycle.response_complete:
            self._last_cycle.keep_alive = False
        else:
            self.transport.close()

    # Parsing

    def _parse_unread(self) -> None:
        """Parse what arrived until as many requests wait as may; read on if nothing is left."""
        if self.transport.is_closing():
            return
        data, at = memoryview(self.flow.unread), 0
        while at < len(data) and len(self.pipeline) < self._deadlines.pipelined and not self._ignores_input:
            end = at + max(_PARSED_AT_ONCE, self._count_missing_body())  # the rest of a body holds no request
            self._parse(data[at:end])
            at = end
        self.flow.unread = b"" if self._ignores_input else bytes(data[at:])
        if self.flow.unread:
            self.flow.pause_reading()
        elif self._last_cycle is None or len(self._last_cycle.body) <= BUFFERED_BODY_BYTES:
            self.flow.resume_reading()

    def _count_missing_body(self) -> int:
        """Return how many bytes of the current body are still to come; 0 where its length was not announced."""
        cycle = self._last_cycle
        if cycle is None or self._in_head or not cycle.more_body:
            return 0
        lengths = [value for name, value in cycle.scope["headers"] if name == b"content-length"]
        return int(lengths[0]) - cycle.received if lengths else 0  # the parser accepted it, so it is a number

    def _parse(self, data: bytes | memoryview) -> None:
        self._chunk = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._continue_without_upgrade(bytes(data[upgrade.args[0] :]))
        except httptools.HttpParserError:
            self._refuse(400, Kind.MALFORMED, "This is not an HTTP/1.1 request.")
        if self._in_head:
            self._count_head()
        elif self._last_cycle is not None and self._last_cycle.more_body:
            self._count_since_body()

    def _continue_without_upgrade(self, rest: bytes) -> None:
        """Serve an upgrade request as a usual one, the last of its connection. ``rest`` begins its body, if any."""
        cycle = self._last_cycle
        if cycle is None:  # never so: the parser has just called on_headers_complete
            return
        cycle.keep_alive = False
        try:
            parser = build_body_parser(cycle.scope["headers"], self.on_body, self.on_message_complete)
            if parser is None:
                self._ignores_input = True
                return
            cycle.reopen_body()
            self._parser = parser
            parser.feed_data(rest)
        except httptools.HttpParserError:
            self._refuse(400, Kind.MALFORMED, "The framing of the request body is not valid in HTTP/1.1.")

    # What httptools calls

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        self._in_head = True
        self._target = b""
        self._head_at_most = self._since_body = 0
        headers: list[tuple[bytes, bytes]] = []
        self._headers = headers
        self._scope = scope = self._scope_of_all.copy()
        scope["headers"] = headers
        scope["state"] = self._app_state.copy()

    def on_url(self, part: bytes) -> None:
        """Add a part of the request target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field of the head, or of the trailer."""
        name = name.lower()
        self._headers.append((name, value))
        # D-24: llhttp reads the chunks of "gzip, chunked" and leaves what is in them coded.
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            self._unknown_coding = True

    def on_headers_complete(self) -> None:
        """Start the exchange of the request, or of its refusal if its head is too large."""
        app = self._app
        # R10: the exact size is counted only where the bytes that arrived could hold too large a head.
        if len(self._headers) > self._max_head_fields or (
            self._head_at_most + self._chunk > self._max_head_bytes and self._count_exact_head() > self._max_head_bytes
        ):
            app = RefusalApp(431, Kind.TOO_LARGE, self._describe_head_limits())
        elif self._unknown_coding:
            app = RefusalApp(501, Kind.UNSUPPORTED_TYPE, "Only the transfer coding chunked is supported.")
        elif not self._target.startswith(b"/") and has_other_authority(self._target, self._headers):
            text = "The request target and the Host header name different hosts."
            app = RefusalApp(400, Kind.MALFORMED, text)
        self._unknown_coding = False
        scope, parser = self._scope, self._parser
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        if self._target == b"/health" and self._note_probe is not None:
            self._note_probe()
        scope["path"], scope["raw_path"], scope["query_string"] = parse_request_target(self._target)
        if root := self._root_path:
            scope["path"], scope["raw_path"] = root + scope["path"], root.encode("ascii") + scope["raw_path"]
        if self._is_proxied and self._proxies is not None:
            self._proxies.apply(scope)
        before = self._last_cycle
        self._last_cycle = cycle = RequestCycle(self, scope, keep_alive=version != "1.0" and parser.should_keep_alive())
        self._in_head = False
        self._headers = self._trailer  # fields that come after the body do not join those of the head
        if before is None or before.response_complete:
            self._start(cycle, app)
        else:
            self.pipeline.appendleft((cycle, app))
            if self.flow.is_full():
                self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body on; read no more while the application has much of it to take."""
        self._since_body = -self._chunk  # the chunk that holds this piece counts as body
        cycle = self._last_cycle
        if cycle is None:
            return
        cycle.received += len(body)
        if cycle.response_complete:
            return
        cycle.add_body(body)
        if len(cycle.body) > BUFFERED_BODY_BYTES:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Note that the body is complete."""
        cycle = self._last_cycle
        if cycle is not None and not cycle.response_complete:
            cycle.end_body()

    # Exchanges

    def _start(self, cycle: RequestCycle, app: Any) -> None:
        self._running_cycle = cycle
        tasks = self.server_state.tasks
        cycle.task = task = self._loop.create_task(cycle.run(app, tasks))
        tasks.add(task)

    def on_response_complete(self) -> None:
        """Start the next request of the pipeline, or note since when the connection is idle."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start(*self.pipeline.pop())
        else:
            self._idle_since = self._loop.time()
        if self.flow.unread:
            self._loop.call_soon(self._parse_unread)
        elif self.flow.read_paused:
            self.flow.resume_reading()

    def _is_answering(self) -> bool:
        return self._last_cycle is not None and not self._last_cycle.response_complete

    # Time

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        wait = self._check_every
        if self.transport.is_closing() or self._is_answering():
            if self._is_stalled(now):
                self.transport.abort()
                return
        else:
            left = self._compute_time_left(now)
            if left <= 0:
                self._close_slow()
            else:
                wait = min(wait, left)
        self._timer = self._loop.call_later(wait, self._check_deadlines)

    def _compute_time_left(self, now: float) -> float:
        """Return how many seconds the client still has to complete a head, or to begin the next one."""
        if self._last_cycle is None or self._in_head:
            return self._deadlines.head_s - (now - self._head_since)
        return self._deadlines.idle_s - (now - self._idle_since)

    def _is_stalled(self, now: float) -> bool:
        """Return whether the client has read nothing of what was sent for too long."""
        if self.transport.is_closing():
            # A closing transport does not call pause_writing any more, so its buffer shows whether the client reads.
            unsent = self.transport.get_write_buffer_size()
            if unsent != self._unsent:
                self._unsent, self._unread_since = unsent, now
        elif not self.flow.write_paused:
            return False
        return now - self._unread_since >= self._deadlines.stall_s

    def _close_slow(self) -> None:
        if self._in_head and not self._ignores_input:
            text = f"The request head was not complete after {self._deadlines.head_s:g} s."
            self._write_refusal(408, build_refusal_body(Kind.TOO_SLOW, text))
        self.transport.close()

    # Size

    def _count_head(self) -> None:
        """Count the last chunk towards the head that is not complete yet."""
        if self._head_at_most:
            self._head_at_least += self._chunk
        else:
            self._head_since = self._loop.time()
            before = self._last_cycle
            # A chunk may end an earlier request and begin this head; only where no request is open it is all head.
            is_alone = before is None or (before.response_complete and not before.more_body)
            self._head_at_least = self._chunk if is_alone else 0
        self._head_at_most += self._chunk
        if self._head_at_least > self._max_head_bytes:
            self._refuse_large_head()

    def _count_since_body(self) -> None:
        """Count what follows the body so far and is none of it: a parser keeps an unfinished field in memory."""
        self._since_body += self._chunk
        if self._since_body > self._max_head_bytes:
            self._refuse_large_head()

    def _count_exact_head(self) -> int:
        fields = self._headers
        return len(self._target) + FIELD_OVERHEAD * len(fields) + sum(map(len, chain.from_iterable(fields)))

    def _describe_head_limits(self) -> str:
        return (
            f"The request head is larger than {self._max_head_bytes:,} bytes or has more than "
            f"{self._max_head_fields} fields."
        )

    # Refusals

    def _refuse_large_head(self) -> None:
        self._refuse(431, Kind.TOO_LARGE, self._describe_head_limits())

    def _refuse(self, status: int, kind: Kind, message: str) -> None:
        """Answer ``status`` in place of the request that cannot be parsed, and ignore everything after it."""
        if self._ignores_input:
            return
        self._ignores_input = True
        last, waiting = self._last_cycle, self.pipeline
        if last is None:
            self._answer_refusal(status, kind, message)
        elif not last.response_complete and not last.more_body:
            last.keep_alive = False  # the bad bytes follow a good request, whose response is the last
        elif waiting and waiting[0][0] is last:  # its body is bad: it is refused when its turn comes
            last.keep_alive = last.more_body = False
            waiting[0] = (last, RefusalApp(status, kind, message))
        elif waiting or (not last.response_complete and last.response_started):
            self.transport.close()
        elif last.response_complete and last.more_body:  # the request with the bad body has had its response
            self._linger()
        else:
            self._answer_refusal(status, kind, message)

    def _answer_refusal(self, status: int, kind: Kind, message: str) -> None:
        self._write_refusal(status, build_refusal_body(kind, message))
        self._linger()

    def _write_refusal(self, status: int, body: bytes) -> None:
        head = [STATUS_LINES[status]]
        for name, value in (*self.server_state.default_headers, *build_closing_headers(body)):
            head += (name, b": ", value, b"\r\n")
        self.transport.write(b"".join((*head, b"\r\n", body)))
        if self._last_cycle is not None and not self._last_cycle.response_complete:
            self._last_cycle.abandon()

    def _linger(self) -> None:
        """Close in a moment: closing a socket with unread bytes would take back what was sent."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer.cancel()
        self._timer = self._loop.call_later(LINGER_S, self.transport.close)
