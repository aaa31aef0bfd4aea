"""Tools of ours that ask the user of an MCP host while they run: `await context.ask(...)`."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitRequestParams, ElicitResult
from pydantic import BaseModel, Field

from toolwire import Context, NoUserInput, Toolkit, Value, asgi, connect_sync
from toolwire.core.model import Secret
from toolwire.server.access.api_keys import ApiKey
from toolwire.testing.loopback import background

KEYS = {"ann": "ann-key-000000000000000000000000", "bob": "bob-key-000000000000000000000000"}


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Order(BaseModel):
    size: int = Field(ge=1, le=9, description="In inches.")
    color: Color = Color.RED
    gift: bool = False
    by: date | None = None
    extras: list[Literal["bow", "belt"]] = []


@dataclass
class Sure:
    sure: bool


class Nested(BaseModel):
    inner: Order


def build_kit(runs: list[str]) -> Toolkit:
    kit = Toolkit("Tailor")

    @kit.tool(approval="auto")
    async def sew(cloth: str, context: Context) -> str:
        """Sew something."""
        runs.append("sew")
        order = await context.ask(Order, f"How large, in {cloth}?")
        if isinstance(order, NoUserInput):
            return f"{order.reason}: {order.message}"
        sure = await context.ask(Sure, f"Really {order.size}?")
        if not sure:
            return "not sure"
        return f"{order!r} {sure.sure}"

    @kit.tool(approval="auto")
    def cut(context: Context) -> str:
        """Cut something, in a thread."""
        runs.append("cut")
        try:
            order = context.ask_sync(Order, "How large?")
        except Exception as error:  # noqa: BLE001 - a tool that catches everything still asks
            return f"caught {error!r}"
        return str(order)

    @kit.tool(destructive=True)
    async def burn(name: str, context: Context) -> str:
        """Burn something."""
        runs.append("burn")
        answers: list[Any] = []
        async with anyio.create_task_group():  # which raises what is raised in it within a group
            answers.append(await context.ask(Sure, "All of it?"))
        return f"burned {name} {answers[0]}"

    @kit.tool(approval="auto")
    async def nested(context: Context) -> str:
        """Ask for something that no form has."""
        return str(await context.ask(Nested, "What?"))

    @kit.tool(approval="auto")
    async def endless(context: Context) -> str:
        """Ask without end."""
        for number in range(100):
            await context.ask(Sure, f"Is it {number}?")
        return "done"

    return kit


class Person:
    """The user of the official client."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.shown: list[Any] = []

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.shown.append(params)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, str):
            return ElicitResult(action="cancel" if reply == "cancel" else "decline")
        return ElicitResult(action="accept", content=reply)


def call(target: Any, person: Person | None, tool: str, **arguments: Any) -> Any:
    async def story() -> Any:
        async with Client(target, elicitation_callback=person) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(story)


