"""What the adapters of all SDKs share: a connection of the other kind is refused with the function that is meant."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolwire import Toolkit, connect, connect_sync
from toolwire.adapters import anthropic, gemini, openai, openai_responses

kit = Toolkit("Sums")


@kit.tool(approval="auto", safe=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ARGUMENTS = '{"a": 1, "b": 2}'
CALLS: list[tuple[Any, Any]] = [
    (openai, {"id": "1", "type": "function", "function": {"name": "add", "arguments": ARGUMENTS}}),
    (openai_responses, {"type": "function_call", "call_id": "1", "name": "add", "arguments": ARGUMENTS}),
    (anthropic, {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1, "b": 2}}),
    (gemini, {"id": "1", "name": "add", "args": {"a": 1, "b": 2}}),
]


@pytest.mark.parametrize(("adapter", "call"), CALLS)
def test_connection_of_the_other_kind_is_refused_with_the_function_that_is_meant(adapter: Any, call: Any) -> None:
    with connect_sync(kit, agree=bool) as remote:
        with pytest.raises(
            TypeError, match=r"not SyncRemote: run_tool_call_sync and build_tools_sync are for connect_sync"
        ):
            asyncio.run(adapter.run_tool_call(remote, call))
        assert "3" in str(adapter.run_tool_call_sync(remote, call))
    with pytest.raises(
        TypeError, match=r"not Toolkit: run_tool_call and build_tools are for connect and for a toolkit\.$"
    ):
        adapter.run_tool_call_sync(kit, call)

    async def run() -> None:
        async with connect(kit, agree=bool) as remote:
            with pytest.raises(TypeError, match=r"not Remote: run_tool_call and build_tools are for connect"):
                adapter.run_tool_call_sync(remote, call)
            assert "3" in str(await adapter.run_tool_call(remote, call))

    asyncio.run(run())
