"""A proxy that spoils the answers of its upstream as a test wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

READ = 65_536
Writer = asyncio.StreamWriter
Fault = Callable[[Writer, bytes], Awaitable[None]]


async def swallow(to: Writer, answer: bytes) -> None:
    """Say nothing for ever."""
    await asyncio.Event().wait()


class Proxy:
    """Passes everything on, but for the answers that a fault is set for."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "", parts.port or 0)
        self._running: set[asyncio.Task[None]] = set()
        self.fault: Fault | None = None
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._pass(reader, writer)
        finally:
            self._running.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        theirs, ours = await asyncio.open_connection(*self._upstream)
        try:
            while asked := await reader.read(READ):
                self.asked += 1
                ours.write(asked)
                answer = await theirs.readuntil(b"\r\n\r\n")
                length = int(answer.lower().partition(b"content-length:")[2].split()[0])
                answer += await theirs.readexactly(length)
                if self.fault is not None:
                    await self.fault(writer, answer)
                    return
                writer.write(answer)
        finally:
            ours.close()

    async def end(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running)


@contextlib.asynccontextmanager
async def start_proxy(upstream: str) -> AsyncIterator[tuple[str, Proxy]]:
    proxy = Proxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", proxy
    finally:
        server.close()
        await proxy.end()
