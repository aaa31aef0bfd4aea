"""What of a failed call reaches a model, through the SDKs and through MCP; and what a document says is not read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.client import conftest
from tests.support.upstreams import connect_without_user
from toolwire import Answer, Kind, Problem, Question, Toolkit, asgi, connect_sync
from toolwire.client import SyncRemote
from toolwire.client.calls.session import Session
from toolwire.testing.loopback import background

listen, encode_response = conftest.listen, conftest.encode_response  # fixtures
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
ERROR = {
    "message": "The mailbox is locked.",
    "developer_message": "EX_LOCK at /srv/mail",
    "additional_prompt_content": "Try another mailbox.",
}
TOOL = {
    "id": "Mail.read@1.0.0",
    "name": "read",
    "description": "Read the mail.",
    "version": "1.0.0",
    "input_schema": {"parameters": {"type": "object", "properties": {}}},
    "output_schema": {},
    "colour": "red",
    "requirements": {"mood": "good"},
}


def allow(_: Question) -> Answer:
    return Answer(allowed=True)


def deny(_: Question) -> Answer:
    return Answer(allowed=False)


@pytest.fixture
def open_mail(listen: Callable[..., Any], encode_response: Callable[..., bytes]) -> Callable[[dict[str, Any]], str]:
    """Serve a foreign Open Tool Calling server that answers each call with ``output`` and with unknown members."""

    def start(outcome: dict[str, Any]) -> str:
        def answer(seen: Any) -> list[bytes]:
            method, path, _ = seen.line.split()
            if (method, path) == ("GET", "/tools"):
                return [encode_response(json.dumps({"$schema": "urn:x", "tools": [TOOL], "page": 1}).encode(), JSON)]
            if (method, path) == ("POST", "/call"):
                call_id = json.loads(seen.body)["request"]["call_id"]
                body = {"$schema": "urn:x", "call_id": call_id, **outcome, "mood": {"is": "good"}}
                return [encode_response(json.dumps(body).encode(), JSON)]
            return [encode_response(b"{}", status="404 None")]

        return str(listen(answer).origin)

    return start


JSON = "content-type: application/json"


def call_by_openai(remote: SyncRemote, name: str) -> str:
    from openai.types.chat import ChatCompletionMessageFunctionToolCall

    from toolwire.adapters import openai

    call = ChatCompletionMessageFunctionToolCall.model_validate(
        {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    )
    return json.dumps(openai.run_tool_call_sync(remote, call))


def call_by_responses(remote: SyncRemote, name: str) -> str:
    from openai.types.responses import ResponseFunctionToolCall

    from toolwire.adapters import openai_responses

    call = ResponseFunctionToolCall(call_id="1", name=name, type="function_call", arguments="{}")
    return json.dumps(openai_responses.run_tool_call_sync(remote, call))


def call_by_anthropic(remote: SyncRemote, name: str) -> str:
    from anthropic.types import ToolUseBlock

    from toolwire.adapters import anthropic

    return json.dumps(anthropic.run_tool_call_sync(remote, ToolUseBlock(id="1", name=name, input={}, type="tool_use")))


def call_by_gemini(remote: SyncRemote, name: str) -> str:
    from google.genai import types

    from toolwire.adapters import gemini

    return repr(gemini.run_tool_call_sync(remote, types.FunctionCall(id="1", name=name, args={})))


def call_by_langchain(remote: SyncRemote, name: str) -> str:
    from toolwire.adapters import langchain

    (tool,) = [tool for tool in langchain.build_tools_sync(remote) if tool.name == name]
    return str(tool.invoke({}))


CALLERS = [call_by_openai, call_by_responses, call_by_anthropic, call_by_gemini, call_by_langchain]


@pytest.mark.requirement("C-12", "OTC-028", "OTC-029", "OTC-031")
@pytest.mark.parametrize("call", CALLERS)
def test_model_receives_the_message_and_prompt_text_but_no_developer_message(
    call: Callable[[SyncRemote, str], str], open_mail: Callable[[dict[str, Any]], str]
) -> None:
    url = open_mail({"success": False, "output": {"error": ERROR}})
    with connect_sync(url, protocol="otc", approve=allow) as remote:
        message = call(remote, "read")
    assert "The mailbox is locked." in message
    assert "Try another mailbox." in message
    assert "EX_LOCK" not in message


@pytest.mark.requirement("C-12", "OTC-029")
def test_mcp_host_receives_the_same_texts_as_a_model(open_mail: Callable[[dict[str, Any]], str]) -> None:
    remote = connect_without_user(
        open_mail({"success": False, "output": {"error": ERROR}}), Session(), protocol="otc", approve=allow
    )

    async def read_result(gateway: str) -> str:
        async with Client(f"{gateway}/mcp") as client:
            return (await client.call_tool("read", {})).model_dump_json()

    with background(asgi(remote)) as gateway:
        message = anyio.run(read_result, gateway)
    assert "The mailbox is locked." in message
    assert "Try another mailbox." in message
    assert "EX_LOCK" not in message


@pytest.mark.requirement("OTC-043")
def test_unknown_members_of_lists_definitions_and_answers_change_nothing(
    open_mail: Callable[[dict[str, Any]], str],
) -> None:
    url = open_mail({"success": True, "output": {"value": 3, "unit": "letters"}})
    with connect_sync(url, protocol="otc", approve=allow) as remote:
        (tool,) = remote.tools
        assert (tool.id, tool.requirements.secrets) == ("Mail.read@1.0.0", ())
        result = remote.call("read")
    assert result.ok
    assert result.value == 3


@pytest.fixture
def guarded_site() -> Iterator[tuple[str, list[int]]]:
    kit, ran = Toolkit("Kit"), list[int]()

    @kit.tool(approval="per-call")
    def act() -> None:
        """Do something."""
        ran.append(1)

    with background(asgi(kit)) as url:
        yield url, ran


@pytest.mark.requirement("XL-057", "XL-043", "XL-053")
@pytest.mark.parametrize("call", CALLERS)
@pytest.mark.parametrize("approve", [None, deny])
def test_no_adapter_bypasses_user_approval(
    call: Callable[[SyncRemote, str], str], approve: Any, guarded_site: tuple[str, list[int]]
) -> None:
    url, ran = guarded_site
    with connect_sync(url, approve=approve, agree=lambda _: True) as remote:
        message = call(remote, "act")
        direct = remote.call("act")
    assert "denied" in message
    assert isinstance(direct, Problem)
    assert (direct.kind, ran) == (Kind.DENIED, [])
