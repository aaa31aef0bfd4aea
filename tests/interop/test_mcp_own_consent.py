"""Our server asks the user of an unchanged MCP host before its own tools that need consent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult

from toolwire import Toolkit, asgi
from toolwire.cli.serve_app import ServeSettings, open_toolboxes
from toolwire.core.check import ALLOW, Deny
from toolwire.core.model import Call, Context, Secret, Tool
from toolwire.gateway import merge_toolboxes
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.run.confirmation import ConfirmationWords, ask_about_destructive, build_confirmation_check
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

KEYS = {"ann": "ann-key-000000000000000000000000", "bob": "bob-key-000000000000000000000000"}


class Shop:
    """A toolkit that deletes, orders and reads, and what it did."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.kit = kit = Toolkit("Shop")

        @kit.tool(destructive=True)
        def delete(name: str) -> str:
            """Delete something."""
            self.done.append(name)
            return "deleted"

        @kit.tool(approval="per-call")
        def erase(name: str) -> str:
            """Erase something."""
            self.done.append(name)
            return "erased"

        @kit.tool(approval="auto", safe=False, ask_when=[("/amount", "gt", 50)])
        def order(amount: float) -> str:
            """Order something."""
            self.done.append(amount)
            return "ordered"

        @kit.tool(approval="auto")
        def look() -> str:
            """Look."""
            return "tea"


class Person:
    """Who is asked by the official client, with one answer to all."""

    def __init__(self, *, allows: bool) -> None:
        self.allows = allows
        self.shown: list[str] = []

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        self.shown.append(params.message)
        return ElicitResult(action="accept", content={"allow": True}) if self.allows else ElicitResult(action="decline")


@pytest.fixture
def shop() -> Shop:
    return Shop()


def call(url: str, person: Person | None, tool: str, arguments: dict[str, Any]) -> Any:
    async def story() -> Any:
        async with Client(f"{url}/mcp", elicitation_callback=person) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(story)


@pytest.mark.requirement("CC-05")
def test_no_means_that_nothing_happened_and_yes_runs_it_once(shop: Shop) -> None:
    with background(asgi(shop.kit)) as url:
        refusing, allowing = Person(allows=False), Person(allows=True)
        assert call(url, refusing, "delete", {"name": "old"}).is_error
        assert shop.done == []
        assert not call(url, allowing, "delete", {"name": "old"}).is_error
        assert shop.done == ["old"]
        assert not call(url, allowing, "erase", {"name": "new"}).is_error
    assert len(refusing.shown) == 1
    assert len(allowing.shown) == 2
    assert 'Arguments: {"name":"old"}' in refusing.shown[0]


@pytest.mark.requirement("CC-01", "CC-05")
def test_a_condition_decides_and_what_is_automatic_is_never_asked_about(shop: Shop) -> None:
    person = Person(allows=False)
    with background(asgi(shop.kit)) as url:
        assert not call(url, person, "look", {}).is_error
        assert not call(url, person, "order", {"amount": 50}).is_error
        assert person.shown == []
        assert call(url, person, "order", {"amount": 51}).is_error
    assert shop.done == [50]
    assert "/amount is more than 50" in person.shown[0]


@pytest.mark.requirement("CC-05")
def test_a_call_is_asked_about_once_whoever_wants_to_know(shop: Shop) -> None:
    person = Person(allows=True)
    with background(asgi(shop.kit, require_confirmation=ask_about_destructive)) as url:
        assert not call(url, person, "delete", {"name": "old"}).is_error
    assert len(person.shown) == 1
    other = Toolkit("Elsewhere")

    @other.tool(approval="per-call")
    def publish(name: str) -> str:
        """Publish something."""
        shop.done.append(name)
        return "published"

    with background(asgi(other)) as site:
        settings = ServeSettings(targets=[site])
        merged = merge_toolboxes([FunctionToolbox(shop.kit), *open_toolboxes(settings)])
        with background(asgi(merged)) as front:
            for tool in ("publish", "erase"):
                asked = Person(allows=True)
                assert not call(front, asked, tool, {"name": tool}).is_error
                assert len(asked.shown) == 1
    assert shop.done == ["old", "publish", "erase"]


def send(url: str, name: str, arguments: dict[str, Any], *, tool: str = "erase", **params: Any) -> dict[str, Any]:
    """Send one call as a client that shows forms, with the key of ``name``, and return its result."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": tool, "arguments": arguments, "_meta": meta, **params}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": tool,
        "authorization": f"Bearer {KEYS[name]}",
    }
    with urlopen(Request(f"{url}/mcp", json.dumps(message).encode(), headers)) as answer:
        result: dict[str, Any] = json.load(answer)["result"]
    return result


@pytest.mark.requirement("CC-05")
@pytest.mark.parametrize("attack", ["principal", "arguments", "tool", "altered", "replayed", "nothing"])
def test_a_state_is_good_once_for_what_was_shown(shop: Shop, attack: str) -> None:
    allowed = {"consent": {"action": "accept", "content": {"allow": True}}}
    keys = [ApiKey(key=Secret(key), name=name) for name, key in KEYS.items()]
    arguments = {"name": "x"}
    with background(asgi(shop.kit, api_keys=keys)) as url:
        asked = send(url, "ann", arguments)
        assert asked["resultType"] == "input_required"
        state = asked["requestState"]
        who, tool, expected = "ann", "erase", []
        if attack == "principal":
            who = "bob"
        elif attack == "arguments":
            arguments = {"name": "y"}
        elif attack == "tool":
            tool = "delete"
        elif attack == "altered":
            state = state[:-6] + ("A" if state[-6] != "A" else "B") + state[-5:]
        elif attack == "replayed":
            first = send(url, "ann", arguments, requestState=state, inputResponses=allowed)
            assert first["isError"] is False
            expected = ["x"]
        again = send(url, who, arguments, tool=tool, requestState=state, inputResponses=allowed)
        if attack == "nothing":  # the control
            assert again.get("isError") is not True
            expected = ["x"]
        else:
            assert again["resultType"] == "input_required"
    assert shop.done == expected


@pytest.mark.requirement("CC-05")
def test_a_state_is_not_good_for_a_tool_that_changed_meanwhile() -> None:
    check = build_confirmation_check(lambda _: "Do it?", ConfirmationWords())
    tool = Tool(name="erase", description="Erase a line.")
    refused = check(Call(tool, {"name": "x"}))
    assert isinstance(refused, Deny)
    word = refused.problem.details["confirmation"]["word"]
    changed = replace(tool, description="Erase everything.")
    assert check(Call(changed, {"name": "x"}, context=Context(confirmation=word))) is not ALLOW
