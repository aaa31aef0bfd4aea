"""uvicorn's exchange of one request and its answer, and a shorter way through it for what is usual.

**Rules**
- The shorter way sends the very bytes that the messages of ASGI would; what is not usual goes the long way.
- The fields of a usual answer are checked and written once, however often they are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import (
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from toolwire.core.http import Headers, Response

from .exchange import Exchange

_HEAD_END: Final = b"%b%d\r\n\r\n"
_WHOLE: Final = _HEAD_END + b"%b"
_HEADS: Final = 256
_COPIED: Final = 4_096
"""How large a body may be to be copied next to its head, in bytes; a larger one is handed on as it is."""
_UNUSUAL_STATUS: Final = frozenset({204, 304, 408})
_USUAL_FIELDS: Final = frozenset(
    b"content-type cache-control etag vary retry-after retry-after-ms x-should-retry idempotent-replayed".split()
)
"""Fields whose values are few and no secret: heads are remembered. Cookies, addresses and framing go the long way."""


def _of_connection(name: str) -> Any:
    """Return a property that is its connection's: uvicorn copies it into each exchange, and few look at it."""
    return property(attrgetter(f"connection.{name}"))


class RequestCycle(RequestResponseCycle, Exchange):
    """The exchange of the request that ``connection`` has just read the head of."""

    # With what is below, everything that uvicorn's own __init__ sets; a test holds the two against each other.
    disconnected = False
    body: Any = b""
    received = 0
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding = None
    expected_content_length = 0

    event: asyncio.Event | None = None
    """Set for whoever waits in ``receive``, None where nobody does."""
    task: asyncio.Task[None]
    _cancellable = False
    _heard = False
    _continued = False

    def __init__(self, connection: HttpToolsProtocol, scope: Any, *, keep_alive: bool) -> None:
        self.connection = connection
        self.transport = connection.transport
        self.scope = scope
        self.keep_alive = keep_alive

    flow = _of_connection("flow")
    logger = _of_connection("logger")
    access_logger = _of_connection("access_logger")
    access_log = _of_connection("access_log")

    @property
    def default_headers(self) -> Any:  # type: ignore[override]  # which uvicorn sets, and nobody else
        """What every answer of the server says."""
        return self.connection.server_state.default_headers

    def on_response(self) -> None:
        """Tell the connection that the answer is out."""
        self.connection.on_response_complete()

    @property
    def waiting_for_100_continue(self) -> bool:
        """Whether the peer sends its body only once it is told to: looked up by whoever has to wait for that body."""
        return not self._continued and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.scope["headers"]
        )

    @waiting_for_100_continue.setter
    def waiting_for_100_continue(self, waiting: bool) -> None:
        self._continued = not waiting

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override]  # as above
        """What ``receive`` waits for: made by whoever waits first, which in a usual exchange is nobody."""
        event = self.event
        if event is None:
            event = self.event = asyncio.Event()
            unheard = not self._heard and (self.body or not self.more_body)
            if unheard or self.disconnected or self.response_complete:
                event.set()
        return event

    async def run(self, app: Any, tasks: set[asyncio.Task[None]]) -> None:
        """Answer the request by ``app``, a ``Stopping`` or ``Refusing``, as the ``task`` among ``tasks`` until then."""
        try:
            serve = app.serve
            await (app(self.scope, self.receive, self.send) if serve is None else serve(self.scope, self))
            if not self.response_complete:
                await self.run_asgi(_ended)
        except BaseException as error:  # noqa: BLE001 - uvicorn answers, says and logs it, whatever it is
            if not (self.disconnected and isinstance(error, asyncio.CancelledError)):
                await self.run_asgi(_failing(error))
        finally:
            tasks.discard(self.task)

    def arrived(self) -> bytes | None:
        """See ``Exchange``."""
        if self.more_body or self.disconnected or self.response_complete:
            return None
        if self.event is not None:
            self.event.clear()
        self._heard = True
        flow = self.connection.flow
        if flow.read_paused:
            flow.resume_reading()
        return bytes(self.body)

    def answered(self, response: Response) -> bool:
        """See ``Exchange``."""
        connection = self.connection
        if not self.keep_alive or connection.access_log or connection.flow.write_paused:
            return False
        if self.response_started or self.disconnected or self.scope["method"] == "HEAD":
            return False
        status, headers, body = response
        head = _head(status, tuple(connection.server_state.default_headers), tuple(headers))
        if head is None:
            return False
        self.response_started = self.response_complete = True
        if len(body) > _COPIED:
            self.transport.writelines((_HEAD_END % (head, len(body)), body))
        else:
            self.transport.write(_WHOLE % (head, len(body), body))
        if self.event is not None:
            self.event.set()
        connection.on_response_complete()
        return True

    def cancel_when_gone(self) -> None:
        """See ``Exchange``: ``disconnect`` does it, so that it costs nothing until then."""
        self._cancellable = True

    def keep(self) -> None:
        """See ``Exchange``."""
        self._cancellable = False

    def is_gone(self) -> bool:
        """See ``Exchange``."""
        return self.disconnected

    def disconnect(self) -> None:
        """Note that the client has gone, and cancel what is done for it alone."""
        if self.response_complete:
            return
        self.disconnected = True
        self.message_event.set()
        if self._cancellable:
            self.task.cancel()


async def _ended(*_: Any) -> None:
    """Stand for an application that has ended: uvicorn finds what it left undone."""


def _failing(error: BaseException) -> Callable[..., Awaitable[None]]:
    """Return what stands for an application that has failed."""

    async def fail(*_: Any) -> None:
        raise error

    return fail


@lru_cache(_HEADS)
def _head(status: int, every: Headers, headers: Headers) -> bytes | None:
    """Return the head of an answer as far as ``content-length``; None where something of it is unusual.

    ``every`` is what all answers say: the date, so that what is remembered is of the last seconds.
    """
    if status in _UNUSUAL_STATUS:
        return None
    if any(name not in _USUAL_FIELDS or HEADER_VALUE_RE.search(value) for name, value in headers):
        return None
    return STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % field for field in (*every, *headers)) + b"content-length: "
