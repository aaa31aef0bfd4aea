"""The limits of an upstream hold at each `await`, and its counts say what happened."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from toolwire import Kind, Problem, RateLimit, Toolkit, Value
from toolwire.core.catalog import Catalog
from toolwire.core.model import ANONYMOUS, Call, Result
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.gateway import UpstreamLimits
from toolwire.gateway.upstream import Upstream


class Desk:
    """A toolbox that gives the results that it is told to, and remembers how many calls ran at the same time."""

    def __init__(self, *results: Result) -> None:
        kit = Toolkit("Desk")
        kit.tool(lambda: "", name="ask", description="Ask.")
        self._catalog, self.results = kit.catalog(), list(results)
        self.running = self.most = 0

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify) -> Result:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        return self.results.pop(0) if self.results else Value("done")

    def call(self, caller: str = "key:ann") -> Call:
        return Call(self._catalog.tools[0], {}, context=replace(ANONYMOUS, principal=caller))


class SlowWindows:
    """A store of rates in another process, which answers when ``is_open`` is set, or more than ``most`` calls wait."""

    def __init__(self, most: int) -> None:
        self.is_open, self.asked, self.most = threading.Event(), 0, most

    def take(self, key: str, limit: RateLimit) -> float:
        self.asked += 1
        if self.asked > self.most:
            self.is_open.set()
        assert self.is_open.wait(20)
        return 0.0


@pytest.mark.requirement("AT-58", "GW-01")
@pytest.mark.parametrize(("callers", "most", "kind"), [(1, 3, Kind.RATE_LIMITED), (8, 4, Kind.OVERLOADED)])
def test_calls_that_wait_for_the_count_of_their_rate_take_places(callers: int, most: int, kind: Kind) -> None:
    desk, windows = Desk(), SlowWindows(most)
    limits = UpstreamLimits(running=4, rate=RateLimit(max=100, window="1h"))
    upstream = Upstream(desk, "desk", limits=limits, windows=windows)

    async def story() -> list[Result]:
        running = [
            asyncio.create_task(upstream.run(desk.call(f"key:{number % callers}"), ignore_progress))
            for number in range(20)
        ]
        # Each call has come to its count, or was refused.
        refused = running[most:]
        await asyncio.wait(refused)
        windows.is_open.set()
        return list(await asyncio.gather(*running))

    results = asyncio.run(story())
    assert [one for one in results if isinstance(one, Value)] == [Value("done")] * most
    assert {one.kind for one in results if isinstance(one, Problem)} == {kind}
    assert (windows.asked, desk.most <= most) == (most, True)
    health = upstream.describe_health()
    assert (health.running, health.calls, health.answered) == (0, most, most)


@pytest.mark.requirement("TE-03", "GW-05")
def test_a_call_without_an_answer_counts_as_a_failure_and_not_as_answered() -> None:
    lost = Problem(kind=Kind.UNREACHABLE, message="Nobody is there.")
    refused = Problem(kind=Kind.DENIED, message="No.")
    unsent = Problem(kind=Kind.DENIED, message="Not asked.", details={"sent": False})
    desk = Desk(Value("a"), lost, refused, lost, unsent)
    upstream = Upstream(desk, "desk", limits=UpstreamLimits())

    async def story() -> list[tuple[int, int, int, str]]:
        seen = []
        for _ in range(5):
            await upstream.run(desk.call(), ignore_progress)
            health = upstream.describe_health()
            seen.append((health.answered, health.failures, health.failures_in_row, health.state))
        return seen

    assert asyncio.run(story()) == [
        (1, 0, 0, "ok"),
        (1, 1, 1, "failing"),
        (2, 1, 0, "ok"),
        (2, 2, 1, "failing"),
        (2, 2, 1, "failing"),
    ]
