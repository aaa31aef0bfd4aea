"""Run a call and stream its progress to the client."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from toolwire.core.codec import Streaming
from toolwire.core.model import AFTER_START, Problem, Progress
from toolwire.core.toolbox import StartCall
from toolwire.server.http.exchange import Exchange, Scope
from toolwire.server.http.messages import send_response
from toolwire.server.http.response_stream import wait_for_disconnect

from .responses import build_stream_end


async def stream_call(
    scope: Scope, exchange: Exchange, streaming: Streaming, start: StartCall, *, survives_disconnect: Callable[[], bool]
) -> None:
    """Send the progress and the result of a call as a stream.

    If the client disconnects, the call is cancelled, unless ``survives_disconnect`` returns true, as for a recorded
    call: then the client can ask for its result later. A problem before the first progress is sent as a usual
    response with its own status.
    """
    send = exchange.send
    is_open = is_gone = False

    async def write(data: bytes) -> None:
        nonlocal is_open
        if is_gone or not data:
            return
        if not is_open:
            is_open = True
            await send({"type": "http.response.start", "status": 200, "headers": list(streaming.headers)})
            await send({"type": "http.response.body", "body": streaming.opening, "more_body": True})
        await send({"type": "http.response.body", "body": data, "more_body": True})

    async def notify(progress: Progress) -> None:
        await write(streaming.frame(progress))

    async def watch_disconnect() -> None:
        nonlocal is_gone
        await wait_for_disconnect(exchange)
        is_gone = True
        if not survives_disconnect():
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch_disconnect)
        result, duration = await start(notify)
        if is_gone:
            return
        # Nothing was sent yet, so the status can still say what went wrong.
        if isinstance(result, Problem) and result.kind not in AFTER_START and not is_open:
            await send_response(scope, exchange, streaming.refuse(result))
        else:
            await write(build_stream_end(streaming, result, duration))
            await send({"type": "http.response.body", "body": b""})
        group.cancel_scope.cancel()
