"""A bad upstream: whatever it does to an answer, the caller gets a Problem in time, and nothing is left running."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import pytest

from toolwire import Kind, Problem, Toolkit, Value, asgi, connect
from toolwire.testing.loopback import background

HANG_S = 10.0
DEADLINE_S = 0.5
READ = 65_536
Writer = asyncio.StreamWriter
Fault = Callable[[Writer, bytes], Awaitable[None]]


async def reset(to: Writer, answer: bytes) -> None:
    """Send half of the answer, then a reset."""
    to.write(answer[: len(answer) // 2])
    await to.drain()
    linger = struct.pack("ii", 1, 0)
    to.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    to.transport.abort()


async def truncate(to: Writer, answer: bytes) -> None:
    """Send all but the end of the answer, and close."""
    to.write(answer[:-3])
    to.close()


async def drip(to: Writer, answer: bytes) -> None:
    """Send a byte a second."""
    for byte in answer:
        to.write(bytes([byte]))
        await to.drain()
        await asyncio.sleep(1.0)


async def garbage(to: Writer, answer: bytes) -> None:
    """Send what is no HTTP."""
    to.write(bytes(range(256)) * 8)
    to.close()


async def swallow(to: Writer, answer: bytes) -> None:
    """Say nothing for ever."""
    await asyncio.Event().wait()


async def refuse_to_speak(to: Writer, answer: bytes) -> None:
    """Close without a byte."""
    to.close()


FAULTS: tuple[Fault, ...] = (reset, truncate, drip, garbage, swallow, refuse_to_speak)


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


def kit() -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto")
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}, how are you today?"

    return kit


def yes(_: object) -> bool:
    return True


@pytest.mark.requirement("R12")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faulty_upstream_gives_a_problem_in_time_and_leaks_nothing(protocol: str, fault: Fault) -> None:
    async def story(upstream: str) -> None:
        async with start_proxy(upstream) as (url, proxy), asyncio.timeout(HANG_S):
            before = len(asyncio.all_tasks())
            async with connect(
                url, protocol=protocol, timeout_s=DEADLINE_S, retries=0, approve=lambda _: True
            ) as remote:
                assert await remote.call("greet", {"name": "Ada"}) == Value("Hello, Ada, how are you today?")
                proxy.fault = fault
                problem = await remote.call("greet", {"name": "Ada"})
                assert isinstance(problem, Problem)
                assert problem.kind in (Kind.UNREACHABLE, Kind.BAD_ANSWER)
                assert problem.message.endswith(".")
                assert "Traceback" not in repr(problem)
                proxy.fault = None
                assert await remote.call("greet", {"name": "Bo"}) == Value("Hello, Bo, how are you today?")
            await proxy.end()
            assert len(asyncio.all_tasks()) == before

    with background(asgi(kit())) as upstream:
        asyncio.run(story(upstream))
