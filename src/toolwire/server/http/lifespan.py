"""What begins before the first request and ends after the last."""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

from .exchange import Receive, Send

_log = logging.getLogger("toolwire.server")


@runtime_checkable
class HasLifespan(Protocol):
    """What has something to do before it is used, and after. A Toolbox or an app may be one; most are not."""

    async def begin(self) -> None:
        """Make ready; once, however often it is asked."""
        ...

    async def end(self) -> None:
        """Let go of everything, if it has begun."""
        ...


async def begin_lifespan(target: object) -> None:
    """Begin ``what`` if it has a beginning."""
    if isinstance(target, HasLifespan):
        await target.begin()


async def end_lifespan(target: object) -> None:
    """End ``what`` if it has an end. Whatever it raises is logged: nobody is left to tell."""
    if isinstance(target, HasLifespan):
        try:
            await target.end()
        except Exception:  # noqa: BLE001 - a server that stops goes on stopping
            _log.exception("a tool's end failed")


async def run_lifespan(target: object, receive: Receive, send: Send) -> None:
    """Take part in the lifespan of ASGI: begin ``what`` when the server starts, end it when the server stops."""
    await receive()
    try:
        await begin_lifespan(target)
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing can be served
        text = f"A tool could not begin: {type(error).__name__}: {error}"
        await send({"type": "lifespan.startup.failed", "message": text})
        return
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await end_lifespan(target)
    await send({"type": "lifespan.shutdown.complete"})
