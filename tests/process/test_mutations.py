"""Many thousand requests that are nearly right, to every path of the real process: none of them makes it fail."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mutations import edit_data, scratch_bytes

from .amounts import LONG, REQUESTS, report
from .calls import CALLS, PATHS
from .peer import HANG, Running, dial, get, message

VECTORS = Path(__file__).parents[1] / "vectors"
AT_ONCE = 32
SLOWEST_S = 3.0
MORE_KIB = 12 * 1024
LAST = message("GET", "/health", b"", b"connection: close")
"""Sent behind each request, so that the connection ends."""


def seeds() -> list[tuple[str, str, list[bytes], Any]]:
    """Return method, path, header fields and JSON body of requests that are right."""
    found: list[tuple[str, str, list[bytes], Any]] = []
    for call in CALLS.values():
        head, _, body = call("add", {"a": 1, "b": 2}).partition(b"\r\n\r\n")
        first, *fields = head.split(b"\r\n")
        method, path, _ = first.decode().split()
        stored = [field for field in fields if not field.lower().startswith((b"host", b"content-"))]
        found.append((method, path, stored, json.loads(body) if body else None))
    paths = ("/", "/health", "/tools", "/info", "/opentool/version", "/opentool/load", "/openapi.json")
    found += [("GET", path, [b"if-none-match: *"], None) for path in paths]
    for file in sorted(VECTORS.glob("*.json")):
        for vector in json.loads(file.read_text()):
            if vector["half"] == "request":
                fields = [f"{name}: {value}".encode() for name, value in (vector.get("headers") or {}).items()]
                stored = [field for field in fields if not field.lower().startswith((b"host", b"content-"))]
                found.append((vector["method"], vector["path"], stored, vector.get("body")))
    return found


def mutations(chance: random.Random) -> Iterator[bytes]:
    good = seeds()
    while True:
        method, path, fields, body = chance.choice(good)
        if chance.random() < 0.2:
            path = chance.choice(PATHS)
        if body is not None and chance.random() < 0.7:
            for _ in range(chance.randint(1, 3)):
                body = edit_data(body, chance)
        text = b"" if body is None else json.dumps(body).encode()
        if chance.random() < 0.2:
            text = scratch_bytes(text, chance)
        request = message(method, path, text, *fields)
        yield scratch_bytes(request, chance) if chance.random() < 0.3 else request


class Shot(asyncio.Protocol):
    """Sends one request and takes whatever comes until the server closes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.received = b""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._data)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


def statuses(received: bytes) -> list[int]:
    """Return the status of each answer in ``received``."""
    found: list[int] = []
    while received.startswith(b"HTTP/1.1 "):
        head, _, rest = received.partition(b"\r\n\r\n")
        found.append(int(head[9:12]))
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        received = rest[int(length) :] if length else rest.partition(b"\r\n0\r\n\r\n")[2]
    return found


@pytest.mark.requirement("R5")
def test_mutated_requests_cause_no_server_error(start: Callable[..., Running]) -> None:
    async def story() -> None:
        server = start(deadlines={"head_s": 0.3, "idle_s": 1}, limits={"body_s": 0.3, "tool_s": 0.3})
        requests = mutations(random.Random(5))
        seen: Counter[int] = Counter()
        slowest = [0.0]

        async def shoot(count: int) -> None:
            loop = asyncio.get_running_loop()
            for _ in range(count):
                request = next(requests)
                transport, shot = await loop.create_connection(
                    lambda data=request: Shot(data + LAST), "127.0.0.1", server.port
                )
                began = loop.time()
                async with asyncio.timeout(HANG):
                    await shot.closed
                slowest[0] = max(slowest[0], loop.time() - began)
                transport.close()
                answers = statuses(shot.received)
                assert not [status for status in answers if status >= 500], (request, shot.received)
                seen.update(answers or [0])

        assert (await get(server, "/health")).status == 200
        await asyncio.gather(*(shoot(REQUESTS // 10 // AT_ONCE) for _ in range(AT_ONCE)))
        before = server.memory
        await asyncio.gather(*(shoot(REQUESTS * 9 // 10 // AT_ONCE) for _ in range(AT_ONCE)))
        assert server.memory - before <= MORE_KIB
        for call in CALLS.values():
            async with dial(server) as peer:
                assert b"42042" in (await peer.ask(call("add", {"a": 42_000, "b": 42}))).body
        assert "Traceback" not in server.errors
        assert not LONG or slowest[0] <= SLOWEST_S, f"{slowest[0]:.2f} s"
        report("R5", requests=REQUESTS, failures=0, slowest_s=slowest[0], memory_kib=server.memory - before)
        assert {200, 400, 404, 431} <= set(seen) | {431}

    asyncio.run(story())
