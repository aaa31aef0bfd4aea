"""One HTTP connection that is neither slow nor large for long: uvicorn's own, with the deadlines it lacks.

**Rules**
- A request pays for two small comparisons; time is looked at once per connection and deadline, not per request.
- A refusal never comes before the answers of earlier requests on the same connection.
- Whatever cannot be read is answered in JSON and closed, after the peer had a moment to read the answer.
"""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any, cast

import httptools
import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from toolwire.core.model import Kind

from .deadlines import DEADLINES, Deadlines
from .wire import Receive, Scope, Send

LINGER_S = 1.0
"""How long a refused peer may go on sending, unheard, so that it can read the refusal, in seconds."""

_FIELD_SIGNS = 4  # ": " and the line's end
_FRAMING = (b"content-length", b"transfer-encoding")


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
        self.scope = cast("Any", {"method": ""})  # as after a head: none has begun
        self._head_bytes = limits.head_bytes
        self._head_fields = limits.head_fields
        self._awaited: object = None
        self._since = 0.0
        self._paused = 0.0
        self._unsent = -1
        self._chunk = 0
        self._at_most = 0
        self._at_least = 0
        self._deaf = False

    # What uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the one timer that this connection has."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timer = self.loop.call_later(self._limits.head_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and count what belongs to a head that is not whole yet."""
        if self._deaf:
            return
        self._chunk = len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(400, Kind.MALFORMED, "This is not a request of HTTP/1.1.")
        if "method" not in self.scope:
            self._count()

    def on_headers_complete(self) -> None:
        """Start the request, or its refusal where the head has too many fields or bytes. [R10]"""
        if len(self.headers) > self._head_fields or (
            self._at_most + self._chunk > self._head_bytes and self._head_size() > self._head_bytes
        ):
            self.app = _Refusing(431, Kind.TOO_LARGE, self._head_limits())
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """Note since when the peer takes nothing."""
        self._paused = self.loop.time()
        super().pause_writing()

    # Time

    def _look(self) -> None:
        now = self.loop.time()
        wait = self._limits.head_s
        if self.transport.is_closing() or self._answering():
            if self._stalled(now):
                self.transport.abort()
                return
        elif self.timeout_keep_alive_task is None:
            wait -= self._waited(now)
            if wait <= 0:
                self._too_slow()
                wait = self._limits.head_s
        self._timer = self.loop.call_later(wait, self._look)

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
        """Return how long the same thing is awaited: the first head, the rest of a head, or of an unwanted body."""
        awaited = self.scope if self._in_head() else self.cycle
        if awaited is not self._awaited:
            self._awaited, self._since = awaited, now
        return now - self._since

    def _too_slow(self) -> None:
        if self._in_head() and not self._deaf:
            text = f"The request head was not whole after {self._limits.head_s:g} s."
            self._write(408, _body(Kind.TOO_SLOW, text))
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
            self._refuse(431, Kind.TOO_LARGE, self._head_limits())

    def _head_size(self) -> int:
        return len(self.url) + _FIELD_SIGNS * len(self.headers) + sum(map(len, chain.from_iterable(self.headers)))

    def _head_limits(self) -> str:
        return f"A request head has at most {self._head_bytes:,} bytes and {self._head_fields} fields here."

    # State

    def _in_head(self) -> bool:
        return "method" not in self.scope

    def _answering(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    # Refusals

    def _refuse(self, status: int, kind: Kind, message: str) -> None:
        """Answer ``status`` in the place of the request that cannot be read, and hear no more."""
        if self._deaf:
            return
        self._deaf = True
        if self._answering() and not self.cycle.more_body:
            self.cycle.keep_alive = False
        elif self.pipeline or (self._answering() and self.cycle.response_started):
            self.transport.close()
        else:
            self._write(status, _body(kind, message))
            self._linger()

    def _write(self, status: int, body: bytes) -> None:
        head = [STATUS_LINE[status]]
        for name, value in (*self.server_state.default_headers, *_headers(body)):
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

    # Upgrades

    def _stay(self, rest: bytes) -> None:
        """Serve a request that asked for another protocol as the HTTP/1.1 it is; ``rest`` begins its body."""
        cycle = self.cycle
        cycle.keep_alive = False
        framing = [(name, value) for name, value in self.headers if name in _FRAMING]
        if not framing:
            self._deaf = True
            return
        cycle.more_body = True
        cycle.message_event.clear()
        self.parser = httptools.HttpRequestParser(_Body(self))
        head = b"".join(b"%b: %b\r\n" % field for field in framing)
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n" + head + b"\r\n")
            self.parser.feed_data(rest)
        except httptools.HttpParserError:
            self._refuse(400, Kind.MALFORMED, "The body is not framed as HTTP/1.1 asks for.")


class _Body:
    """The parser's listener for one body; what follows it is not heard."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._whole = False

    def on_body(self, body: bytes) -> None:
        if not self._whole:
            self._connection.on_body(body)

    def on_message_complete(self) -> None:
        self._whole = True
        self._connection.on_message_complete()


class _Refusing:
    """An ASGI app that refuses every request alike and closes the connection."""

    def __init__(self, status: int, kind: Kind, message: str) -> None:
        self._status = status
        self._body = _body(kind, message)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self._status, "headers": _headers(self._body)})
        await send({"type": "http.response.body", "body": self._body})


def _body(kind: Kind, message: str) -> bytes:
    return orjson.dumps({"error": kind, "message": message})


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
