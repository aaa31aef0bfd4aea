"""A toolbox whose server is not there yet: it connects later, whatever goes wrong first, and stops when it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.waiting import wait_until_async
from toolwire import Kind, Problem, Toolkit, Value
from toolwire.core.errors import ToolwireError
from toolwire.core.model import ANONYMOUS, Call
from toolwire.core.toolbox import Toolbox
from toolwire.gateway import waiting_toolbox
from toolwire.gateway.waiting_toolbox import WaitingToolbox
from toolwire.server.run.function_toolbox import FunctionToolbox

WAIT_S = 20


def build_toolbox() -> Toolbox:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto")
    def tell() -> str:
        """Tell."""
        return "here"

    return FunctionToolbox(kit)


@pytest.mark.requirement("GW-01")
def test_waiting_toolbox_connects_after_failures_and_exceptions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting_toolbox, "FIRST_PAUSE_S", 0.001)
    inner = build_toolbox()
    tool = inner.catalog().tools[0]
    outcomes: list[Exception | None] = [ToolwireError("it is down"), RuntimeError("a defect"), None]

    def connect() -> Toolbox:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return inner

    async def story() -> None:
        box = WaitingToolbox("desk", connect)
        call = Call(tool, {}, "1", ANONYMOUS)
        early = await box.run(call)
        assert isinstance(early, Problem)
        assert early.kind is Kind.UNREACHABLE
        assert not box.catalog().tools
        await box.begin()
        await wait_until_async(lambda: box.catalog().tools)
        assert await box.run(call) == Value("here")
        await box.end()

    asyncio.run(story())
    assert "desk could not be opened" in caplog.text
    assert "a defect" in caplog.text
    assert "desk has been reached" in caplog.text


@pytest.mark.requirement("GW-01")
def test_waiting_toolbox_stops_retrying_when_the_gateway_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_toolbox, "FIRST_PAUSE_S", 0.001)
    tried: list[int] = []

    def connect() -> Toolbox:
        tried.append(1)
        raise ToolwireError("it is down")

    async def story(wait: Callable[[], bool]) -> None:
        box = WaitingToolbox("desk", connect)
        await box.begin()
        await wait_until_async(wait)
        await box.end()
        count = len(tried)
        await asyncio.sleep(0)
        assert len(tried) == count
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(story(lambda: len(tried) >= 3))