def text(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.requirement("MC-09")
def test_official_client_asks_its_user_and_the_tool_gets_the_answer() -> None:
    runs: list[str] = []
    person = Person({"size": 4, "color": "green", "by": "2026-12-01", "extras": ["bow"]}, {"sure": True})
    with background(asgi(build_kit(runs))) as url:
        result = call(f"{url}/mcp", person, "sew", cloth="wool")
    assert "size=4" in text(result)
    assert "Color.GREEN" in text(result)
    assert "datetime.date(2026, 12, 1)" in text(result)
    assert text(result).endswith(" True")
    assert [one.message for one in person.shown] == ["How large, in wool?", "Really 4?"]
    assert set(person.shown[0].requested_schema["properties"]) == {"size", "color", "gift", "by", "extras"}
    assert runs == ["sew"] * 3  # it runs again from its start with each answer


@pytest.mark.requirement("MC-09")
def test_plain_function_can_ask_and_an_invalid_answer_is_asked_for_again() -> None:
    runs: list[str] = []
    person = Person({"size": 40}, {"size": 3})
    with background(asgi(build_kit(runs))) as url:
        assert "size=3" in text(call(f"{url}/mcp", person, "cut"))
    assert "The answer before could not be used" in person.shown[1].message
    assert "40" not in person.shown[1].message


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize(
    ("person", "reason"),
    [(Person("decline"), "declined"), (Person("cancel"), "cancelled"), (None, "cannot_ask")],
)
def test_tool_gets_the_reason_for_a_missing_answer(person: Person | None, reason: str) -> None:
    with background(asgi(build_kit([]))) as url:
        reply = text(call(f"{url}/mcp", person, "sew", cloth="wool"))
    assert reply.startswith(f"{reason}: The question 'How large, in wool?' was not answered: ")


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc"])
def test_other_protocols_name_the_unanswered_question(protocol: str) -> None:
    with (
        background(asgi(build_kit([]))) as url,
        connect_sync(url, protocol=protocol, approve=lambda _: True, provide_input=lambda _: {}) as remote,
    ):
        result = remote.call("sew", {"cloth": "wool"})
    why = "this caller cannot ask its user."
    assert result == Value(f"cannot_ask: The question 'How large, in wool?' was not answered: {why}")


@pytest.mark.requirement("MC-09")
def test_consent_is_asked_once_before_the_questions_of_a_tool() -> None:
    runs: list[str] = []
    person = Person({"allow": True}, {"sure": True})
    with background(asgi(build_kit(runs))) as url:
        assert text(call(f"{url}/mcp", person, "burn", name="old")) == "burned old Sure(sure=True)"
    assert len(person.shown) == 2
    assert runs == ["burn", "burn"]


@pytest.mark.requirement("MC-09")
def test_our_client_asks_for_consent_once_and_then_the_tool_question() -> None:
    asked: list[Any] = []

    def provide(request: Any) -> Any:
        asked.append(request.message)
        return {"sure": True}

    def approve(question: Any) -> bool:
        asked.append(question.call.tool.name)
        return True

    with background(asgi(build_kit([]))) as url:
        for target, protocol in ((url, "mcp"), (build_kit([]), None)):
            with connect_sync(target, protocol=protocol, approve=approve, provide_input=provide) as remote:
                assert remote.call("burn", {"name": "old"}) == Value("burned old Sure(sure=True)")
    assert asked == ["burn", "All of it?"] * 2


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_stdio_host_of_each_revision_asks_its_user(mode: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    file = tmp_path / "tailor.py"
    file.write_text(
        f"import sys; sys.path.insert(0, {str(root)!r})\n"
        "from tests.interop.test_mcp_asking_tools import build_kit\nkit = build_kit([])\n"
    )
    command = [sys.executable, "-m", "toolwire", "serve", f"{file}:kit", "--stdio"]
    person = Person({"size": 2}, {"sure": True})

    async def story() -> Any:
        server = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
        async with Client(server, elicitation_callback=person, mode=mode) as client:
            return await client.call_tool("sew", {"cloth": "wool"})

    assert "size=2" in text(anyio.run(story))
    assert len(person.shown) == 2


@pytest.mark.requirement("MC-09")
def test_nested_form_and_too_many_questions_are_errors_of_the_tool() -> None:
    with background(asgi(build_kit([]), debug=True)) as url:
        for tool, why in (("nested", "Use flat fields."), ("endless", "asks more than 10 questions")):
            result = call(f"{url}/mcp", Person({"sure": True}), tool)
            assert result.is_error
            assert why in json.dumps(result.meta)


def send(url: str, name: str, tool: str, arguments: Any, **params: Any) -> dict[str, Any]:
    """Send one call as a client that shows forms, with the key of ``name``, and return the whole answer."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": tool, "arguments": arguments, "_meta": meta, **params}
    headers = {
        "content-type": "application/json",
        "accept": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": tool,
        "authorization": f"Bearer {KEYS[name]}",
    }
    try:
        with urlopen(Request(f"{url}/mcp", json.dumps(message).encode(), headers)) as answer:
            read: dict[str, Any] = json.load(answer)
    except HTTPError as error:
        read = json.load(error)
    return read


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize("attack", ["principal", "arguments", "tool", "altered", "body", "replayed", "word", "nothing"])
def test_request_state_is_valid_once_for_its_call(attack: str) -> None:
    runs: list[str] = []
    keys = [ApiKey(key=Secret(key), name=name) for name, key in KEYS.items()]
    with background(asgi(build_kit(runs), api_keys=keys)) as url:
        asked = send(url, "ann", "sew", {"cloth": "wool"})["result"]
        assert asked["resultType"] == "input_required"
        (name,) = asked["inputRequests"]
        answer = {name: {"action": "accept", "content": {"size": 3}}, "more": {"action": "accept"}}
        state, who, tool, arguments = asked["requestState"], "ann", "sew", {"cloth": "wool"}
        if attack == "principal":
            who = "bob"
        elif attack == "arguments":
            arguments = {"cloth": "silk"}
        elif attack == "tool":
            tool, arguments = "cut", {}
        elif attack == "altered":
            state += "-TAMPERED"
        elif attack == "body":
            state = "x" + state
        elif attack == "word":
            state = "." + state.partition(".")[2]
        elif attack == "replayed":
            send(url, "ann", "sew", arguments, requestState=state, inputResponses=answer)
        runs.clear()
        again = send(url, who, tool, arguments, requestState=state, inputResponses=answer)
    if attack == "nothing":  # the control
        assert "Really 3?" in json.dumps(again["result"])
    else:
        assert again["error"]["code"] == -32602
        assert runs == []


@pytest.mark.requirement("MC-09")
def test_concurrent_calls_receive_their_own_answers() -> None:
    with background(asgi(build_kit([]))) as url:
        results: dict[int, str] = {}

        def one(size: int) -> None:
            person = Person({"size": size}, {"sure": True})
            results[size] = text(call(f"{url}/mcp", person, "sew", cloth=f"cloth {size}"))

        threads = [threading.Thread(target=one, args=(size,)) for size in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(results) == list(range(1, 9))
    assert all(f"size={size}" in reply for size, reply in results.items())
