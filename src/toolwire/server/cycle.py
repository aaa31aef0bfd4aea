"""uvicorn's exchange of one request and its answer, and a shorter way through it for what is usual.

**Rules**
- The shorter way sends the very bytes that the messages of ASGI would; what is not usual goes the long way.
- The fields of a usual answer are checked and written once, however often they are sent.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import (
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from toolwire.core.http import Response

from .exchange import Exchange

_HEAD: Final = b"%b%b%bcontent-length: %d\r\n\r\n"
_HEADS: Final = 256
_COPIED: Final = 4_096
"""How large a body may be to be copied next to its head, in bytes; a larger one is handed on as it is."""
_UNUSUAL_STATUS: Final = frozenset({204, 304, 408})
_USUAL_FIELDS: Final = frozenset(
    b"content-type cache-control etag vary retry-after retry-after-ms x-should-retry idempotent-replayed".split()
)
"""Fields whose values are few and no secret: heads are remembered. Cookies, addresses and framing go the long way."""


class Cycle(RequestResponseCycle, Exchange):
    """The exchange of the request that ``connection`` has just read the head of."""

    # How each begins: with __init__ everything that uvicorn's own sets; a test holds the two against each other.
    disconnected = False
    body: Any = b""  # the first piece is taken as it is, and copied only where another follows
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding = None
    expected_content_length = 0

    task: asyncio.Task[None]
    event: asyncio.Event | None = None
    """Set for whoever waits in ``receive``, None where nobody does."""
    _heard = False

    def __init__(self, connection: HttpToolsProtocol, *, keep_alive: bool) -> None:
        self.scope = connection.scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.access_logger = connection.access_logger
        self.access_log = connection.access_log
        self.default_headers = connection.server_state.default_headers
        self.on_response: Any = connection.on_response_complete
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue

    @property  # type: ignore[override]  # uvicorn sets one for each exchange
    def message_event(self) -> asyncio.Event:
        """What ``receive`` waits for: made by whoever waits first, which in a usual exchange is nobody."""
        event = self.event
        if event is None:
            event = self.event = asyncio.Event()
            unheard = not self._heard and (self.body or not self.more_body)
            if unheard or self.disconnected or self.response_complete:
                event.set()
        return event

    async def run(self, app: Any, tasks: set[asyncio.Task[None]]) -> None:
        """Answer the request by ``app``, as the ``task`` that is one of ``tasks`` until then."""
        try:
            await self.run_asgi(app)
        finally:
            tasks.discard(self.task)

    def arrived(self) -> bytes | None:
        """See ``Exchange``."""
        if self.more_body or self.disconnected or self.response_complete:
            return None
        self.flow.resume_reading()
        if self.event is not None:
            self.event.clear()
        self._heard = True
        body, self.body = bytes(self.body), b""
        return body

    def answered(self, response: Response) -> bool:
        """See ``Exchange``."""
        status, headers, body = response
        if (
            not self.keep_alive
            or self.response_started
            or self.disconnected
            or self.flow.write_paused
            or self.access_log
            or self.scope["method"] == "HEAD"
        ):
            return False
        fields = _fields(status, tuple(headers))
        if fields is None:
            return False
        head = (STATUS_LINE[status], _every(tuple(self.default_headers)), fields, len(body))
        self.response_started = self.response_complete = True
        if len(body) > _COPIED:
            self.transport.writelines((_HEAD % head, body))
        else:
            self.transport.write((_HEAD + b"%b") % (*head, body))
        if self.event is not None:
            self.event.set()
        self.on_response()
        return True


@lru_cache(2)
def _every(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Return what every answer says, as it is sent: the date, which is another one each second."""
    return b"".join(b"%b: %b\r\n" % field for field in headers)


@lru_cache(_HEADS)
def _fields(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes | None:
    """Return ``headers`` as they are sent; None where something of them, or of ``status``, is unusual."""
    if status in _UNUSUAL_STATUS:
        return None
    if any(name not in _USUAL_FIELDS or HEADER_VALUE_RE.search(value) for name, value in headers):
        return None
    return b"".join(b"%b: %b\r\n" % field for field in headers)
