"""An argument that a tool does not declare is refused with the name that was meant: never dropped, never shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import toolwire
from toolwire import Kind, Problem, Toolkit, Value, connect, connect_sync
from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Tool
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]
SENTENCE = "delete_orders takes no `tag`: did you mean `tag_name`?"

pytestmark = pytest.mark.requirement("A-49", "S-15")


def shop(deleted: list[str]) -> Toolkit:
    toolkit = Toolkit("Shop")

    @toolkit.tool(approval="per-call", destructive=True)
    def delete_orders(tag_name: str = "all") -> str:
        """Delete orders, those with a tag."""
        deleted.append(tag_name)
        return tag_name

    @toolkit.tool(safe=True)
    def count_orders(tag_name: str = "all") -> int:
        """Count orders."""
        return len(tag_name)

    return toolkit


@pytest.fixture(scope="module")
def served_shop() -> Iterator[tuple[list[str], str]]:
    deleted: list[str] = []
    with background(toolwire.asgi(shop(deleted))) as url:
        yield deleted, url


@pytest.fixture
def site(served_shop: tuple[list[str], str]) -> Iterator[str]:
    deleted, url = served_shop
    deleted.clear()
    yield url
    assert deleted == []


@pytest.mark.requirement("O-04")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_refuses_an_undeclared_argument_without_a_question(site: str, protocol: str) -> None:
    asked: list[Any] = []
    with connect_sync(site, protocol=protocol, approve=lambda question: asked.append(question) is None) as remote:
        refused = remote.call("delete_orders", {"tag": "old"})
        read = remote.call("count_orders", {"tag_names": "old"})
    assert isinstance(refused, Problem)
    assert (refused.kind, refused.message) == (Kind.INVALID_ARGUMENTS, SENTENCE)
    assert isinstance(read, Problem)
    assert read.message == "count_orders takes no `tag_names`: did you mean `tag_name`?"
    assert asked == []


def answer(url: str, body: Any = None) -> tuple[int, str]:
    request = Request(url, None if body is None else json.dumps(body).encode(), {"content-type": "application/json"})
    request.add_header("accept", "application/json, text/event-stream")
    try:
        with urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.requirement("O-04")
def test_server_refuses_an_undeclared_argument_of_any_client(site: str) -> None:
    wrong = {"tag": "old"}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "delete_orders", "arguments": wrong}}
    initialize: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    assert answer(f"{site}/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize})[0] == 200
    calls: list[tuple[str, Any]] = [
        ("/api/delete_orders", wrong),
        ("/call", {"request": {"tool_id": "Shop.delete_orders", "input": wrong}}),
        ("/tools/call", {"request": {"tool_id": "Shop.delete_orders", "input": wrong}}),
        ("/opentool/call", {"jsonrpc": "2.0", "id": "1", "method": "delete_orders", "params": wrong}),
        ("/opentool/streamCall", {"jsonrpc": "2.0", "id": "1", "method": "delete_orders", "params": wrong}),
        ("/mcp", mcp),
        ("/api/count_orders?tag=old", None),
    ]
    for path, body in calls:
        _, text = answer(f"{site}{path}", body)
        assert "takes no `tag`: did you mean `tag_name`?" in text, path


@pytest.mark.requirement("I-28")
def test_no_name_of_an_undeclared_argument_is_special(site: str) -> None:
    call = {"jsonrpc": "2.0", "id": "1", "method": "count_orders", "params": {"tag_name": "new", "sessionId": "s"}}
    _, text = answer(f"{site}/opentool/call", call)
    assert json.loads(text)["error"]["message"] == "count_orders takes no `sessionId`: it takes `tag_name`."


@pytest.mark.requirement("I-28")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_published_schema_says_that_there_are_no_other_arguments(site: str, protocol: str) -> None:
    with connect_sync(site, protocol=protocol) as remote:
        for tool in remote.catalog().tools:
            assert tool.input_schema["additionalProperties"] is False, tool.name


@pytest.mark.requirement("I-28")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_open_schema_takes_any_argument_on_every_protocol(protocol: str) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    tool = Tool(name="search", toolkit="Site", description="Search.", input_schema=schema, output_schema={})
    got: list[Any] = []

    class Box:
        def catalog(self) -> Catalog:
            return Catalog(title="Site", tools=(tool,))

        async def run(self, call: Call, _notify: object = None) -> Value:
            got.append(dict(call.arguments))
            return Value(len(call.arguments))

    with (
        background(toolwire.asgi(Box())) as url,
        connect_sync(url, protocol=protocol, approve=lambda _: True) as remote,
    ):
        result = remote.call("search", {"q": "a", "lang": "en"})
    assert isinstance(result, Value), result
    assert got == [{"q": "a", "lang": "en"}]


@pytest.mark.requirement("O-04")
def test_model_receives_the_refusal_through_each_sdk(site: str) -> None:
    from anthropic.types import ToolUseBlock
    from google.genai.types import FunctionCall
    from openai.types.chat import ChatCompletionMessageFunctionToolCall

    from toolwire.adapters import anthropic, gemini, langchain, openai

    wrong = {"tag": "old"}
    reply = {"id": "1", "type": "function", "function": {"name": "delete_orders", "arguments": json.dumps(wrong)}}

    async def each() -> list[str]:
        async with connect(site, approve=lambda _: True) as remote:
            chat = await openai.run_tool_call(remote, ChatCompletionMessageFunctionToolCall.model_validate(reply))
            use = await anthropic.run_tool_call(
                remote, ToolUseBlock(id="1", name="delete_orders", input=wrong, type="tool_use")
            )
            part = await gemini.run_tool_call(remote, FunctionCall(name="delete_orders", args=wrong))
            tool = next(one for one in langchain.build_tools(remote) if one.name == "delete_orders")
            return [str(chat["content"]), str(use["content"]), str(part), str(await tool.ainvoke(wrong))]

    for text in asyncio.run(each()):
        assert SENTENCE in text


def test_model_receives_the_refusal_from_a_local_toolkit() -> None:
    from toolwire.adapters import langchain
    from toolwire.server.run.function_toolbox import FunctionToolbox

    deleted: list[str] = []
    tool = next(one for one in langchain.build_tools(FunctionToolbox(shop(deleted))) if one.name == "delete_orders")
    text = asyncio.run(tool.ainvoke({"tag": "old"}))
    assert "Did you mean `tag_name`?" in text
    assert deleted == []


def test_refusal_states_that_a_tool_takes_no_arguments(site: str) -> None:
    toolkit = Toolkit("Clock")

    @toolkit.tool(safe=True)
    def now() -> int:
        """Say what time it is."""
        return 12

    with background(toolwire.asgi(toolkit)) as url, connect_sync(url) as remote:
        assert remote.call("now") == Value(12)
        refused = remote.call("now", {"zone": "UTC"})
    assert isinstance(refused, Problem)
    assert refused.message == "now takes no `zone`: it takes no arguments."
