"""Exchange one request and its response: by ASGI messages, or on a shorter path for a usual response.

**Rules**
- Both paths send the same bytes. Whatever is unusual takes the path of ASGI messages.
- The header fields of a usual response are checked and written once, however often they are sent.
"""

from __future__ import annotations

import asyncio
import logging
import re
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import quote

from toolwire.core.http import Headers, Response
from toolwire.core.model import Kind

from .exchange import CLOSE, Exchange, Message, Scope
from .flow_control import FlowControl
from .refusal import RefusalApp
from .uvicorn_interface import UvicornState

_log = logging.getLogger("toolwire.server")
_access_log = logging.getLogger("uvicorn.access")  # the name that users of uvicorn know, and its formatters expect

_LENGTH_FIELD: Final = b"%b%d\r\n\r\n"
_WHOLE_RESPONSE: Final = _LENGTH_FIELD + b"%b"
_CACHED_HEADS: Final = 256
_COPIED_BODY_BYTES: Final = 4_096
"""The largest body that is copied next to its head; a larger one is passed to the socket as it is."""
_UNUSUAL_STATUS: Final = frozenset({204, 304, 408})
_USUAL_FIELDS: Final = frozenset(
    b"content-type cache-control etag vary retry-after retry-after-ms x-should-retry idempotent-replayed".split()
)
"""Fields with few values and no secret, so that heads can be cached: no cookies, no addresses, no framing."""
# RFC 9112, 6.3: a response with one of these ends with its head, as does any response to HEAD.
_BODILESS_STATUS: Final = (204, 304)
_FORBIDDEN_IN_NAME: Final = re.compile(rb'[\x00-\x20\x7f()<>@,;:\[\]={}\\"]')
_FORBIDDEN_IN_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def _write_status_line(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase if status in _PHRASED else ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


_PHRASED: Final = frozenset(map(int, HTTPStatus))
STATUS_LINES: Final = {status: _write_status_line(status) for status in range(100, 600)}
"""The first line of a response by its status."""


class CycleConnection(Protocol):
    """What a request cycle needs of its connection."""

    transport: asyncio.Transport
    flow: FlowControl
    access_log: bool
    server_state: UvicornState

    def on_response_complete(self) -> None:
        """Start the next request, if one waits."""
        ...


class RequestCycle(Exchange):
    """The exchange of the request whose head ``connection`` has just read, with ``receive`` and ``send`` of ASGI."""

    # Most requests change few of these, and an attribute of the class costs a request nothing.
    disconnected: bool = False
    body: bytes | bytearray = b""
    received = 0
    more_body: bool = True
    response_started: bool = False
    response_complete: bool = False
    _is_chunked = False
    _unsent: int | None = 0
    """How many bytes of the response body are missing; None where the end of the connection ends the body."""
    _event: asyncio.Event | None = None
    """Set when ``receive`` has something to return; None until something waits for that."""
    _cancels_on_disconnect = False
    _body_read = False
    _continue_sent = False
    task: asyncio.Task[None]

    def __init__(self, connection: CycleConnection, scope: Scope, *, keep_alive: bool) -> None:
        """Begin the exchange of ``scope``; without ``keep_alive`` its response is the connection's last."""
        self.connection = connection
        self.transport = connection.transport
        self.scope = scope
        self.keep_alive: bool = keep_alive

    async def run(self, app: Any, tasks: set[asyncio.Task[None]]) -> None:
        """Answer the request by ``app``, a ``GracefulShutdown`` or ``RefusalApp``; leave ``tasks`` at the end."""
        try:
            serve = app.serve
            await (app(self.scope, self.receive, self.send) if serve is None else serve(self.scope, self))
            if not (self.response_complete or self.disconnected):
                raise RuntimeError("The application returned before its response was complete.")
        except BaseException as error:  # noqa: BLE001 - one request must not end the server, whatever it raises
            await self._answer_failure(error)
        finally:
            # Here and not in a callback of the task, which would cost every request one more turn of the event loop.
            tasks.discard(self.task)

    async def _answer_failure(self, error: BaseException) -> None:
        # A cancelled call is no failure of the application: its client left, or the server stops. uvicorn logs the
        # number of calls that a stop cancels.
        if not isinstance(error, asyncio.CancelledError):
            _log.error("The application failed to answer a request.", exc_info=error)
        if self.disconnected:
            return
        if self.response_started:
            self.transport.close()  # the client must not take a part of a response for the whole
        else:
            await _FAILED(self.scope, self.receive, self.send)

    # ASGI

    async def receive(self) -> Message:
        """Return the next part of the body, or ``http.disconnect`` after the response or when the client has gone."""
        if not self._continue_sent:
            self._continue_sent = True
            if self._expects_continue() and not self.response_started and not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self.disconnected and not self.response_complete:
            self.connection.flow.resume_reading()
            event = self._make_event()
            await event.wait()
            event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _expects_continue(self) -> bool:
        """Return whether the client sends its body only after ``100 Continue``."""
        # Searched here and not while the head is parsed: few requests wait for a body, and all have a head.
        return self.scope["http_version"] != "1.0" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.scope["headers"]
        )

    def _make_event(self) -> asyncio.Event:
        event = self._event
        if event is None:
            event = self._event = asyncio.Event()
            has_news = not self._body_read and (self.body or not self.more_body)
            if has_news or self.disconnected or self.response_complete:
                event.set()
        return event

    def notify(self) -> None:
        """Wake whatever waits in ``receive``."""
        if self._event is not None:
            self._event.set()

    async def send(self, message: Message) -> None:
        """Send the head of the response, or a part of its body; wait first while the client reads slowly.

        Raises:
            RuntimeError: the message does not fit the messages before it, or a field is not one of HTTP.
        """
        if self.connection.flow.write_paused and not self.disconnected:
            await self.connection.flow.wait_until_writable()
        if self.disconnected:
            return
        expected = "http.response.body" if self.response_started else "http.response.start"
        if self.response_complete or message["type"] != expected:
            reason = "the response is complete" if self.response_complete else f"{expected} is expected"
            raise RuntimeError(f"Cannot send the message {message['type']}: {reason}.")
        if self.response_started:
            self._send_part(message.get("body", b""), more=message.get("more_body", False))
        else:
            self._send_head(message["status"], message.get("headers", ()))

    def _send_head(self, status: int, headers: Headers) -> None:
        fields = [(name.lower(), value) for name, value in (*self.connection.server_state.default_headers, *headers)]
        for name, value in fields:
            _check_field(name, value)
        fields += self._choose_framing(status, fields)
        self.response_started = True  # only now: where a field is unusable, a failure can still be answered
        if self.connection.access_log:
            self._log_access(status)
        lines = b"".join(b"%b: %b\r\n" % field for field in fields)
        self.transport.write(b"%b%b\r\n" % (STATUS_LINES[status], lines))

    def _choose_framing(self, status: int, fields: Headers) -> list[tuple[bytes, bytes]]:
        """Decide where the body ends and whether the connection goes on; return the fields that tell the client."""
        added = []
        if any(
            name == b"connection" and b"close" in map(bytes.strip, value.lower().split(b",")) for name, value in fields
        ):
            self.keep_alive = False
        elif not self.keep_alive:
            added.append(CLOSE)
        if self.scope["method"] == "HEAD":
            return added
        self._is_chunked = any(name == b"transfer-encoding" and value.lower() == b"chunked" for name, value in fields)
        lengths = [] if self._is_chunked else [int(value) for name, value in fields if name == b"content-length"]
        if lengths:
            self._unsent = lengths[0]
        elif self.scope["http_version"] == "1.0":
            # RFC 9112 6.1: a client of HTTP/1.0 does not know chunks, so the end of the connection ends its body.
            self._unsent = None
        elif not self._is_chunked and status not in _BODILESS_STATUS:
            self._is_chunked = True
            added.append((b"transfer-encoding", b"chunked"))
        return added

    def _send_part(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            pass
        elif self._is_chunked:
            end = b"" if more else b"0\r\n\r\n"
            self.transport.write(b"%x\r\n%b\r\n%b" % (len(body), body, end) if body else end)
        else:
            if self._unsent is not None:
                self._unsent -= len(body)
                if self._unsent < 0:
                    raise RuntimeError("The response body is longer than its content-length.")
            self.transport.write(body)
        if more:
            return
        if self._unsent:
            raise RuntimeError("The response body is shorter than its content-length.")
        self._complete()
        if not self.keep_alive:
            self.transport.close()
        self.connection.on_response_complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.notify()

    def _log_access(self, status: int) -> None:
        scope = self.scope
        client = "{}:{}".format(*scope["client"]) if scope["client"] else ""
        # Without the query, which may hold secrets.
        # Quoted, so that a line break in a path cannot begin a line of its own in the log.
        details = (client, scope["method"], quote(scope["path"]), scope["http_version"], status)
        _access_log.info('%s - "%s %s HTTP/%s" %d', *details)

    # The shorter path

    def take_body(self) -> bytes | None:
        """See ``Exchange``."""
        if self.more_body or self.disconnected or self.response_complete:
            return None
        if self._event is not None:
            self._event.clear()
        self._body_read = True
        flow = self.connection.flow
        if flow.read_paused:
            flow.resume_reading()
        return bytes(self.body)

    def try_send_response(self, response: Response, /) -> bool:
        """See ``Exchange``."""
        connection = self.connection
        if not self.keep_alive or connection.access_log or connection.flow.write_paused:
            return False
        if self.response_started or self.disconnected or self.scope["method"] == "HEAD":
            return False
        status, headers, body = response
        head = _write_usual_head(status, tuple(connection.server_state.default_headers), tuple(headers))
        if head is None:
            return False
        self.response_started = True
        if len(body) > _COPIED_BODY_BYTES:
            self.transport.writelines((_LENGTH_FIELD % (head, len(body)), body))
        else:
            self.transport.write(_WHOLE_RESPONSE % (head, len(body), body))
        self._complete()
        connection.on_response_complete()
        return True

    def cancel_on_disconnect(self) -> None:
        """See ``Exchange``. ``disconnect`` cancels the task, so that nothing is spent until then."""
        self._cancels_on_disconnect = True

    def ignore_disconnect(self) -> None:
        """See ``Exchange``."""
        self._cancels_on_disconnect = False

    def is_disconnected(self) -> bool:
        """See ``Exchange``."""
        return self.disconnected

    # What the connection reports

    def add_body(self, piece: bytes) -> None:
        """Keep ``piece`` until the application asks for it."""
        if not self.body:  # one piece is kept as it is, and copied only if another follows
            self.body = piece
        elif isinstance(self.body, bytearray):
            self.body += piece
        else:
            self.body = bytearray(self.body) + piece
        self.notify()

    def end_body(self) -> None:
        """Note that the body is complete."""
        self.more_body = False
        self.notify()

    def reopen_body(self) -> None:
        """Note that a body follows after all, which the parser did not announce."""
        self.more_body = True
        if self._event is not None:
            self._event.clear()

    def abandon(self) -> None:
        """Let nothing more be sent: the connection has answered in place of the application."""
        self.disconnected = True
        self._complete()

    def disconnect(self) -> None:
        """Note that the client has gone, and cancel the task if it works for that client alone."""
        if self.response_complete:
            return
        self.disconnected = True
        self.notify()
        if self._cancels_on_disconnect:
            self.task.cancel()


_FAILED = RefusalApp(500, Kind.INTERNAL, "The server failed. See its log.")


def _check_field(name: bytes, value: bytes) -> None:
    # A line end in a value would begin a new field, which the author of the value could choose.
    if _FORBIDDEN_IN_NAME.search(name):
        raise RuntimeError(f"{name!r} is not a valid header name.")
    if _FORBIDDEN_IN_VALUE.search(value):
        raise RuntimeError(f"The value of the header {name.decode('latin-1')} contains a control character.")


@lru_cache(_CACHED_HEADS)
def _write_usual_head(status: int, default: Headers, headers: Headers) -> bytes | None:
    """Return the head of a response as far as the number of ``content-length``; None where something is unusual.

    ``default`` are the fields of every response. The date is among them, so cached heads are used for a second.
    """
    # 204 and 304 have no body, and after 408 the connection closes.
    if status in _UNUSUAL_STATUS:
        return None
    if any(name not in _USUAL_FIELDS or _FORBIDDEN_IN_VALUE.search(value) for name, value in headers):
        return None
    fields = b"".join(b"%b: %b\r\n" % field for field in (*default, *headers))
    return STATUS_LINES[status] + fields + b"content-length: "
