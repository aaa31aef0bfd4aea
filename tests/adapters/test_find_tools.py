"""A model of any provider finds tools by words, and a call by name is the call of the tool itself."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Annotated, Any

import jsonschema_rs
import pytest
from anthropic import Anthropic
from anthropic.types import ToolUnionParam
from openai.types.responses import ResponseFunctionToolCall, ToolParam
from pydantic import Field, TypeAdapter

from examples.scripted_model import lines, provider
from toolwire import Question, Toolkit, asgi, connect, connect_sync
from toolwire.adapters import ModelCalls, anthropic, openai, openai_responses
from toolwire.adapters.dialects import Provider
from toolwire.adapters.example_calls import list_example_calls
from toolwire.adapters.find_tools import list_tools
from toolwire.adapters.schema import build_tool_schema
from toolwire.adapters.tool_declarations import read_call
from toolwire.client.connection.combined_remote import CombinedRemote
from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Problem, Tool
from toolwire.testing.loopback import background


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
        deferred = openai_responses.build_deferred_tools(remote, pins=["list_orders"])
        erasing, listing, reading = openai_responses.build_tools(remote)
        namespace = {
            "type": "namespace",
            "name": "Shop",
            "description": "Shop: erase_order",
            "tools": [{**erasing, "defer_loading": True}],
        }
        assert deferred == [{"type": "tool_search"}, listing, reading, namespace]
        TypeAdapter(list[ToolParam]).validate_python(deferred)
        asked = ResponseFunctionToolCall(
            type="function_call", call_id="c2", name="erase_order", namespace="Shop", arguments='{"order": "o2"}'
        )
        assert "o2 is gone" in str(openai_responses.run_tool_call_sync(remote, asked)["output"])


@pytest.mark.requirement("FI-06")
def test_namespaces_are_the_servers_and_the_subjects_of_a_large_one() -> None:
    large, small = Toolkit("Large store"), Toolkit("Mail")
    for verb in ("list", "get", "erase"):
        for number in range(20):
            large.tool(name=f"{verb}_thing{chr(97 + number)}", description="Do it.")(lambda: None)
    small.tool(name="send_mail", description="Send a mail.")(lambda: None)

    with (
        background(asgi(large)) as store,
        background(asgi(small)) as mail,
        connect_sync(store) as first,
        connect_sync(mail) as second,
    ):
        both = CombinedRemote([first, second])
        lists: list[Any] = [openai_responses.build_deferred_tools(one) for one in (first, second, both)]
    for tools, expected in zip(lists, (20, 1, 21), strict=True):
        spaces = [one for one in tools if one["type"] == "namespace"]
        assert len(spaces) == len({one["name"] for one in spaces}) == expected
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one["name"]) for one in spaces)
        for space in spaces:
            assert all(one["name"] in space["description"] for one in space["tools"])
        TypeAdapter(list[ToolParam]).validate_python(tools)


def list_examples(kit: Toolkit) -> dict[str, list[dict[str, object]]]:
    with connect_sync(kit) as remote:
        tools: Any = anthropic.build_deferred_tools(remote)
        TypeAdapter(list[ToolUnionParam]).validate_python(tools)
        for one in tools:
            for example in one.get("input_examples", ()):
                jsonschema_rs.validate(one["input_schema"], example)
        assert all("input_examples" not in one for one in anthropic.build_tools(remote))
        return {one["name"]: list(one["input_examples"]) for one in tools if "input_examples" in one}


@pytest.mark.requirement("FI-06")
def test_the_examples_of_a_tool_are_the_input_examples_of_anthropic() -> None:
    kit = Toolkit("Shop")

    @kit.tool
    def send(to: Annotated[str, Field(examples=["ada@example.com", "b"])], copies: int = 1) -> None:
        """Send an order."""

    @kit.tool
    def partly(to: Annotated[str, Field(examples=["ada@example.com"])], subject: str) -> None:
        """Send a mail. Nobody says what a subject looks like, so there is no example of a call."""

    @kit.tool
    def wrong(count: Annotated[int, Field(examples=["many"])]) -> None:
        """Count things. The example does not fit."""

    @kit.tool
    def plain(to: str) -> None:
        """Send without an example."""

    assert list_examples(kit) == {"send": [{"to": "ada@example.com"}]}


@pytest.mark.requirement("FI-06")
def test_example_calls_fit_have_declared_names_and_are_few_and_short() -> None:
    inner = {"type": "object", "properties": {"x-to": {"type": "string"}, "copies": {"type": "integer"}}}
    calls = [{"x-to": "a"}, {"copies": "no"}, {"x-to": "b", "copies": 1}, {"x-to": "c" * 2_000}, {"x-to": "a"}]
    schema = {**inner, "required": ["x-to"], "examples": [*calls, "no call", {"x-to": "d\u200b"}, {"x-to": "e"}]}
    built = build_tool_schema(schema, Provider.ANTHROPIC)
    found = list_example_calls(built)
    assert [built.read_arguments(one) for one in found] == [
        {"x-to": "a"},
        {"x-to": "b", "copies": 1},
        {"x-to": "d"},
    ]
    assert all("x_to" in one for one in found)
    for one in found:
        jsonschema_rs.validate(built.schema, one)
    nested = {"type": "object", "properties": {"mail": {**inner, "examples": [{"x-to": "a"}]}}}
    assert list_example_calls(build_tool_schema(nested, Provider.ANTHROPIC)) == [{"mail": {"x_to": "a"}}]


@pytest.mark.requirement("FI-06")
def test_only_and_budget_choose_what_is_listed() -> None:
    ran: list[str] = []
    with connect_sync(build_shop(ran), approve=lambda _: True) as remote:
        assert list_names(remote, budget=8_000) == list_names(remote) == ["erase_order", "list_orders", "read_result"]
        assert list_names(remote, budget=10) == ["call", "describe", "find", "read_result"]
        assert list_names(remote, only=["list_orders"]) == ["list_orders", "read_result"]
        assert list_names(remote, only=["list_orders"], find=True, pins=["list_orders"]) == [
            *["call", "describe", "find", "list_orders", "read_result"]
        ]
        with pytest.raises(ValueError, match="Did you mean list_orders"):
            list_names(remote, only=["list_order"])
        with pytest.raises(ValueError, match="Unknown tool 'erase_order'"):
            list_names(remote, only=["list_orders"], find=True, pins=["erase_order"])


def read_error(remote: Any, name: str, /, **arguments: Any) -> str:
    answer = json.loads(str(openai.run_tool_call_sync(remote, write_call(name, **arguments))["content"]))
    return str(answer["error"]["message"])


@pytest.mark.requirement("FI-06")
def test_a_call_of_a_tool_that_no_list_declared_is_refused_in_words_for_the_model() -> None:
    ran: list[str] = []
    with connect_sync(build_shop(ran), approve=lambda _: True) as remote:
        list_names(remote, only=["list_orders"])
        refusal = "Unknown tool 'erase_order'. Did you mean list_orders? Available tools: list_orders."
        assert read_error(remote, "erase_order", order="o1") == refusal
        by_name = read_error(remote, "call", name="erase_order", arguments={"order": "o1"})
        assert by_name == "Unknown tool 'erase_order'. Available tools: list_orders."
        assert "Unknown tool" in read_error(remote, "Shop.erase_order", order="o1")
        assert "No tool matches" in str(openai.run_tool_call_sync(remote, write_call("find", words="erase"))["content"])
        shown = str(openai.run_tool_call_sync(remote, write_call("describe", names=["erase_order"]))["content"])
        assert "Unknown tool 'erase_order'" in shown
        call = {"type": "tool_use", "id": "c1", "name": "erase_order", "input": {"order": "o1"}}
        assert anthropic.run_tool_call_sync(remote, call)["is_error"]
        foreign = {"type": "function_call", "call_id": "c1", "name": "erase_order", "arguments": '{"order": "o1"}'}
        assert refusal in str(openai_responses.run_tool_call_sync(remote, foreign)["output"])
        assert ran == []
        assert "o1" in str(openai.run_tool_call_sync(remote, write_call("list_orders"))["content"])
        list_names(remote, find=True)  # what the model finds now, it may call
        assert "o1 is gone" in str(openai.run_tool_call_sync(remote, write_call("erase_order", order="o1"))["content"])
    with connect_sync(build_shop(ran), approve=lambda _: True) as other:
        list_names(other)
        list_names(other, only=["list_orders"])  # a model that read the first list still has its tools
        assert "o2 is gone" in str(openai.run_tool_call_sync(other, write_call("erase_order", order="o2"))["content"])


@pytest.mark.requirement("FI-06")
def test_lists_of_one_connection_count_together_and_awaited_calls_are_refused_too() -> None:
    ran: list[str] = []

    async def use() -> list[str]:
        async with connect(build_shop(ran), approve=lambda _: True) as remote:
            openai.build_tools(remote, only=["list_orders"])
            refused = await openai.run_tool_call(remote, write_call("erase_order", order="o1"))
            question = ModelCalls(remote, Provider.OPENAI).preview("erase_order", {"order": "o1"})
            openai.build_tools(remote, only=["erase_order"])
            done = [await openai.run_tool_call(remote, write_call(name, **given)) for name, given in CALLS]
            return [str(one["content"]) for one in (refused, *done)] + [str(question)]

    refused, erased, listed, question = asyncio.run(use())
    assert "Unknown tool 'erase_order'" in refused
    assert "o3 is gone" in erased
    assert "o1" in listed
    assert question == "()"
    assert ran == ["o3"]


CALLS: list[tuple[str, dict[str, Any]]] = [("erase_order", {"order": "o3"}), ("list_orders", {})]


@pytest.mark.requirement("FI-06")
def test_a_chosen_tool_keeps_the_name_that_it_has_among_all_tools() -> None:
    tools = [Tool(name="erase", toolkit=one, version=version) for one in ("A", "B") for version in ("1.0.0", "2.0.0")]
    catalog = Catalog(tools=tuple(tools))
    assert list_tools(Toolkit("Key"), catalog, {"only": ["A.erase"]}).names == {"A_erase": tools[1]}
    older = list_tools(Toolkit("Key"), catalog, {"only": ["A.erase@1.0.0"]})
    assert older.names == {"A_erase": tools[0]}
    call = read_call(catalog, Provider.OPENAI, "A_erase", {}, older)
    assert isinstance(call, Call)
    assert call.tool is tools[0]  # the version that was declared
    assert isinstance(read_call(catalog, Provider.OPENAI, "B_erase", {}, older), Problem)


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


@pytest.mark.requirement("FI-06")
def test_only_needs_a_toolbox_that_its_bound_can_be_kept_for() -> None:
    class Box:
        __slots__ = ()

        def catalog(self) -> Catalog:
            return Catalog(tools=(Tool(name="erase"),))

        def call(self, name: str, arguments: Any, /) -> Any:
            raise AssertionError(name)

    assert list_names(Box()) == ["erase"]
    with pytest.raises(TypeError, match="only= needs a toolbox with a hash and weak references, which Box lacks"):
        list_names(Box(), only=["erase"])
