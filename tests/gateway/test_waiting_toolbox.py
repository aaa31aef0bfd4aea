"""A toolbox whose server is not there yet: it connects later, whatever goes wrong first, and stops when it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.support.waiting import wait_until_async
from toolwire import Kind, Problem, Toolkit, Value, asgi, connect
from toolwire.core.errors import ToolwireError
from toolwire.core.model import ANONYMOUS, Call
from toolwire.core.toolbox import Toolbox, ignore_progress
from toolwire.gateway import reconnecting_toolbox
from toolwire.gateway.reconnecting_toolbox import ReconnectingToolbox
from toolwire.gateway.upstream import Upstream
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

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
    monkeypatch.setattr(reconnecting_toolbox, "FIRST_PAUSE_S", 0.001)
    inner = build_toolbox()
    tool = inner.catalog().tools[0]
    outcomes: list[Exception | None] = [ToolwireError("it is down"), RuntimeError("a defect"), None]

    def connect() -> Toolbox:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return inner

    async def story() -> None:
        box = ReconnectingToolbox("desk", connect)
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
    monkeypatch.setattr(reconnecting_toolbox, "FIRST_PAUSE_S", 0.001)
    tried: list[int] = []

    def connect() -> Toolbox:
        tried.append(1)
        raise ToolwireError("it is down")

    async def story(wait: Callable[[], bool]) -> None:
        box = ReconnectingToolbox("desk", connect)
        await box.begin()
        await wait_until_async(wait)
        await box.end()
        count = len(tried)
        await asyncio.sleep(0)
        assert len(tried) == count
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(story(lambda: len(tried) >= 3))


@pytest.mark.requirement("PL-04")
def test_an_operator_does_not_have_to_wait_for_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnecting_toolbox, "FIRST_PAUSE_S", 600.0)
    outcomes: list[Exception | None] = [ToolwireError("it is still down"), None]
    inner = build_toolbox()

    def connect() -> Toolbox:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return inner

    async def story() -> None:
        box = ReconnectingToolbox("desk", connect, "it is down")
        assert not box.try_now(), "it is not served yet"
        await box.begin()
        upstream = Upstream(box, "desk")
        before = upstream.describe_health()
        assert (before.state, before.last_failure) == ("waiting", "it is down")
        assert before.failing_since == before.last_failure_at
        assert await asyncio.to_thread(box.try_now)
        await wait_until_async(lambda: upstream.describe_health().last_failure == "it is still down")
        after = upstream.describe_health()
        assert after.failing_since == before.failing_since
        assert await asyncio.to_thread(box.try_now)
        await wait_until_async(lambda: upstream.describe_health().state == "ok")
        assert upstream.describe_health().failing_since is None
        assert not box.try_now()
        await box.end()

    asyncio.run(story())


@pytest.mark.requirement("PL-04")
def test_a_failure_names_the_upstream_and_not_its_address() -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    def read() -> str:
        """Read."""
        return "text"

    async def story() -> None:
        with ExitStack() as serving:
            url = await asyncio.to_thread(serving.enter_context, background(asgi(kit)))
            async with connect(url, agree=lambda _: True, retries=0) as remote:
                await asyncio.to_thread(serving.close)
                upstream = Upstream(remote, "notes")
                found = await upstream.run(Call(remote.catalog().tools[0], {}, "1", ANONYMOUS), ignore_progress)
        assert isinstance(found, Problem)
        assert found.message == "The upstream notes refused the connection. Is the server running?"
        health = upstream.describe_health()
        assert (health.state, health.last_failure) == ("failing", found.message)
        assert health.failing_since is not None

    asyncio.run(story())
