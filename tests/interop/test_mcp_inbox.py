"""A host that shows no forms: its user decides with ``toolwire approvals``, and the same call then runs once."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

from toolwire import Toolkit, asgi, connect_sync
from toolwire.cli import main
from toolwire.core.check import Answer
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Call, Context, Problem, Secret, Tool
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.asking.confirmation import Confirmations, ConfirmationTokens, digest_call
from toolwire.server.asking.inbox import MAX_WAITING, MAX_WAITING_EACH, Inbox
from toolwire.stores.consent.approvals import Approvals
from toolwire.testing import background

OWNERS = {"ann": "ann-key-000000000000000000000000", "bob": "bob-key-000000000000000000000000"}


class Shop:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.kit = kit = Toolkit("Shop")

        @kit.tool(destructive=True)
        def delete(name: str) -> str:
            """Delete something."""
            self.done.append(name)
            return "deleted"

        @kit.tool(approval="per-call")
        def publish(name: str) -> str:
            """Publish something."""
            self.done.append(name)
            return "published"

        @kit.tool(approval="auto")
        def look() -> str:
            """Look."""
            return "tea"


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "toolwire"


def call(url: str, tool: str, arguments: dict[str, Any], *, callback: Any = None) -> Any:
    async def story() -> Any:
        async with Client(f"{url}/mcp", elicitation_callback=callback) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(story)


def read_id(text: str) -> str:
    return text.partition("approvals allow ")[2].partition("`")[0]


@pytest.mark.requirement("CC-05")
def test_a_call_without_forms_waits_for_the_user_and_then_runs_once(
    shop: Shop, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with background(asgi(shop.kit, consent="inbox")) as url:
        assert not call(url, "look", {}).is_error
        refused = [call(url, "delete", {"name": "old"}) for _ in range(2)]
        assert [one.is_error for one in refused] == [True, True]
        [text, again] = [one.content[0].text for one in refused]
        assert text == again  # one question, however often the host tries
        id_ = read_id(text)
        assert text == (
            "delete did not run: its user must decide within five minutes, with `toolwire approvals "
            f"allow {id_}` (`toolwire approvals` shows the call). Then send the same call again."
        )
        assert main(["approvals"]) == 0
        listed = capsys.readouterr().out
        assert f"{id_}  waits until" in listed
        assert 'name = "old"' in listed
        assert "why: The server declares that this tool is destructive." in " ".join(listed.split())
        assert "needs your consent" not in listed
        assert shop.done == []
        assert main(["approvals", "allow", id_]) == 0
        assert call(url, "delete", {"name": "other"}).is_error
        assert not call(url, "delete", {"name": "old"}).is_error
        assert shop.done == ["old"]
        assert call(url, "delete", {"name": "old"}).is_error
    assert shop.done == ["old"]


@pytest.mark.requirement("CC-05", "QF-03")
def test_a_no_is_told_with_its_reason_and_the_same_call_gets_it_again(shop: Shop, state: Path) -> None:
    with background(asgi(shop.kit, consent="inbox")) as url:
        id_ = read_id(call(url, "publish", {"name": "x"}).content[0].text)
        assert main(["approvals", "deny", id_, "--reason", "not today"]) == 0
        for _ in range(2):
            message = call(url, "publish", {"name": "x"})
            assert message.is_error
            assert message.content[0].text == "publish was not called: its user did not allow it: not today."
        assert read_id(call(url, "publish", {"name": "y"}).content[0].text) not in ("", id_)
    assert shop.done == []


@pytest.mark.requirement("CC-05", "GW-04")
def test_later_calls_are_allowed_only_where_the_tool_leaves_that_to_its_user(shop: Shop, state: Path) -> None:
    @shop.kit.tool(approval="per-call", blanket_allowed=True)
    def note(name: str) -> str:
        """Note something."""
        shop.done.append(name)
        return "noted"

    with background(asgi(shop.kit, consent="inbox")) as url:
        for tool, later in (("note", True), ("publish", False)):
            call(url, tool, {"name": "a"})
            [asked] = Approvals(state).list_pending()
            assert asked.always_allowed is later
            with nullcontext() if later else pytest.raises(DefinitionError, match="one call at a time"):
                assert Approvals(state).answer(asked.id, Answer(allowed=True, always=True))
            assert later or Approvals(state).answer(asked.id, Answer(allowed=True))
            assert not call(url, tool, {"name": "a"}).is_error
            assert call(url, tool, {"name": "b"}).is_error is not later
    assert shop.done == ["a", "b", "a"]


@pytest.mark.requirement("CC-05")
def test_a_host_with_forms_and_our_own_client_are_asked_as_ever(shop: Shop, state: Path) -> None:
    async def allow(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"allow": True})

    with background(asgi(shop.kit, consent="inbox")) as url:
        assert not call(url, "publish", {"name": "form"}, callback=allow).is_error
        with connect_sync(url, protocol="mcp", approve=lambda _: True, provide_input=lambda _: None) as remote:
            assert remote.call("publish", {"name": "ours"}).ok
        with connect_sync(url, protocol="openapi", approve=lambda _: True) as remote:
            assert remote.call("publish", {"name": "openapi"}).ok
    assert shop.done == ["form", "ours", "openapi"]
    assert Approvals(state).list_pending() == []


@pytest.mark.requirement("CC-05")
def test_an_answer_is_for_one_caller_and_for_the_tool_as_it_is(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    confirmations = Confirmations(ConfirmationTokens(), inbox=Inbox(folder, is_default=False))
    tool = Tool(name="erase", toolkit="Shop")
    anns = Call(tool, {"name": "x"}, "1", Context(principal="key:ann", needs_inbox=True))

    def find_refusal(call: Call) -> Problem | None:
        return confirmations.find_refusal(call, digest_call(call), "erase needs your consent.", None)

    asked = find_refusal(anns)
    assert asked is not None
    assert f"--path {folder}" in asked.message
    assert Approvals(folder).answer(asked.details["inbox"]["id"], Answer(allowed=True))
    for other in (
        anns._replace(context=Context(principal="key:bob", needs_inbox=True)),
        anns._replace(arguments={"name": "y"}),
        anns._replace(tool=Tool(name="erase", toolkit="Shop", description="Another text.")),
        anns._replace(context=Context(principal="key:ann")),  # a client that confirms by itself does so
    ):
        assert find_refusal(other) is not None
    assert find_refusal(anns) is None
    assert find_refusal(anns) is not None


@pytest.mark.requirement("CC-05")
def test_an_answer_that_is_used_too_late_is_none(tmp_path: Path) -> None:
    now = 1_000.0
    inbox = Inbox(tmp_path / "inbox", is_default=True)
    inbox._approvals = Approvals(tmp_path / "inbox", clock=lambda: now)
    erase = Call(Tool(name="erase"), {}, "1", Context(needs_inbox=True))
    asked = inbox.find_refusal(erase, b"a", ())
    assert asked is not None
    assert inbox._approvals.answer(asked.details["inbox"]["id"], Answer(allowed=True))
    now += 300
    late = inbox.find_refusal(erase, b"a", ())
    assert late is not None
    assert late.details["inbox"]["id"] != asked.details["inbox"]["id"]


@pytest.mark.requirement("CC-05", "D-19")
def test_a_caller_who_floods_leaves_room_for_others(tmp_path: Path) -> None:
    now = 0.0
    # Two processes of one server: each limits how often a caller asks, and they share the place.
    inboxes = [Inbox(tmp_path / "inbox", is_default=True, clock=lambda: now) for _ in range(2)]

    def ask(who: str, number: int, inbox: int = 0) -> Problem:
        call = Call(Tool(name="erase"), {"n": number}, "1", Context(principal=who, needs_inbox=True))
        refused = inboxes[inbox].find_refusal(call, digest_call(call), ())
        assert refused is not None
        return refused

    assert [ask("eve", number).kind for number in range(12)].count("rate_limited") == 2
    assert ask("ann", 0).kind == "unconfirmed"
    for minute in range(1, 5):
        now = 60.0 * minute
        for number in range(20):
            ask("eve", 100 * minute + number, number % 2)
    pending = inboxes[0]._approvals.list_pending
    assert len(pending("eve")) == MAX_WAITING_EACH
    assert ask("ann", 1).kind == "unconfirmed"
    for number in range(MAX_WAITING):
        ask(f"eve-{number}", number)
    assert len(pending()) == MAX_WAITING
    assert ask("ann", 2).can_retry


@pytest.mark.requirement("CC-05")
def test_callers_with_keys_do_not_share_an_answer(shop: Shop, state: Path) -> None:
    keys = [ApiKey(key=Secret(key), name=name) for name, key in OWNERS.items()]

    def send(url: str, who: str) -> Any:
        params = {"name": "publish", "arguments": {"name": "x"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        fields = {"content-type": "application/json", "authorization": f"Bearer {OWNERS[who]}"}
        with urlopen(Request(f"{url}/mcp", json.dumps(message).encode(), fields)) as answer:
            return json.load(answer)["result"]

    with background(asgi(shop.kit, consent="inbox", api_keys=keys)) as url:
        id_ = read_id(send(url, "ann")["content"][0]["text"])
        assert main(["approvals", "allow", id_]) == 0
        assert send(url, "bob").get("isError") is True
        assert not send(url, "ann").get("isError")
    assert shop.done == ["x"]


@pytest.mark.requirement("CC-05")
def test_tools_behind_a_gateway_are_decided_in_the_inbox_too(shop: Shop, state: Path) -> None:
    with background(asgi(shop.kit)) as site:
        settings = ServeSettings(targets=[site], consent="inbox")
        with background(build_app(settings, open_toolboxes(settings))) as front:
            text = call(front, "publish", {"name": "x"}).content[0].text
            assert main(["approvals", "allow", read_id(text)]) == 0
            assert not call(front, "publish", {"name": "x"}).is_error
            assert call(front, "publish", {"name": "x"}).is_error
    assert shop.done == ["x"]


@pytest.mark.requirement("CC-05")
def test_the_host_of_a_program_waits_for_its_user_too(state: Path, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK)
    words = ["-m", "toolwire", "serve", str(tmp_path / "desk.py"), "--stdio", "--consent", "inbox"]
    variables = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(state.parent)}

    async def story() -> list[bool]:
        server = StdioServerParameters(command=sys.executable, args=words, env=variables)
        with (tmp_path / "errors").open("w") as log:
            async with Client(stdio_client(server, errlog=log)) as client:
                first = await client.call_tool("delete", {"name": "old"})
                assert main(["approvals", "allow", read_id(first.content[0].text)]) == 0
                later = [await client.call_tool("delete", {"name": "old"}) for _ in range(2)]
                return [one.is_error is True for one in (first, *later)]

    assert anyio.run(story) == [True, False, True]
    assert "until its user has decided with `toolwire approvals`" in (tmp_path / "errors").read_text()


@pytest.mark.requirement("CC-05")
def test_what_cannot_be_kept_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inbox = Inbox(tmp_path / "inbox", is_default=True)
    with inbox._approvals._database.transaction() as cursor:
        cursor.execute("CREATE TRIGGER full BEFORE INSERT ON questions BEGIN SELECT RAISE(ABORT, 'full'); END")
    refused = inbox.find_refusal(Call(Tool(name="erase"), {}, "1", Context()), b"a", ())
    assert refused is not None
    assert (refused.kind, refused.can_retry) == ("overloaded", True)
    assert "its question cannot be stored" in caplog.text


DESK = '''
from toolwire import Toolkit

kit = Toolkit("Desk")


@kit.tool(destructive=True)
def delete(name: str) -> str:
    """Delete something."""
    return name
'''
