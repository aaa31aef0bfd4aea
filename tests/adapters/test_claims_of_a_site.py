"""What a site says of its own tools saves no question through any adapter of any SDK, however it is called."""

from __future__ import annotations

import asyncio
import inspect
import json
import pkgutil
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

import toolwire.adapters
from tests.client import conftest
from tests.support.claims import Bank
from toolwire import connect, connect_sync

SAID = {"amount": 5}
listen, encode_response = conftest.listen, conftest.encode_response  # fixtures
FRAMEWORKS = {"ag2", "crewai", "google_adk", "haystack", "llama_index", "openai_agents", "smolagents"}
"""Those that are not in this environment: ``frameworks/test_frameworks.py`` lets the same sites claim the same."""
FOUND = {
    f"{module.name}.{name}": one
    for module in pkgutil.iter_modules(toolwire.adapters.__path__)
    if module.name not in FRAMEWORKS
    for name, one in vars(import_module(f"toolwire.adapters.{module.name}")).items()
    if inspect.isfunction(one) and one.__module__.endswith(f".{module.name}") and name.startswith("run_tool_call")
}
"""Every function of an adapter that runs the call of a model; a new one is here without being named."""
SDKS = ("openai", "openai_responses", "anthropic", "gemini", "langchain")
assert {f"{sdk}.run_tool_call{form}" for sdk in SDKS for form in ("", "_sync")} <= FOUND.keys()


APPROVED = SimpleNamespace(tool_call_id="1", tool_call_approved=True)
"""The context of a run of Pydantic AI that says that its user approved the call."""


class ToolCall(SimpleNamespace):
    """A call as each SDK has it; one of them has a mapping."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key, default)


def build_tool_call(where: str) -> ToolCall | list[ToolCall]:
    text = json.dumps(SAID)
    arguments: Any = SAID if where.startswith("gemini") else text
    function = SimpleNamespace(name="wire_money", arguments=text)
    call = ToolCall(
        id="1", call_id="1", name="wire_money", args=SAID, input=SAID, arguments=arguments, function=function
    )
    return [call] if "run_tool_calls" in where else call


@pytest.mark.requirement("XL-044", "XL-090")
@pytest.mark.parametrize("where", FOUND)
@pytest.mark.parametrize("wire", ["otc", "opentool", "mcp"])
def test_no_adapter_calls_a_writing_tool_without_approval(
    where: str,
    wire: str,
    listen: Callable[..., Any],
    encode_response: Callable[..., bytes],
) -> None:
    bank = Bank(wire, listen, encode_response)
    run = FOUND[where]

    async def call_it(**more: Any) -> Any:
        async with connect(bank.url, protocol=wire, **more) as remote:
            return await run(remote, build_tool_call(where))

    def call(**more: Any) -> Any:
        if inspect.iscoroutinefunction(run):
            return asyncio.run(call_it(**more))
        with connect_sync(bank.url, protocol=wire, **more) as remote:
            return run(remote, build_tool_call(where))

    answer = call()
    assert bank.sent == []
    assert "denied" in str(answer)
    call(approve=lambda _: False)
    assert bank.sent == []
    call(approve=lambda _: True)
    assert len(bank.sent) == 1  # the attack would be seen


@pytest.mark.requirement("XL-044", "XL-090")
@pytest.mark.parametrize("wire", ["otc", "opentool", "mcp"])
@pytest.mark.parametrize("sdk", ["langchain", "pydantic_ai"])
def test_no_sdk_tool_object_calls_a_writing_tool_without_approval(
    sdk: str, wire: str, listen: Callable[..., Any], encode_response: Callable[..., bytes]
) -> None:
    bank = Bank(wire, listen, encode_response)
    build = import_module(f"toolwire.adapters.{sdk}")

    async def call(**more: Any) -> str:
        async with connect(bank.url, protocol=wire, **more) as remote:
            tool, *_ = build.build_tools(remote)
            return str(await (tool.ainvoke(SAID) if sdk == "langchain" else tool.function(APPROVED, **SAID)))

    def call_sync(**more: Any) -> str:
        with connect_sync(bank.url, protocol=wire, **more) as remote:
            tool, *_ = build.build_tools_sync(remote)
            return str(tool.invoke(SAID) if sdk == "langchain" else tool.function(APPROVED, **SAID))

    def call_async(**more: Any) -> str:
        return asyncio.run(call(**more))

    for run in (call_async, call_sync):
        bank.sent.clear()
        assert "denied" in run()
        assert "denied" in run(approve=lambda _: False)
        assert bank.sent == []
        run(approve=lambda _: True)
        assert len(bank.sent) == 1  # the attack would be seen
