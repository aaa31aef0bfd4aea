"""What each stream of a response has in common: it ends with its client, and with the access of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from toolwire.core.model import Kind, Problem

from .exchange import Exchange

KEEP_ALIVE_S: Final = 15.0
MAX_STREAM_S: Final = 3_600.0
"""After an hour a stream ends, and the client opens it again."""
CHECK_S: Final = 5.0
"""How often the credentials of a stream are checked again, in seconds."""

IsStillAuthorized: TypeAlias = Callable[[], Awaitable[bool]]
"""Returns whether the credentials with which a stream was opened are still valid."""

REVOKED: Final = Problem(kind=Kind.UNAUTHORIZED, message="The access of this caller was revoked.")


async def wait_for_disconnect(exchange: Exchange) -> None:
    """Return when the client of ``exchange`` has gone. Its body must have been taken."""
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


async def send_until_disconnect(exchange: Exchange, send_stream: Coroutine[Any, Any, None]) -> None:
    """Run ``send_stream`` until it ends or the client of ``exchange`` disconnects."""
    sending = asyncio.ensure_future(send_stream)
    leaving = asyncio.ensure_future(wait_for_disconnect(exchange))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
