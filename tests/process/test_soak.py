# ruff: noqa: F811 - fixtures are imported
"""One process that is called for long: it keeps no memory of the calls and no file open behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice

import pytest

from tests.postgres import Postgres, postgres, wait_until_answering  # noqa: F401 - the fixture

from .amounts import SOAK, report
from .calls import CALLS, write_recorded_call
from .peer import Peer, Running, dial

PEERS = 8
AT_ONCE = 25
MORE_KIB = 2 * 1024
"""What the memory of a process may wander by; a leak of 20 bytes a call would be more."""


def requests(seed: int) -> Iterator[bytes]:
    """Yield calls of every protocol: good ones, bad arguments, unknown tools, and paths where nothing is."""
    made = [call("add", {"a": seed, "b": number}) for number, call in enumerate(CALLS.values())]
    made += [call("echo", {"text": "\u00e9" * 50}) for name, call in CALLS.items() if name != "openapi"]
    made += [call("add", {"a": "x"}) for call in CALLS.values()]
    made += [call("missing", {}) for call in CALLS.values()]
    return cycle(made)


def recorded_requests(seed: int) -> Iterator[bytes]:
    """Yield calls that are recorded, each of them twice: the second is answered with the result of the first."""
    for number in count():
        call = write_recorded_call(f"{seed}-{number}", "book", {"a": seed, "b": number})
        yield from (call, call)


async def ask(peer: Peer, data: bytes) -> None:
    """Send many requests at once and read every answer."""
    peer.writer.write(data)
    for _ in range(AT_ONCE):
        answer = await peer.answer()
        assert answer.status < 500, answer


@pytest.mark.requirement("R16")
def test_many_calls_leak_no_memory_or_files(start: Callable[..., Running]) -> None:
    memory_kib, files = asyncio.run(measure_growth(start(), SOAK, requests))
    report("R16", calls=SOAK, memory_kib=memory_kib, files=files)


@pytest.mark.requirement("R16", "ST-02")
def test_many_calls_that_postgresql_records_leak_no_memory_or_files(
    start: Callable[..., Running], postgres: Postgres
) -> None:
    wait_until_answering(postgres)
    calls = SOAK // 10
    server = start(state=postgres.create_database())
    memory_kib, files = asyncio.run(measure_growth(server, calls, recorded_requests))
    report("R16", calls_in_postgresql=calls, memory_kib_in_postgresql=memory_kib, files_in_postgresql=files)


async def measure_growth(
    server: Running, calls: int, make_requests: Callable[[int], Iterator[bytes]]
) -> tuple[int, int]:
    """Return by how many KiB and open files ``server`` grew in the last three quarters of ``calls``."""
    sources = [make_requests(seed) for seed in range(PEERS)]

    async def load(waiting: Iterator[bytes], calls: int) -> None:
        async with dial(server) as peer:
            for _ in range(calls // AT_ONCE):
                await ask(peer, b"".join(islice(waiting, AT_ONCE)))

    async def loads(calls: int) -> tuple[int, int]:
        await asyncio.gather(*(load(source, calls // PEERS) for source in sources))
        async with dial(server):
            return server.memory, server.files

    before, files = await loads(calls // 4)
    after, still = await loads(calls * 3 // 4)
    assert after - before <= MORE_KIB + calls // 1_000_000 * 1_024
    assert abs(still - files) <= PEERS
    assert server.errors == ""
    return after - before, still - files
