"""A model calls each function of a server that it knows from its document alone, through each SDK and MCP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.support.upstreams import connect_without_user
from toolwire import connect_sync
from toolwire.client import SyncRemote
from toolwire.client.calls.session import Session
from toolwire.core.check import Answer, Question
from toolwire.server import asgi
from toolwire.testing.loopback import background

from .conftest import DOCUMENT
from .foreign_servers import Asked, Said, compact, run_server, text

pytestmark = [pytest.mark.requirement("OT-028"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

Calls = list[tuple[str, dict[str, Any]]]
MODEL_VALUES = {"string": "tea", "integer": 7}
RESULTS = {"create": {"ID": 1}, "read": {"text": "tea"}}


def make_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a model would send: a value of the declared type for each required property."""
    required = schema.get("required", [])
    return {name: MODEL_VALUES[one["type"]] for name, one in schema.get("properties", {}).items() if name in required}


def allow(_: Question) -> Answer:
    return Answer(allowed=True)


@pytest.fixture
def calls() -> Calls:
    return []


@pytest.fixture
def url(calls: Calls) -> Iterator[str]:
    """A server of which nothing is known but its document."""

    def answer(asked: Asked) -> Said:
        match asked.method, asked.path:
            case "GET", "/opentool/load":
                return text(compact(DOCUMENT))
            case "GET", "/opentool/version":
                return text('{"version":"2.3.4"}')
            case "POST", "/opentool/call":
                data = json.loads(asked.body)
                calls.append((data["method"], data.get("params") or {}))
                return text(compact({"jsonrpc": "2.0", "result": RESULTS.get(data["method"], {}), "id": data["id"]}))
            case _:
                return text("{}", 404)

    with run_server(answer) as there:
        yield there.url.removesuffix("/opentool")


EXPECTED: Calls = [
    ("break", {}),
    ("count", {}),
    ("create", {"text": "tea"}),
    ("fail", {}),
    ("read", {"id": 7}),
]


def call_by_openai(remote: SyncRemote) -> list[str]:
    from openai.types.chat import ChatCompletionMessageFunctionToolCall

    from toolwire.adapters import openai

    answers = []
    for tool in openai.build_tools(remote)[:-1]:  # the last one reads long results
        function = tool["function"]
        written = json.dumps(make_arguments(dict(function["parameters"])))
        call = ChatCompletionMessageFunctionToolCall.model_validate(
            {"id": "1", "type": "function", "function": {"name": function["name"], "arguments": written}}
        )
        answers.append(str(openai.run_tool_call_sync(remote, call)["content"]))
    return answers


def call_by_anthropic(remote: SyncRemote) -> list[str]:
    from anthropic.types import ToolUseBlock

    from toolwire.adapters import anthropic

    return [
        str(
            anthropic.run_tool_call_sync(
                remote,
                ToolUseBlock(
                    id="1", type="tool_use", name=tool["name"], input=make_arguments(dict(tool["input_schema"]))
                ),
            )["content"]
        )
        for tool in anthropic.build_tools(remote)[:-1]
    ]


def call_by_langchain(remote: SyncRemote) -> list[str]:
    from toolwire.adapters import langchain

    return [
        str(tool.invoke(make_arguments(dict(tool.args_schema)))) for tool in langchain.build_tools_sync(remote)[:-1]
    ]


@pytest.mark.parametrize("call_all", [call_by_openai, call_by_anthropic, call_by_langchain])
def test_model_can_call_every_function_from_the_document_alone(
    url: str, calls: Calls, call_all: Callable[[SyncRemote], list[str]]
) -> None:
    with connect_sync(url, protocol="opentool", approve=allow) as remote:
        answers = call_all(remote)
    assert sorted(calls, key=lambda call: call[0]) == EXPECTED
    assert not [answer for answer in answers if '"error"' in answer]
    assert sum("tea" in answer for answer in answers) == 1


def test_mcp_host_can_call_every_function_from_the_document_alone(url: str, calls: Calls) -> None:
    remote = connect_without_user(url, Session(), approve=allow)

    async def call_all(gateway: str) -> list[bool]:
        async with Client(f"{gateway}/mcp") as client:
            tools = (await client.list_tools()).tools
            results = [await client.call_tool(tool.name, make_arguments(tool.input_schema)) for tool in tools]
        return [bool(result.is_error) for result in results]

    with background(asgi(remote)) as gateway:
        assert anyio.run(call_all, gateway) == [False] * 5
    assert sorted(calls, key=lambda call: call[0]) == EXPECTED
