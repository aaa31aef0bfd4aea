"""CPU time of one call on the client's side, 32 in flight, against a raw server in another process."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop

from bench import checks
from toolwire.client import Remote, Session
from toolwire.limits import ClientRateLimits

_UNLIMITED = Session(limits=ClientRateLimits(tool=None, connection=None), traced=False)


IN_FLIGHT = 32


def toolwire_us(url: str) -> float:
    """Return the CPU microseconds of ``remote.call`` over OpenTool, consent and argument checks included."""

    async def main() -> float:
        from toolwire import connect

        async with connect(url, protocol="opentool", session=_UNLIMITED, agree=lambda _: True) as remote:
            return await _cost(_adding(remote))

    return uvloop.run(main())


def own_us() -> float:
    """Return the CPU microseconds of ``remote.call`` alone, over a transport that answers at once."""

    async def main() -> float:
        from toolwire.core.http import Request

        connection, blocking = checks.connected()

        class FakeTransport:
            async def send(self, request: Request) -> object:
                return blocking.send(request)

        return await _cost(_adding(Remote(connection, FakeTransport(), None)))  # type: ignore[arg-type]  # it answers what is sent

    return uvloop.run(main())


def _adding(remote: Remote) -> Callable[[], Awaitable[None]]:
    """Return what makes one call, and looks at its result."""
    from toolwire import Value

    async def once() -> None:
        result = await remote.call("add", {"a": 1, "b": 2})
        if result != Value(3):
            raise RuntimeError(str(result))

    return once


def door_us(url: str) -> float:
    """Return the CPU microseconds of the network transport alone: the same request, no toolwire around it."""

    async def main() -> float:
        from toolwire.client.transport.network import Network
        from toolwire.core.http import Request, Response

        body = b'{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":"c1"}'
        request = Request("POST", f"{url}/opentool/call", ((b"content-type", b"application/json"),), body)
        transport = Network()

        async def once() -> None:
            if not isinstance(await transport.send(request), Response):
                raise RuntimeError("no response")

        try:
            return await _cost(once)
        finally:
            await transport.aclose()

    return uvloop.run(main())


def httpx_us(url: str) -> float:
    """Return the CPU microseconds of a bare httpx2 POST."""

    async def main() -> float:
        import httpx2

        content = b'{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":"c1"}'
        async with httpx2.AsyncClient() as client:

            async def once() -> None:
                answer = await client.post(
                    f"{url}/opentool/call", content=content, headers={"content-type": "application/json"}
                )
                answer.json()

            return await _cost(once)

    return uvloop.run(main())


def aiohttp_us(url: str) -> float:
    """Return the CPU microseconds of a bare aiohttp POST."""

    async def main() -> float:
        import aiohttp

        content = b'{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":"c1"}'
        async with aiohttp.ClientSession() as client:

            async def once() -> None:
                fields = {"content-type": "application/json"}
                async with client.post(f"{url}/opentool/call", data=content, headers=fields) as answer:
                    await answer.json()

            return await _cost(once)

    return uvloop.run(main())


def times_of_aiohttp(url: str, *, rounds: int = 5) -> float:
    """Return what a whole call costs to what a bare aiohttp POST costs, measured by turns."""
    return statistics.median(toolwire_us(url) / aiohttp_us(url) for _ in range(rounds))


def connect_ms(url: str, *, rounds: int = 21) -> tuple[float, float]:
    """Return the milliseconds of entering ``connect()`` and of the first call, in a process that has connected once."""

    async def main() -> tuple[float, float]:
        from toolwire import connect

        entered, called = list[float](), list[float]()
        for _ in range(rounds):
            started = time.perf_counter()
            async with connect(url, protocol="opentool", session=_UNLIMITED, agree=lambda _: True) as remote:
                entered.append((time.perf_counter() - started) * 1e3)
                started = time.perf_counter()
                await remote.call("add", {"a": 1, "b": 2})
                called.append((time.perf_counter() - started) * 1e3)
        return statistics.median(entered), statistics.median(called)

    return uvloop.run(main())


def admit_ms(connections: int) -> float:
    """Return the milliseconds that the last of many connections to one host takes to get its name."""
    from toolwire.core.catalog import Catalog

    session, empty = Session(), Catalog(tools=())
    for _ in range(connections - 20):
        session.admit("", "api.example.com", empty)
    figures = []
    for _ in range(20):
        started = time.perf_counter()
        session.admit("", "api.example.com", empty)
        figures.append((time.perf_counter() - started) * 1e3)
    return statistics.median(figures)


async def _cost(once: Callable[[], Awaitable[None]], *, rounds: int = 5, each: int = 1_500) -> float:
    async def worker(count: int) -> None:
        for _ in range(count):
            await once()

    async def burst(count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(worker(count // IN_FLIGHT))

    await burst(IN_FLIGHT * 4)
    figures = []
    for _ in range(rounds):
        started = time.process_time()
        await burst(each)
        figures.append((time.process_time() - started) / (each // IN_FLIGHT * IN_FLIGHT) * 1e6)
    return statistics.median(figures)
