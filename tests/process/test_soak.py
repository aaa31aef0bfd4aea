"""One process that is called for long: it keeps no memory of the calls and no file open behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import cycle, islice

import pytest

from .amounts import SOAK, report
from .calls import CALLS
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


async def ask(peer: Peer, data: bytes) -> None:
    """Send many requests at once and read every answer."""
    peer.writer.write(data)
    for _ in range(AT_ONCE):
        answer = await peer.answer()
        assert answer.status < 500, answer


@pytest.mark.requirement("R16")
def test_many_calls_leak_no_memory_or_files(start: Callable[..., Running]) -> None:
    async def story() -> None:
        server = start()

        async def load(seed: int, calls: int) -> None:
            waiting = requests(seed)
            async with dial(server) as peer:
                for _ in range(calls // AT_ONCE):
                    await ask(peer, b"".join(islice(waiting, AT_ONCE)))

        async def loads(calls: int) -> tuple[int, int]:
            await asyncio.gather(*(load(seed, calls // PEERS) for seed in range(PEERS)))
            async with dial(server):
                return server.memory, server.files

        before, files = await loads(SOAK // 4)
        after, still = await loads(SOAK * 3 // 4)
        assert after - before <= MORE_KIB + SOAK // 1_000_000 * 1_024
        assert abs(still - files) <= PEERS
        assert server.errors == ""
        report("R16", calls=SOAK, memory_kib=after - before, files=still - files)

    asyncio.run(story())
