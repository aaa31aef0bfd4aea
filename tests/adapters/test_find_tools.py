"""A model of any provider finds tools by words, and a call by name is the call of the tool itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from anthropic import Anthropic
from openai.types.responses import ToolParam
from pydantic import TypeAdapter

from examples.scripted_model import lines, provider
from toolwire import Question, Toolkit, connect, connect_sync
from toolwire.adapters import anthropic, openai, openai_responses


def build_shop(ran: list[str]) -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto")
    def list_orders() -> list[str]:
        """List the orders."""
        return ["o1"]

    @kit.tool(approval="per-call", destructive=True)
    def erase_order(order: str) -> str:
        """Erase an order."""
        ran.append(order)
        return f"{order} is gone"

    return kit


def write_call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def list_names(remote: Any, **listed: Any) -> list[str]:
    return sorted(one["function"]["name"] for one in openai.build_tools(remote, **listed))


@pytest.mark.requirement("FI-06", "FI-07")
def test_a_call_by_name_asks_what_a_call_of_the_tool_asks() -> None:
    ran: list[str] = []
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    with connect_sync(build_shop(ran), approve=approve) as remote:
        names = list_names(remote, find=True, pins=["list_orders"])
        assert names == ["call", "describe", "find", "list_orders", "read_result"]
        found = openai.run_tool_call_sync(remote, write_call("find", words="erase an order"))["content"]
        assert "erase_order(order*): Erase an order · asks" in str(found)
        assert asked == []
        given = {"order": "o1"}
        by_name = openai.run_tool_call_sync(remote, write_call("call", name="erase_order", arguments=given))
        direct = openai.run_tool_call_sync(remote, write_call("erase_order", **given))
        assert by_name == direct
        first, second = ((one.call.tool, one.call.arguments, one.reasons, one.site) for one in asked)
        assert first == second
        assert ran == ["o1", "o1"]
        missing = openai.run_tool_call_sync(remote, write_call("call", name="nothing"))["content"]
        assert "error" in json.loads(str(missing))


@pytest.mark.requirement("FI-06")
def test_an_asynchronous_connection_finds_and_calls_too() -> None:
    ran: list[str] = []

    async def use() -> tuple[str, str]:
        async with connect(build_shop(ran), approve=lambda _: True) as remote:
            found = await openai.run_tool_call(remote, write_call("describe", names=["erase_order"]))
            done = await openai.run_tool_call(remote, write_call("call", name="erase_order", arguments={"order": "o2"}))
            return str(found["content"]), str(done["content"])

    found, done = asyncio.run(use())
    assert "Erase an order" in found
    assert "o2 is gone" in done
    assert ran == ["o2"]


@pytest.mark.requirement("FI-06")
def test_tools_are_deferred_to_the_search_of_the_provider_except_the_pinned_ones() -> None:
    ran: list[str] = []
    with connect_sync(build_shop(ran), approve=lambda _: True) as remote, provider(lines("Found.")) as model:
        sent = anthropic.build_deferred_tools(remote, pins=["list_orders"])
        client = Anthropic(base_url=model.url, api_key="none")
        client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}], tools=sent)
        client.close()
        search, *tools = model.heard[0]["tools"]
        assert search == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
        assert {one["name"]: one.get("defer_loading", False) for one in tools} == {
            "list_orders": False,
            "erase_order": True,
            "read_result": False,
        }
        call = {"type": "tool_use", "id": "c1", "name": "erase_order", "input": {"order": "o1"}}
        assert "o1 is gone" in str(anthropic.run_tool_call_sync(remote, call)["content"])
        assert ran == ["o1"]
        for strict in (False, True):
            deferred = openai_responses.build_deferred_tools(remote, strict=strict)
            whole = openai_responses.build_tools(remote, strict=strict)
            *tools, reading = whole
            assert deferred == [{"type": "tool_search"}, *({**one, "defer_loading": True} for one in tools), reading]
            TypeAdapter(list[ToolParam]).validate_python(deferred)


@pytest.mark.requirement("FI-06")
def test_only_and_budget_choose_what_is_listed() -> None:
    ran: list[str] = []
    with connect_sync(build_shop(ran), approve=lambda _: True) as remote:
        assert list_names(remote, budget=8_000) == list_names(remote) == ["erase_order", "list_orders", "read_result"]
        assert list_names(remote, budget=10) == ["call", "describe", "find", "read_result"]
        assert list_names(remote, only=["list_orders"]) == ["list_orders", "read_result"]
        with pytest.raises(ValueError, match="Did you mean list_orders"):
            list_names(remote, only=["list_order"])


@pytest.mark.requirement("FI-06")
def test_a_tool_that_is_named_find_keeps_its_name() -> None:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto")
    def find(order: str) -> str:
        """Look for an order in the cellar."""
        return f"{order} is in the cellar"

    with connect_sync(kit, approve=lambda _: True) as remote:
        assert list_names(remote, find=True) == ["call", "describe", "read_result", "toolwire_find"]
        found = openai.run_tool_call_sync(remote, write_call("toolwire_find", words="cellar"))["content"]
        assert "find(order*): Look for an order" in str(found)
        done = openai.run_tool_call_sync(remote, write_call("call", name="find", arguments={"order": "o1"}))["content"]
        assert "o1 is in the cellar" in str(done)


@pytest.mark.requirement("FI-06")
def test_every_sdk_declares_the_short_list() -> None:
    with connect_sync(build_shop([]), approve=lambda _: True) as remote:
        for tools in (openai_responses.build_tools(remote, find=True), anthropic.build_tools(remote, find=True)):
            assert [one["name"] for one in tools] == ["call", "describe", "find", "read_result"]
        call = {"type": "tool_use", "id": "c1", "name": "find", "input": {"words": "erase"}}
        assert "erase_order(order*)" in str(anthropic.run_tool_call_sync(remote, call)["content"])
