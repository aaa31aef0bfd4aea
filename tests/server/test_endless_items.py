"""A generator that awaits nothing shares the event loop, and ends when its caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter

import pytest

from toolwire import Toolkit
from toolwire.core.model import ANONYMOUS, Progress, make_call
from toolwire.server.run.function_toolbox import FunctionToolbox

pytestmark = pytest.mark.requirement("GR-01")


def spin(seconds: float) -> None:
    until = perf_counter() + seconds
    while perf_counter() < until:
        pass


def test_items_without_an_await_leave_the_loop_to_others_and_can_be_cancelled() -> None:
    made: list[int] = []
    closed: list[bool] = []
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    async def count() -> AsyncIterator[int]:
        """Count."""
        try:
            for number in range(9_000):
                spin(0.001)
                made.append(number)
                yield number
        finally:
            closed.append(True)

    async def notify(_: Progress) -> None:
        pass

    async def run() -> int:
        toolbox = FunctionToolbox(kit)
        tool = toolbox.catalog().names["count"]
        running = asyncio.create_task(toolbox.run(make_call((tool, {}, "1", ANONYMOUS, "")), notify))
        turns = 0
        while len(made) < 50:  # another caller gets the loop meanwhile
            await asyncio.sleep(0)
            turns += 1
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        return turns

    turns = asyncio.run(run())
    assert turns > 3
    assert closed == [True]
    assert len(made) < 1_000
