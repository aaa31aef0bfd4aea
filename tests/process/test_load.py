"""The real process under more than it can take: what it takes on it finishes, the rest is told to come back."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.waiting import wait_until_async

from .calls import CALLS, oxp
from .peer import HANG, Answer, Gone, Peer, Running, dial, get, until

Start = Callable[..., Running]


def is_refusal(answer: Answer) -> bool:
    """Return whether ``answer`` is a 503 in JSON that says when to come back."""
    return (
        answer.status == 503
        and int(answer.headers["retry-after"]) >= 1
        and "did not run" in json.dumps(answer.json)
        and answer.headers["content-type"].endswith("json")
    )


async def count(server: Running) -> int:
    """Return how many slow calls the server has begun."""
    async with dial(server) as peer:
        return int((await peer.ask(oxp("count", {}))).json["result"]["value"])


@pytest.mark.requirement("R1", "D-34")
def test_tenfold_overload_completes_or_refuses_every_call(start: Start) -> None:
    async def story() -> None:
        server = start(limits={"running": 8})
        seen: Counter[tuple[str, str]] = Counter()

        async def insist(protocol: str) -> None:
            request = CALLS[protocol]("wait", {"seconds": 0.03125})
            async with dial(server) as peer:
                for _ in range(25):
                    answer = await peer.ask(request)
                    if answer.status == 200:
                        assert b"0.03125" in answer.body
                        seen[protocol, "done"] += 1
                    else:
                        assert is_refusal(answer)
                        seen[protocol, "refused"] += 1

        await asyncio.gather(*(insist(protocol) for protocol in CALLS for _ in range(16)))
        assert sum(seen.values()) == 16 * len(CALLS) * 25
        done = sum(number for (_, what), number in seen.items() if what == "done")
        assert await count(server) == done
        assert done >= 8
        assert sum(seen.values()) > done
        for call in CALLS.values():
            async with dial(server) as peer:
                assert b"42042" in (await peer.ask(call("add", {"a": 42_000, "b": 42}))).body
        assert server.errors == ""

    asyncio.run(story())


class Gates:
    """Calls of one protocol that run until their gate is opened, and how many have begun."""

    def __init__(self, protocol: str, folder: Path) -> None:
        self._call = CALLS[protocol]
        self._folder = folder
        self.refusals = 0

    @property
    def begun(self) -> int:
        file = self._folder / "begun.txt"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def open(self, gates: Iterable[str]) -> None:
        for gate in gates:
            (self._folder / gate).touch()

    async def hold(self, peer: Peer, gate: str) -> Answer:
        return await peer.ask(self._call("hold", {"folder": str(self._folder), "gate": gate}))

    async def insist(self, peer: Peer, gate: str) -> Answer:
        """Send a call until it is accepted."""
        while (answer := await self.hold(peer, gate)).status != 200:
            assert is_refusal(answer)
            self.refusals += 1
        return answer

    async def add(self, peers: Iterable[Peer]) -> set[int]:
        """Return the statuses of a quick call over each connection, one after the other."""
        return {(await peer.ask(self._call("add", {"a": 1, "b": 2}))).status for peer in peers}


@pytest.mark.requirement("R1", "D-34")
@pytest.mark.parametrize("protocol", CALLS)
def test_overload_uses_the_whole_capacity_and_refuses_at_once(start: Start, protocol: str, tmp_path: Path) -> None:
    capacity, callers, gates = 8, 80, Gates(protocol, tmp_path)

    async def story(server: Running, peers: list[Peer]) -> None:
        assert await gates.add(peers) == {200}
        before = server.memory  # with that of all connections
        held = [asyncio.create_task(gates.hold(peer, f"a{n}")) for n, peer in enumerate(peers[:capacity])]
        await until(lambda: gates.begun == capacity)

        others = peers[capacity:]
        for _ in range(10):
            assert all(map(is_refusal, await asyncio.gather(*(gates.hold(peer, "never") for peer in others))))
        assert not any(task.done() for task in held), "a refusal waits for no call that runs"
        assert gates.begun == capacity, "what is refused waits in no queue"

        insisting = [asyncio.create_task(gates.insist(peer, f"b{n}")) for n, peer in enumerate(others[:20])]
        gates.open(f"a{n}" for n in range(4))
        assert {answer.status for answer in await asyncio.gather(*held[:4])} == {200}, "load delays no result"
        await until(lambda: gates.begun >= capacity + 4)
        seen = gates.refusals
        await until(lambda: gates.refusals >= seen + 100)
        assert gates.begun == capacity + 4, "each place that became free was taken, and no other"
        assert not any(task.done() for task in held[4:])

        gates.open([*(f"a{n}" for n in range(capacity)), *(f"b{n}" for n in range(20))])
        answers = await asyncio.gather(*held, *insisting)
        assert {answer.status for answer in answers} == {200}
        assert gates.begun == len(answers), "what was accepted ran once"
        assert await gates.add(peers) == {200}, "after the load each call is accepted"
        assert abs(server.memory - before) <= before / 10
        assert server.errors == ""

    async def connected() -> None:
        server = start(limits={"running": capacity})
        async with AsyncExitStack() as stack:
            await story(server, [await stack.enter_async_context(dial(server)) for _ in range(callers + capacity)])

    asyncio.run(connected())


@pytest.mark.requirement("R1")
def test_health_is_answered_during_overload(start: Start) -> None:
    async def story() -> None:
        server = start(limits={"running": 1})
        async with dial(server) as peer:
            slow = asyncio.create_task(peer.ask(oxp("wait", {"seconds": 1.0})))
            async with dial(server) as other:

                async def is_refused() -> bool:
                    return (await other.ask(oxp("add", {"a": 1, "b": 2}))).status == 503

                await wait_until_async(is_refused, within=HANG)
            assert (await get(server, "/health")).status == 200
            assert (await slow).status == 200

    asyncio.run(story())


@pytest.mark.requirement("R15")
def test_stopping_under_load_loses_no_call(start: Start) -> None:
    async def story() -> None:
        server = start()
        asked = asyncio.Event()
        seen: Counter[str] = Counter()

        async def load(protocol: str, number: int) -> None:
            for _ in range(100_000):
                before = not asked.is_set()
                try:
                    async with dial(server) as peer:
                        await some_calls(peer, protocol, number)
                except (Gone, ConnectionError):
                    assert not before, "a call from before the stop was dropped"
                    return

        async def some_calls(peer: Peer, protocol: str, number: int) -> None:
            for a in range(50):
                before = not asked.is_set()
                answer = await peer.ask(CALLS[protocol]("add", {"a": a * 1_000_000, "b": number}))
                assert is_refusal(answer) or str(a * 1_000_000 + number).encode() in answer.body
                seen[f"{'before' if before else 'after'} {answer.status}"] += 1
                if answer.headers.get("connection") == "close":
                    return

        async with AsyncExitStack() as stack:
            peers = [await stack.enter_async_context(dial(server)) for _ in range(40)]
            slow = [
                asyncio.create_task(peer.ask(call("wait", {"seconds": 1.5})))
                for peer, call in zip(peers, [*CALLS.values()] * 8, strict=True)
            ]
            loads = [asyncio.create_task(load(protocol, number)) for number in range(2) for protocol in CALLS]

            async def is_busy() -> bool:
                return await count(server) >= len(slow) and bool(seen["before 200"])

            async def is_stopping() -> bool:
                return (await get(server, "/health")).status != 200

            await wait_until_async(is_busy, within=HANG)
            asked.set()
            server.signal()
            await wait_until_async(is_stopping, within=HANG)
            assert (await get(server, "/health")).status == 503
            answers = await asyncio.gather(*slow)
            assert all(answer.status == 200 and b"1.5" in answer.body for answer in answers)
            await asyncio.gather(*loads)
        assert await server.ended() == 0
        assert seen["before 200"]
        assert seen["after 200"]
        assert not seen["after 503"], "no call is refused that came before the listener closed"
        assert server.errors == ""

    asyncio.run(story())


@pytest.mark.requirement("R15")
def test_blocked_tool_does_not_prevent_the_process_from_ending(start: Start) -> None:
    async def story() -> None:
        server = start(deadlines={"grace_s": 1.1, "drain_s": 0.1})
        async with dial(server) as peer:
            call = asyncio.create_task(peer.ask(oxp("block", {"seconds": 3_600.0})))
            async with dial(server) as other:
                assert (await other.ask(oxp("add", {"a": 1, "b": 2}))).status == 200
            server.signal()
            assert await server.ended() in {0, 1}
            await asyncio.gather(call, return_exceptions=True)
        assert "Traceback" not in server.errors

    asyncio.run(story())
