# ruff: noqa: F811 - fixtures are imported
"""Two workers share the connections; if one is killed, hangs or stops, the other's callers notice nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count

import pytest

from tests.postgres import Postgres, postgres, wait_until_answering  # noqa: F401 - the fixture

from .amounts import LONG, report
from .calls import CALLS, oxp, write_recorded_call
from .peer import HANG, Gone, Peer, Running, dial

Start = Callable[..., Running]
ASKED = 200
ADDED = {"a": 42_000, "b": 42}
respawns: list[float] = []
"""The seconds until there were two workers again, after each kill of a long run."""
KEPT = 6


async def whose(peer: Peer) -> int:
    return int((await peer.ask(oxp("whose", {}))).json["result"]["value"])


@pytest.mark.requirement("R4")
@pytest.mark.parametrize("kill", range(50 if LONG else 1))
def test_killing_one_of_two_workers_fails_no_request_on_the_other(start: Start, kill: int) -> None:
    kill_one_of_two(start(workers=2), lambda protocol, _: CALLS[protocol]("add", ADDED))
    if LONG:
        assert respawns[-1] <= 1, f"{respawns[-1]:.2f} s"
    report("R4", kills=len(respawns), failed=0, slowest_respawn_s=max(respawns))


@pytest.mark.requirement("R4", "ST-02")
def test_killing_one_of_two_workers_fails_no_call_that_the_other_records_in_postgresql(
    start: Start, postgres: Postgres
) -> None:
    wait_until_answering(postgres)
    server = start(workers=2, state=postgres.create_database())
    kill_one_of_two(server, lambda name, number: write_recorded_call(f"{name}-{number}", "book", ADDED))


def kill_one_of_two(server: Running, make_call: Callable[[str, int], bytes]) -> None:
    """Kill one worker of ``server`` while the other gets the calls that ``make_call`` makes for a name and a number."""

    async def story() -> None:
        async with AsyncExitStack() as stack, asyncio.timeout(3 * HANG):
            peers: dict[int, list[Peer]] = {}
            while len(peers) < 2 or min(map(len, peers.values())) < 2:  # the second may still be starting
                one = AsyncExitStack()
                peer = await one.enter_async_context(dial(server))
                known = peers.setdefault(await whose(peer), [])
                if len(known) == KEPT:
                    await one.aclose()
                    continue
                known.append(peer)
                stack.push_async_callback(one.aclose)
            killed, other = sorted(peers, key=lambda pid: len(peers[pid]))
            dead, warm = asyncio.Event(), asyncio.Event()
            done = dict.fromkeys(("before", "after"), 0)

            async def insist(peer: Peer, name: str) -> None:
                for number in count():
                    if done["after"] >= ASKED:
                        return
                    when = "after" if dead.is_set() else "before"
                    answer = await peer.ask(make_call(name, number))
                    assert (answer.status, b"42042" in answer.body) == (200, True)
                    done[when] += 1
                    if done["before"] >= ASKED // 4:
                        warm.set()

            loads = [asyncio.create_task(insist(peer, name)) for peer, name in zip(peers[other], CALLS, strict=False)]
            await warm.wait()
            os.kill(killed, signal.SIGKILL)
            began = time.monotonic()
            assert await peers[killed][0].closed()
            dead.set()
            assert await again(server, {killed, other})
            respawns.append(time.monotonic() - began)
            await asyncio.gather(*loads)

    asyncio.run(story())


@pytest.mark.requirement("R15", "AT-16")
def test_busy_workers_end_with_their_killed_parent(start: Start) -> None:
    async def story() -> None:
        server = start(workers=2)
        peers: dict[int, Peer] = {}
        async with AsyncExitStack() as stack, asyncio.timeout(HANG):
            while len(peers) < 2:
                peer = await stack.enter_async_context(dial(server))
                peers.setdefault(await whose(peer), peer)
            for peer in peers.values():
                peer.writer.write(oxp("seize", {"seconds": 60.0}))
            assert server.process.stdout is not None
            for _ in peers:
                assert await asyncio.to_thread(server.process.stdout.readline) == b"seized\n"
            server.process.kill()
            for peer in peers.values():
                assert await peer.closed()

    asyncio.run(story())


@pytest.mark.requirement("P-06")
@pytest.mark.parametrize("connections", [8, 64])
def test_each_worker_gets_its_part_of_connections_that_come_at_once(start: Start, connections: int) -> None:
    async def story() -> None:
        server = start(workers=2)
        async with AsyncExitStack() as stack, asyncio.timeout(3 * HANG):
            await find_workers(server)
            # A worker that gets a turn of the event loop within 170 ms gets a quarter at least: one that has more
            # connections takes one of the others each 10 ms, then two, and so on. Nothing is left to chance.
            peers = await open_many(server, stack, connections)
            owners = Counter(await asyncio.gather(*map(whose, peers)))
            assert len(owners) == 2
            assert min(owners.values()) >= connections // 4, owners

    asyncio.run(story())


@pytest.mark.requirement("P-06", "R4")
def test_a_worker_that_hangs_takes_no_connection_with_it(start: Start) -> None:
    async def story() -> None:
        server = start(workers=2)
        async with AsyncExitStack() as stack, asyncio.timeout(3 * HANG):
            workers = await find_workers(server)
            peer = await stack.enter_async_context(dial(server))
            hanging = await whose(peer)
            peer.writer.write(oxp("seize", {"seconds": 2 * HANG}))
            assert server.process.stdout is not None
            assert await asyncio.to_thread(server.process.stdout.readline) == b"seized\n"
            peers = await open_many(server, stack, 64)
            assert {await whose(peer) for peer in peers} == workers - {hanging}

    asyncio.run(story())


@pytest.mark.requirement("R15")
def test_a_worker_that_is_renewed_gets_no_new_connections(start: Start) -> None:
    async def story() -> None:
        server = start(workers=2, deadlines={"drain_s": 5.0, "idle_s": 60})
        async with AsyncExitStack() as stack, asyncio.timeout(3 * HANG):
            old = await find_workers(server)
            peers = await open_many(server, stack, 8)
            owners = dict(zip(peers, await asyncio.gather(*map(whose, peers)), strict=True))
            server.signal(signal.SIGHUP)
            renewed = await find_stopping(owners)
            new_peers = await open_many(server, stack, 64)
            new_owners = Counter([await whose(peer) for peer in new_peers])
            assert renewed not in new_owners
            assert len(set(new_owners) - old) == 1, "its replacement serves before it stops"
            assert min(new_owners.values()) >= 16

    asyncio.run(story())


@pytest.mark.requirement("GW-01")
def test_a_server_that_is_renewed_as_soon_as_it_is_announced_serves(start: Start) -> None:
    async def story() -> None:
        async with asyncio.timeout(HANG), dial(start(workers=1, signal_first=signal.SIGHUP)) as peer:
            assert await whose(peer)

    asyncio.run(story())


async def find_stopping(owners: dict[Peer, int]) -> int:
    """Return the first worker that says that it stops."""
    stored = {owner: peer for peer, owner in owners.items()}
    while True:
        for owner, peer in stored.items():
            answer = await peer.get("/health")
            assert answer.status == 200, "the server itself goes on"
            if answer.headers.get("connection") == "close":
                return owner


async def find_workers(server: Running) -> set[int]:
    """Return both workers, once they serve."""
    workers: set[int] = set()
    while len(workers) < 2:
        async with dial(server) as peer:
            workers.add(await whose(peer))
    return workers


async def open_many(server: Running, stack: AsyncExitStack, number: int) -> list[Peer]:
    """Open connections at the same time, and keep them."""
    return list(await asyncio.gather(*(stack.enter_async_context(dial(server)) for _ in range(number))))


async def again(server: Running, known: set[int]) -> bool:
    """Return True once a worker answers that was not there before."""
    while True:
        try:
            async with dial(server) as peer:
                if await whose(peer) not in known:
                    return True
        except (Gone, ConnectionError):
            pass
