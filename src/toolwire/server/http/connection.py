"""One HTTP connection that is neither slow nor large for long: uvicorn's own, with the deadlines it lacks.

**Rules**
- A request pays for two small comparisons and no timer: one for each connection looks at what is awaited.
- A refusal never comes before the answers of earlier requests on the same connection.
- Whatever cannot be read is answered in JSON and closed, after the peer had a moment to read the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from itertools import chain
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from toolwire.core.model import Kind

from .deadlines import DEADLINES, Deadlines
from .refusal import RefusalApp, closing, refusal
from .request_cycle import RequestCycle
from .request_target import read_target
from .trailer import FIELD_SIGNS, TrailerReader
from .upgrades import stay

_PIECE = 2_048
"""How much of what arrived is parsed at once while it may hold many requests, in bytes."""

LINGER_S = 1.0
"""How long a refused peer may go on sending, unheard, so that it can read the refusal, in seconds."""


class Reading(FlowControl):
    """uvicorn's flow control, under which nothing is read while ``most`` requests that were read before wait.

    ``pipeline`` is the connection's queue of such requests; ``unread`` is what arrived and was not parsed yet.
    As long as it reads, a connection notices that its client has gone.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: Sized, most: int) -> None:
        super().__init__(transport)
        self._pipeline = pipeline
        self._most = most
        self.unread = b""

    def is_full(self) -> bool:
        """Return whether as many requests wait as may."""
        return bool(self.unread) or len(self._pipeline) >= self._most

    def has_waiting(self) -> bool:
        """Return whether a request, or what may be one, waits for the answers of those before it."""
        return bool(self._pipeline or self.unread)

    def resume_reading(self) -> None:
        """Read on, unless there is enough to do: whoever waits for a body calls this, and so does every answer."""
        if self.read_paused and not self.is_full():
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """A connection under ``config.deadlines``; under the default deadlines where the config has none."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        limits: Deadlines = getattr(config, "deadlines", DEADLINES)
        self._limits = limits
        self.access_log = self.access_log and config.access_log  # a handler of the process is not who asked for one
        self.scope = cast("Any", {"method": ""})  # as after a head: none has begun
        self._head_bytes = limits.head_bytes
        self._head_fields = limits.head_fields
        self._every = min(limits.head_s, limits.idle_s)
        self._awaited: object = None
        self._since = 0.0
        self._idle_since = 0.0
        self._paused = 0.0
        self._unsent = -1
        self._chunk = 0
        self._at_most = 0
        self._at_least = 0
        self._rest = 0
        self._current: Any = None
        self._trailer: Any = TrailerReader(limits.head_bytes, lambda: self.cycle, self._too_long)
        self.deaf = False

    # What uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the one timer that this connection has."""
        super().connection_made(transport)
        self.flow: Any = Reading(transport, self.pipeline, self._limits.pipelined)  # where uvicorn has its own
        self._since = self.loop.time()
        self._timer = self.loop.call_later(self._every, self._look)
        self._usual_scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": self.root_path,
        }

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and let go of exchanges: they hold this connection, which would not go by itself."""
        self._timer.cancel()
        cycles: list[Any] = [self._current, *(cycle for cycle, _ in self.pipeline)]  # uvicorn knows the last one alone
        for cycle in cycles:
            if cycle is not None:
                cycle.disconnect()
        super().connection_lost(exc)
        nothing: Any = None
        self.cycle = self._current = nothing
        self._trailer = self.headers = nothing
        self.flow.unread = b""
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what may hold many requests only piece by piece, and no more than may wait."""
        if self.deaf:
            return
        if len(data) > _PIECE or self.flow.has_waiting():
            self.flow.unread += data
            self._feed_unread()
        else:
            self._feed(data)

    def _feed_unread(self) -> None:
        """Feed the parser as far as the limit of waiting requests lets it; read on where nothing is left."""
        if self.transport.is_closing():
            return
        data, at = memoryview(self.flow.unread), 0
        while at < len(data) and len(self.pipeline) < self._limits.pipelined and not self.deaf:
            end = at + max(_PIECE, self._body_left())  # in the rest of a body there is no request
            self._feed(data[at:end])
            at = end
        self.flow.unread = b"" if self.deaf else bytes(data[at:])
        if self.flow.unread:
            self.flow.pause_reading()
            return
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or len(cycle.body) <= HIGH_WATER_LIMIT:
            self.flow.resume_reading()

    def _body_left(self) -> int:
        """Return how many bytes of the current body are still to come, as far as its length was said beforehand."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or self._in_head() or not cycle.more_body:
            return 0
        said = [value for name, value in cycle.scope["headers"] if name == b"content-length"]
        return int(said[0]) - cycle.received if said else 0  # the parser took it, so it is a number

    def _feed(self, data: bytes | memoryview) -> None:
        """Feed the parser, and count what belongs to a head that is not whole yet."""
        self._chunk = len(data)
        try:
            parser: Any = self.parser  # None once the connection is lost, and then nothing comes
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            stay(self, bytes(data[upgrade.args[0] :]))
        except httptools.HttpParserError:
            self.refuse(400, Kind.MALFORMED, "This is not a request of HTTP/1.1.")
        cycle: Any = self.cycle  # None before the first request
        if "method" not in self.scope:
            self._count()
        elif cycle is not None and cycle.more_body:
            self._count_rest()

    def on_message_begin(self) -> None:
        """Begin a scope from what all requests of this connection have in common."""
        self.url = b""
        self._rest = 0
        headers: list[tuple[bytes, bytes]] = []
        self.headers = headers
        self.scope = scope = self._usual_scope.copy()
        scope["headers"] = headers
        scope["state"] = self.app_state.copy()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a field of the head."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Start the request, or its refusal where the head has too many fields or bytes. [R10]"""
        app: Any = self.app
        if len(self.headers) > self._head_fields or (
            self._at_most + self._chunk > self._head_bytes and self._head_size() > self._head_bytes
        ):
            app = RefusalApp(431, Kind.TOO_LARGE, self._head_limits())
        scope: Any = self.scope
        parser: Any = self.parser
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        scope["path"], scope["raw_path"], scope["query_string"] = read_target(self.url)
        if root := self.root_path:
            scope["path"], scope["raw_path"] = root + scope["path"], root.encode("ascii") + scope["raw_path"]
        before: Any = self.cycle  # None before the first request
        cycle = RequestCycle(self, scope, keep_alive=version != "1.0" and parser.should_keep_alive())
        self.cycle = cycle
        self.headers = self._trailer  # whatever comes now is none of the head's
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, app)
        else:
            self.pipeline.appendleft((cycle, app))
            if self.flow.is_full():
                self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of a body, and let no more come than whoever reads it takes."""
        self._rest = -self._chunk  # there was some of a body in what came last
        cycle: Any = self.cycle
        cycle.received += len(body)
        if cycle.response_complete:
            return
        if not cycle.body:  # one piece is taken as it is, and copied only where another follows
            cycle.body = body
        elif type(cycle.body) is bytes:
            cycle.body = bytearray(cycle.body) + body
        else:
            cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        if cycle.event is not None:
            cycle.event.set()

    def on_message_complete(self) -> None:
        """Note that the body is whole."""
        cycle: Any = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            if cycle.event is not None:
                cycle.event.set()

    def on_response_complete(self) -> None:
        """Start the request that waits, or note since when nothing is asked."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()
        if self.flow.unread:
            self.loop.call_soon(self._feed_unread)
        elif self.flow.read_paused:
            self.flow.resume_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._current = cycle
        cycle.task = self.loop.create_task(cycle.run(app, self.tasks))
        self.tasks.add(cycle.task)

    def pause_writing(self) -> None:
        """Note since when the peer takes nothing."""
        self._paused = self.loop.time()
        super().pause_writing()

    # Time

    def _look(self) -> None:
        now = self.loop.time()
        wait = self._every
        if self.transport.is_closing() or self._answering():
            if self._stalled(now):
                self.transport.abort()
                return
        else:
            left = self._left(now)
            if left <= 0:
                self._too_slow()
            else:
                wait = min(wait, left)
        self._timer = self.loop.call_later(wait, self._look)

    def _left(self, now: float) -> float:
        """Return for how long the peer may still say nothing that ends the wait for a whole head."""
        before: Any = self.cycle  # None before the first request
        if before is None or self._in_head():
            return self._limits.head_s - self._waited(now)
        return self._limits.idle_s - (now - self._idle_since)

    def _stalled(self, now: float) -> bool:
        """Return whether the peer takes nothing of what it is sent, for too long."""
        if self.transport.is_closing():  # only what is left is sent now
            unsent = self.transport.get_write_buffer_size()
            if unsent != self._unsent:
                self._unsent, self._paused = unsent, now
        elif not self.flow.write_paused:
            return False
        return now - self._paused >= self._limits.stall_s

    def _waited(self, now: float) -> float:
        """Return how long the same head is awaited, the first of a connection or the rest of another."""
        awaited = self.scope if self._in_head() else None
        if awaited is not self._awaited:
            self._awaited, self._since = awaited, now
        return now - self._since

    def _too_slow(self) -> None:
        if self._in_head() and not self.deaf:
            text = f"The request head was not whole after {self._limits.head_s:g} s."
            self._write(408, refusal(Kind.TOO_SLOW, text))
        self.transport.close()

    # Size

    def _count(self) -> None:
        """Count the last chunk towards a head that is not whole, as far as it is known to belong to it."""
        if self._awaited is not self.scope:
            self._awaited, self._since = self.scope, self.loop.time()
            before: Any = self.cycle  # None before the first request
            alone = before is None or (before.response_complete and not before.more_body)
            self._at_most = self._chunk
            self._at_least = self._chunk if alone else 0
        else:
            self._at_most += self._chunk
            self._at_least += self._chunk
        if self._at_least > self._head_bytes:
            self.refuse(431, Kind.TOO_LARGE, self._head_limits())

    def _count_rest(self) -> None:
        """Count what comes after a head and has no body in it: the parser keeps a field until it ends."""
        self._rest += self._chunk
        if self._rest > self._head_bytes:
            self._too_long()

    def _head_size(self) -> int:
        return len(self.url) + FIELD_SIGNS * len(self.headers) + sum(map(len, chain.from_iterable(self.headers)))

    def _head_limits(self) -> str:
        return f"A request head has at most {self._head_bytes:,} bytes and {self._head_fields} fields here."

    # State

    def _in_head(self) -> bool:
        return "method" not in self.scope

    def _answering(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    # Refusals

    def _too_long(self) -> None:
        self.refuse(431, Kind.TOO_LARGE, self._head_limits())

    def refuse(self, status: int, kind: Kind, message: str) -> None:
        """Answer ``status`` in the place of the request that cannot be read, and hear no more."""
        if self.deaf:
            return
        self.deaf = True
        last: Any = self.cycle  # None before the first request
        waiting: Any = self.pipeline
        if self._answering() and not last.more_body:
            last.keep_alive = False
        elif waiting and waiting[0][0] is last:  # it waits for the answers of others, and then is refused
            last.keep_alive = last.more_body = False
            waiting[0] = (last, RefusalApp(status, kind, message))
        elif waiting or (self._answering() and last.response_started):
            self.transport.close()
        elif last is not None and last.response_complete and last.more_body:  # it has had its answer
            self._linger()
        else:
            self._write(status, refusal(kind, message))
            self._linger()

    def _write(self, status: int, body: bytes) -> None:
        head = [STATUS_LINE[status]]
        for name, value in (*self.server_state.default_headers, *closing(body)):
            head += (name, b": ", value, b"\r\n")
        self.transport.write(b"".join((*head, b"\r\n", body)))
        if self._answering():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.cycle.response_complete = True

    def _linger(self) -> None:
        """Close in a moment: a close on bytes that nobody read would take back what was sent."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer.cancel()
        self._timer = self.loop.call_later(LINGER_S, self.transport.close)
