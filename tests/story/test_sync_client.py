"""The blocking client is the same client: the same tools, checks and results, from any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import toolwire
from toolwire import Toolkit, Value, connect, connect_sync
from toolwire.testing.loopback import background


def calculator() -> Toolkit:
    toolkit = Toolkit("Calculator")

    @toolkit.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @toolkit.tool
    def forget() -> None:
        """Forget everything."""

    return toolkit


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with background(toolwire.asgi(calculator())) as url:
        yield url


@pytest.mark.requirement("XL-089")
def test_blocking_and_asynchronous_client_give_the_same_results(site: str) -> None:
    calls = [("add", {"a": 1, "b": 2}), ("add", {"a": "one", "b": 2}), ("forget", {}), ("subtract", {})]
    with connect_sync(site) as remote:
        blocking = [remote.call(name, arguments) for name, arguments in calls]
        tools, probes = remote.tools, remote.probes

    async def same() -> None:
        async with connect(site) as remote:
            assert [await remote.call(name, arguments) for name, arguments in calls] == blocking
            assert (remote.tools, remote.probes) == (tools, probes)

    anyio.run(same)
    assert blocking[0] == Value(3)
    assert [result.ok for result in blocking] == [True, False, False, False]


def test_threads_can_share_one_connection(site: str) -> None:
    with connect_sync(site) as remote, ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda number: remote.call("add", {"a": number, "b": 1}), range(48))
        assert [result.value for result in results if isinstance(result, Value)] == list(range(1, 49))


def test_a_tool_is_called_by_name_or_id_with_or_without_a_version(site: str) -> None:
    with connect_sync(site) as remote:
        for name in ("add", "Calculator.add", "Calculator.add@1", "Calculator.add@1.0.0"):
            assert remote.call(name, {"a": 1, "b": 2}) == Value(3)


def test_blocking_connection_refuses_a_coroutine_approver(site: str) -> None:
    async def approve(question: object) -> bool:
        return True

    with connect_sync(site, approve=approve) as remote, pytest.raises(TypeError, match="plain function"):
        remote.call("forget")
