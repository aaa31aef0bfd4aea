"""CPU time of one request inside the process: the application driven directly, no sockets."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from itertools import count
from typing import Any

import uvloop

from .requests import Call


def cost_us(app: Any, call: Call, *, rounds: int = 5, each: int = 4_000) -> float:
    """Return the median over ``rounds`` of the CPU microseconds of one request; every answer is looked at once."""
    return uvloop.run(_measure(app, call, rounds, each))


def scope_of(call: Call) -> dict[str, Any]:
    """Return the ASGI scope uvicorn would make for ``call``."""
    own = {b"host": b"127.0.0.1:9627", b"user-agent": b"bench", b"accept": b"*/*"}
    headers = list((own | {name.encode(): value.encode() for name, value in call.headers}).items())
    path, _, query = call.path.partition("?")
    if call.body:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(call.body))]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 9627),
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        "method": call.method,
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
    }


_NUMBERS = count()


class _Body:
    """Gives the body once, then waits as a connection does that stays open."""

    def __init__(self, call: Call) -> None:
        self._body: bytes | None = call.body % next(_NUMBERS) if call.numbered else call.body

    async def __call__(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is None:
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": body, "more_body": False}


async def once(app: Any, call: Call) -> tuple[int, bytes]:
    """Return status and body of one request."""
    status, body = 0, b""

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    await app(scope_of(call), _Body(call), send)
    return status, body


async def _measure(app: Any, call: Call, rounds: int, each: int) -> float:
    status, body = await once(app, call)
    if status != 200:
        raise RuntimeError(f"{call.path} answered {status}: {body[:200]!r}")

    async def send(_: dict[str, Any]) -> None:
        return None

    async def many(count: int) -> None:
        for _ in range(count):
            await app(scope_of(call), _Body(call), send)

    async def empty(count: int) -> None:
        for _ in range(count):
            scope_of(call)
            _Body(call)

    await asyncio.create_task(many(200))
    figures = []
    for _ in range(rounds):
        gc.collect()
        figures.append((await _cpu(many, each) - await _cpu(empty, each)) / each * 1e6)
    return statistics.median(figures)


async def _cpu(work: Any, count: int) -> float:
    started = time.process_time()
    await asyncio.create_task(work(count))
    return time.process_time() - started
