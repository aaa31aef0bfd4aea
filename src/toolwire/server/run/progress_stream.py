"""A call whose progress is sent while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from toolwire.core.codec import Streaming
from toolwire.core.model import AFTER_START, Problem, Progress, Result
from toolwire.core.toolbox import Notify
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import send_response
from toolwire.server.run.responses import build_stream_end

Start: TypeAlias = Callable[[Notify], Awaitable[tuple[Result, float]]]
"""Runs the call, and tells its progress."""


async def stream_call(scope: Scope, exchange: Exchange, streaming: Streaming, start: Start, *, recorded: bool) -> None:
    """Send what the call of ``streaming`` gives. A client that leaves cancels the call, unless it is ``recorded``.

    A problem that came before the tool ran is a whole response, with a status of its own.
    """
    send = exchange.send
    opened = gone = False

    async def write(data: bytes) -> None:
        nonlocal opened
        if gone:
            return
        if not opened:
            opened = True
            await send({"type": "http.response.start", "status": 200, "headers": list(streaming.headers)})
            await send({"type": "http.response.body", "body": streaming.opening, "more_body": True})
        await send({"type": "http.response.body", "body": data, "more_body": True})

    async def notify(progress: Progress) -> None:
        await write(streaming.frame(progress))

    async def hear_disconnect() -> None:
        nonlocal gone
        while (await exchange.receive())["type"] != "http.disconnect":
            pass
        gone = True
        if not recorded:
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(hear_disconnect)
        result, duration = await start(notify)
        if gone:
            return
        if isinstance(result, Problem) and result.kind not in AFTER_START and not opened:
            await send_response(scope, exchange, streaming.refuse(result))
        else:
            await write(build_stream_end(streaming, result, duration))
            await send({"type": "http.response.body", "body": b""})
        group.cancel_scope.cancel()
