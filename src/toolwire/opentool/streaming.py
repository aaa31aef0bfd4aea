"""Iterate over a streamed call: each piece is read on demand, and leaving the iterator cancels the call.

The blocking one needs no thread: it reads on in the caller's. The asynchronous one reads in a task of its own, one
piece ahead at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence

import anyio

from toolwire.client.transport.drivers import SyncStreamingTransport, Transport, arun, stream_progress
from toolwire.core.model import Progress
from toolwire.protocols.opentool.quirks import Quirk

from .flows import build_piece, stream_function
from .messages import FunctionCall, ToolReturn


async def astream(
    base: str, call: FunctionCall, mended: Sequence[Quirk], transport: Transport
) -> AsyncGenerator[ToolReturn, None]:
    """Yield what ``call`` sends at ``base``, in order. See ``OpenToolClient.stream_call`` for what is raised."""
    sender, receiver = anyio.create_memory_object_stream[Progress](0)

    async def drive() -> ToolReturn | None:
        with sender:
            return await arun(stream_function(base, call, mended), transport, None, sender.send)

    task = asyncio.create_task(drive())
    try:
        async for piece in receiver:
            yield build_piece(call, piece)
        whole = await task
        if whole is not None:
            yield whole
    finally:
        task.cancel()
        await asyncio.wait((task,))
        receiver.close()
        sender.close()  # a task that was cancelled before it began has not closed it
        if not task.cancelled():
            task.exception()  # reading it avoids asyncio's warning about an exception that was never retrieved


def stream(
    base: str, call: FunctionCall, mended: Sequence[Quirk], transport: SyncStreamingTransport
) -> Generator[ToolReturn, None, None]:
    """Yield what ``call`` sends at ``base``, in order, blocking."""
    pieces = stream_progress(stream_function(base, call, mended), transport)
    try:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as stop:
                whole: ToolReturn | None = stop.value
                break
            yield build_piece(call, piece)
    finally:
        pieces.close()
    if whole is not None:
        yield whole
