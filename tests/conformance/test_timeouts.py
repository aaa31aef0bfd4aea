"""The server's own limit on a tool holds on every protocol."""

import asyncio
from collections.abc import Callable

import pytest

from tests.support.conformance import CodecConnection
from toolwire import ServerLimits, Toolkit
from toolwire.core.model import Kind, Problem


@pytest.mark.requirement("D-34")
def test_tool_without_a_time_limit_gets_that_of_the_server(join: Callable[..., CodecConnection]) -> None:
    kit = Toolkit("Slow")
    cancelled: list[str] = []

    @kit.tool(approval="auto")
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("wait")
            raise
        return "never"

    problem = join(kit, limits=ServerLimits(tool_s=0.05)).call("wait", {})
    assert isinstance(problem, Problem)
    assert problem.kind in (Kind.TIMEOUT, Kind.TOOL_FAILED)
    assert "wait was cancelled: it took longer than 0.05 seconds." in problem.message
    assert cancelled == ["wait"]
