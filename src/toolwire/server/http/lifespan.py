"""Begin and end tools and applications with the server that runs them."""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

from .exchange import Receive, Send

_log = logging.getLogger("toolwire.server")


@runtime_checkable
class HasLifespan(Protocol):
    """A Toolbox or an application that must do something before its first call or after its last."""

    async def begin(self) -> None:
        """Prepare for calls. Further calls of this method do nothing."""
        ...

    async def end(self) -> None:
        """Release everything that ``begin`` took; without ``begin``, do nothing."""
        ...


async def begin_lifespan(target: object) -> None:
    """Call ``target.begin()`` if ``target`` has a lifespan."""
    if isinstance(target, HasLifespan):
        await target.begin()


async def end_lifespan(target: object) -> None:
    """Call ``target.end()`` if ``target`` has a lifespan. Exceptions are logged, not raised."""
    if isinstance(target, HasLifespan):
        try:
            await target.end()
        except Exception:  # noqa: BLE001 - a server that stops goes on stopping
            _log.exception("a tool's end failed")


async def run_lifespan(target: object, receive: Receive, send: Send) -> None:
    """Follow ASGI's lifespan protocol: begin ``target`` when the server starts, end it when the server stops."""
    # The first message of ASGI is lifespan.startup, the second lifespan.shutdown.
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
