"""CPU time of one call on the client's side, 32 in flight, against a raw server in another process."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop

from bench import checks
from toolwire.client import Remote, Session
from toolwire.limits import Defaults

_UNLIMITED = Session(limits=Defaults(tool=None, connection=None), traced=False)


IN_FLIGHT = 32


def toolwire_us(url: str) -> float:
    """Return the CPU microseconds of ``remote.call`` over OpenTool, consent and argument checks included."""

    async def main() -> float:
        from toolwire import connect

        async with connect(url, protocol="opentool", session=_UNLIMITED) as remote:
            return await _cost(_adding(remote))

    return uvloop.run(main())


def own_us() -> float:
    """Return the CPU microseconds of ``remote.call`` alone, over a door that answers at once."""

    async def main() -> float:
        from toolwire.core.http import Request

        connection, blocking = checks.connected()

        class Door:
            async def send(self, request: Request) -> object:
                return blocking.send(request)

        return await _cost(_adding(Remote(connection, Door(), None)))  # type: ignore[arg-type]  # it answers what is sent

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
    """Return the CPU microseconds of the network door alone: the same request, no toolwire around it."""

    async def main() -> float:
        from toolwire.client.network import Network
        from toolwire.core.http import Request, Response

        body = b'{"jsonrpc":"2.0","method":"add","params":{"a":1,"b":2},"id":"c1"}'
        request = Request("POST", f"{url}/opentool/call", ((b"content-type", b"application/json"),), body)
        door = Network()

        async def once() -> None:
            if not isinstance(await door.send(request), Response):
                raise RuntimeError("no response")

        try:
            return await _cost(once)
        finally:
            await door.aclose()

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
