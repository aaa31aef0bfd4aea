"""Our server asks the user of an unchanged MCP host before its own tools that need consent."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitRequestParams, ElicitResult

from toolwire import Toolkit, asgi, connect_sync
from toolwire.core.check import ALLOW, Deny
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Call, Condition, Context, Cost, Secret, Tool
from toolwire.gateway import merge_toolboxes
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.opentool.serve_object import build_app, build_toolbox
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.asking.confirmation import ConfirmationTokens, ask_about_destructive, build_confirmation_check
from toolwire.server.asking.host_consent import find_consent_reasons, may_need_consent
from toolwire.server.options import ServerOptions
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
def test_denied_call_runs_nothing_and_allowed_call_runs_once(shop: Shop) -> None:
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
def test_approval_condition_decides_and_auto_tools_are_not_asked_about(shop: Shop) -> None:
    person = Person(allows=False)
    with background(asgi(shop.kit)) as url:
        assert not call(url, person, "look", {}).is_error
        assert not call(url, person, "order", {"amount": 50}).is_error
        assert person.shown == []
        assert call(url, person, "order", {"amount": 51}).is_error
    assert shop.done == [50]
    assert "/amount is more than 50" in person.shown[0]


@pytest.mark.requirement("CC-05")
def test_call_is_asked_about_once_even_with_required_confirmation(shop: Shop) -> None:
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


@pytest.mark.requirement("CC-05")
@pytest.mark.parametrize("consent", ["hints", "refuse"])
def test_client_without_forms_is_trusted_or_refused_as_configured(shop: Shop, consent: Any) -> None:
    person = Person(allows=True)
    with background(asgi(shop.kit, consent=consent)) as url:
        result = call(url, None, "delete", {"name": "old"})
        large = call(url, None, "order", {"amount": 51})
        for tool, arguments in (("look", {}), ("order", {"amount": 50})):
            assert not call(url, None, tool, arguments).is_error
        assert not call(url, person, "delete", {"name": "new"}).is_error
    assert shop.done == (["old", 51, 50, "new"] if consent == "hints" else [50, "new"])
    assert len(person.shown) == 1
    assert (result.is_error, large.is_error) == (consent == "refuse",) * 2
    if consent == "refuse":
        [content] = result.content
        assert content.text == (
            "delete did not run: it needs the consent of its user, and this client cannot be asked for "
            "it here. Use a client that shows forms (elicitation), over stdio, with MCP 2026-07-28 or in "
            "a session."
        )


@pytest.mark.requirement("CC-05")
def test_a_client_of_an_older_revision_without_a_session_counts_as_one_without_forms(shop: Shop) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "erase", "arguments": {"name": "x"}},
    }
    headers = {"content-type": "application/json", "mcp-protocol-version": "2025-11-25"}
    with background(asgi(shop.kit, consent="refuse")) as url:
        request = Request(f"{url}/mcp", json.dumps(message).encode(), headers)
        with urlopen(request) as answer:
            result = json.load(answer)["result"]
    assert result["isError"] is True
    assert "cannot be asked for it here" in result["content"][0]["text"]
    assert shop.done == []


@pytest.mark.requirement("CC-05")
@pytest.mark.parametrize("state", ["a.b", "word", "", 5])
def test_a_state_does_not_help_a_client_without_forms(shop: Shop, state: Any) -> None:
    allowed = {"consent": {"action": "accept", "content": {"allow": True}}}
    with background(asgi(shop.kit, consent="refuse")) as url:
        result = send(url, "ann", {"name": "x"}, forms=False, requestState=state, inputResponses=allowed)
    assert result["isError"] is True
    assert shop.done == []


@pytest.mark.requirement("CC-05")
def test_our_client_confirms_approved_calls_and_other_protocols_are_unchanged(shop: Shop) -> None:
    for protocol in ("mcp", "openapi", "opentool", "otc"):
        questions: list[Any] = []
        with background(asgi(shop.kit, consent="refuse")) as url:
            with connect_sync(
                url, protocol=protocol, approve=lambda one, to=questions: to.append(one) is None
            ) as stored:
                assert stored.call("erase", {"name": protocol}).ok
            with connect_sync(url, protocol=protocol, approve=lambda _: False) as stored:
                assert not stored.call("erase", {"name": "no"}).ok
        assert len(questions) == 1, protocol
    assert shop.done == ["mcp", "openapi", "opentool", "otc"]


@pytest.mark.requirement("CC-05")
@pytest.mark.parametrize("consent", ["hints", "refuse"])
def test_opentool_class_is_served_with_the_same_consent(consent: Any) -> None:
    ran: list[str] = []

    class Shredder:
        def load(self) -> dict[str, Any]:
            shred = {"name": "shred", "description": "Shred a page.", "parameters": []}
            info = {"title": "Shredder", "version": "1.0.0"}
            return {"opentool": "1.1.0", "info": info, "functions": [shred]}

        async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            ran.append(name)
            return {"result": len(arguments)}

    with background(build_app(build_toolbox(Shredder), ServerOptions(consent=consent))) as url:
        result = call(url, None, "shred", {})
    assert ran == (["shred"] if consent == "hints" else [])
    assert result.is_error is (consent == "refuse")


@pytest.mark.requirement("CC-05")
def test_log_states_how_consent_is_enforced(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="toolwire")
    cases: tuple[tuple[Any, str], ...] = (
        ("hints", "is trusted to ask its user"),
        ("refuse", "is refused."),
        ("inbox", "is refused until its user has decided with `toolwire approvals`."),
    )
    for consent, words in cases:
        caplog.clear()
        with background(asgi(shop.kit, consent=consent)):
            pass
        [line] = [one for one in caplog.messages if "consent" in one]
        assert line.startswith("3 tools need consent.")
        assert words in line
    for wrong in ({"consent": "ask"}, *({"consent": one, "ask_hosts": False} for one in ("refuse", "inbox"))):
        with pytest.raises(DefinitionError, match="consent"):
            asgi(shop.kit, **wrong)  # type: ignore[arg-type]  # what is wrong is what is tested


@given(
    approval=st.sampled_from([None, *Approval]),
    safe=st.booleans(),
    destructive=st.booleans(),
    cost=st.sampled_from([None, *Cost]),
    conditions=st.sampled_from([(), (Condition("/x", "present", value=True),)]),
)
def test_tool_counts_as_needing_consent_if_any_call_of_it_does(conditions: Any, **declared: Any) -> None:
    tool = Tool(name="t", ask_when=conditions, **declared)
    verdicts = [find_consent_reasons(Call(tool, arguments)) for arguments in ({}, {"x": 1})]
    assert may_need_consent(tool) is any(one is not None for one in verdicts)


@pytest.mark.requirement("CC-05")
@pytest.mark.parametrize(
    ("option", "runs"), [((), True), (("--consent", "hints"), True), (("--consent", "refuse"), False)]
)
def test_stdio_host_without_forms_is_trusted_or_refused_as_configured(
    tmp_path: Path, option: tuple[str, ...], runs: bool
) -> None:
    errors = tmp_path / "errors"
    (tmp_path / "desk.py").write_text(DESK)
    words = ["-m", "toolwire", "serve", str(tmp_path / "desk.py"), "--stdio", *option]

    async def story(person: Person | None) -> bool:
        with errors.open("w") as log:
            server = StdioServerParameters(command=sys.executable, args=words, env={"PATH": "/usr/bin:/bin"})
            async with Client(stdio_client(server, errlog=log), elicitation_callback=person) as client:
                return (await client.call_tool("delete", {"name": "old"})).is_error is not True

    assert anyio.run(story, None) is runs
    assert ("is trusted to ask its user" if runs else "is refused") in errors.read_text()
    assert anyio.run(story, Person(allows=True))
    assert not anyio.run(story, Person(allows=False))


DESK = '''
from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool(destructive=True)
def delete(name: str) -> str:
    """Delete something."""
    return name
'''


def send(
    url: str, name: str, arguments: dict[str, Any], *, tool: str = "erase", forms: bool = True, **params: Any
) -> dict[str, Any]:
    """Send one call as a client with the key of ``name``, which shows ``forms`` or does not; return its result."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}} if forms else {},
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
def test_request_state_is_valid_once_for_the_displayed_call(shop: Shop, attack: str) -> None:
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
def test_request_state_is_invalid_after_the_tool_changed() -> None:
    check = build_confirmation_check(lambda _: "Call it?", ConfirmationTokens())
    tool = Tool(name="erase", description="Erase a line.")
    refused = check(Call(tool, {"name": "x"}))
    assert isinstance(refused, Deny)
    word = refused.problem.details["confirmation"]["word"]
    changed = replace(tool, description="Erase everything.")
    assert check(Call(changed, {"name": "x"}, context=Context(confirmation=word))) is not ALLOW
