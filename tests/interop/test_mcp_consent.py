"""The official MCP client, unchanged, is asked for consent by our server: its person decides whether a call runs."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any
from urllib.request import Request, urlopen

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult

from toolwire import File, Toolkit, asgi
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.asking.confirmation import ask_about_destructive
from toolwire.testing import background

Answer = Callable[[Any, ElicitRequestParams], Any]


class Gateway:
    """A gateway of a site that deletes, and what the site deleted."""

    def __init__(self, url: str, deleted: list[str]) -> None:
        self.url, self.deleted = url, deleted


@pytest.fixture(params=["", "hints", "refuse"])
def gateway(request: pytest.FixtureRequest) -> Iterator[Gateway]:
    site, deleted = Toolkit("Disk"), list[str]()

    @site.tool(destructive=True)
    def delete(name: str) -> str:
        """Delete a file."""
        deleted.append(name)
        return f"deleted {name}"

    with background(asgi(site)) as url:
        settings = ServeSettings(targets=[url], consent=request.param)
        with background(build_app(settings, open_toolboxes(settings))) as front:
            yield Gateway(f"{front}/mcp", deleted)


def call(url: str, answer: Answer | None, arguments: dict[str, Any] | None = None, tool: str = "delete") -> Any:
    async def story() -> Any:
        async with Client(url, elicitation_callback=answer) as client:
            return await client.call_tool(tool, arguments or {"name": "old.txt"})

    return anyio.run(story)


def build_answer(action: str, *, allow: bool | None = None) -> tuple[Answer, list[str]]:
    shown: list[str] = []

    async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
        shown.append(params.message)
        content: Any = None if allow is None else {"allow": allow}
        return ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    return answer, shown


@pytest.mark.requirement("XL-049", "XL-053", "CC-05", "FU-04")
def test_official_client_shows_the_whole_call_and_the_user_can_allow_it(gateway: Gateway) -> None:
    answer, shown = build_answer("accept", allow=True)
    result = call(gateway.url, answer)
    assert not result.is_error
    assert gateway.deleted == ["old.txt"]
    [text] = shown
    assert "delete" in text
    assert json.dumps({"name": "old.txt"}, separators=(",", ":")) in text


@pytest.mark.requirement("XL-053", "CC-05")
@pytest.mark.parametrize(
    ("action", "allow"), [("accept", False), ("accept", None), ("decline", None), ("cancel", None), ("decline", True)]
)
def test_any_answer_except_yes_runs_nothing(gateway: Gateway, action: str, allow: bool | None) -> None:
    answer, shown = build_answer(action, allow=allow)
    result = call(gateway.url, answer)
    assert len(shown) == 1
    assert gateway.deleted == []
    assert result.is_error
    assert "did not allow" in result.content[0].text


@pytest.mark.requirement("XL-053", "CC-05")
def test_client_without_forms_runs_nothing_unless_trusted(gateway: Gateway, request: pytest.FixtureRequest) -> None:
    result = call(gateway.url, None)
    trusted = request.node.callspec.params["gateway"] == "hints"
    assert gateway.deleted == (["old.txt"] if trusted else [])
    assert result.is_error is not trusted


@pytest.mark.requirement("XL-056", "CC-05")
def test_server_with_required_confirmation_asks_for_its_own_tools() -> None:
    kit, deleted = Toolkit("Disk"), list[str]()

    @kit.tool(destructive=True)
    def delete(name: str) -> str:
        """Delete a file."""
        deleted.append(name)
        return "deleted"

    answer, shown = build_answer("accept", allow=True)
    with background(asgi(kit, require_confirmation=ask_about_destructive)) as url:
        call(f"{url}/mcp", build_answer("decline")[0])
        assert deleted == []
        call(f"{url}/mcp", answer)
    assert deleted == ["old.txt"]
    assert "cannot be undone" in shown[0]


@pytest.mark.requirement("XL-049", "CR-01")
def test_form_for_a_large_file_shows_its_size_and_digest() -> None:
    kit, sizes = Toolkit("Album"), list[int]()

    @kit.tool(destructive=True)
    def replace(photo: File, note: str = "") -> str:
        """Replace the photo."""
        sizes.append(len(photo.data))
        return "replaced"

    content = bytes(range(256)) * 1_000
    photo = f"data:image/png;name=cat.png;base64,{b64encode(content).decode()}"
    answer, shown = build_answer("accept", allow=True)
    with background(asgi(kit, require_confirmation=ask_about_destructive)) as url:
        assert not call(f"{url}/mcp", answer, {"photo": photo}, "replace").is_error
        assert not call(f"{url}/mcp", answer, {"photo": b64encode(content).decode()}, "replace").is_error
        refused = call(f"{url}/mcp", answer, {"photo": "aGVsbG8=", "note": "x" * 30_000}, "replace")
    digest = f"(256,000 bytes, SHA-256 {sha256(content).hexdigest()})"
    assert [f'"photo":"data:image/png;name=cat.png;base64 {digest}"' in shown[0], digest in shown[1]] == [True, True]
    assert (sizes, len(shown)) == ([256_000, 256_000], 2)
    reply = "replace did not run: its arguments are too long to be shown in a consent form."
    assert refused.content[0].text.startswith(reply)


@pytest.mark.requirement("CC-01", "CC-02")
def test_official_client_asks_for_conditional_arguments_with_the_site_question() -> None:
    kit, paid = Toolkit("Bank"), list[float]()

    @kit.tool(approval="auto", safe=False, ask_when=[("/amount", "gt", 50)], question="Pay {/amount} to {/to}?")
    def pay(amount: float, to: str) -> str:
        """Pay somebody."""
        paid.append(amount)
        return "paid"

    async def story(url: str, answer: Answer) -> tuple[Any, Any]:
        async with Client(url, elicitation_callback=answer) as client:
            tools = await client.list_tools()
            assert tools.tools[0].annotations is not None
            assert tools.tools[0].annotations.read_only_hint is False
            small = await client.call_tool("pay", {"amount": 20, "to": "Ada"})
            return small, await client.call_tool("pay", {"amount": 70, "to": "Ada"})

    answer, shown = build_answer("decline")
    with background(asgi(kit)) as url:
        settings = ServeSettings(targets=[url], agree=True)
        with background(build_app(settings, open_toolboxes(settings))) as front:
            small, large = anyio.run(story, f"{front}/mcp", answer)
    assert not small.is_error
    assert large.is_error
    assert paid == [20]
    [text] = shown
    assert "/amount is more than 50" in text
    assert 'The site\'s words: Pay 70 to "Ada"?' in text
    assert 'Arguments: {"amount":70,"to":"Ada"}' in text


def ask(url: str, arguments: dict[str, Any], tool: str = "delete", **params: Any) -> dict[str, Any]:
    """Send one call as a client that shows forms, and return its result."""
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
    }
    with urlopen(Request(url, json.dumps(message).encode(), headers)) as answer:
        result: dict[str, Any] = json.load(answer)["result"]
    return result


ALLOWED = {"consent": {"action": "accept", "content": {"allow": True}}}


@pytest.mark.requirement("XL-053", "XL-056", "CC-05")
def test_consent_answer_is_valid_once_for_the_displayed_call(gateway: Gateway) -> None:
    shown = ask(gateway.url, {"name": "old.txt"})
    assert shown["resultType"] == "input_required"
    state = shown["requestState"]
    for arguments in ({"name": "new.txt"}, {"name": "old.txt"}):  # the first attempt spends the word
        again = ask(gateway.url, arguments, requestState=state, inputResponses=ALLOWED)
        assert again["resultType"] == "input_required"
    assert gateway.deleted == []
    state = ask(gateway.url, {"name": "old.txt"})["requestState"]
    for _ in range(2):
        ask(gateway.url, {"name": "old.txt"}, requestState=state, inputResponses=ALLOWED)
    assert gateway.deleted == ["old.txt"]


@pytest.mark.requirement("XL-053", "CC-05")
@pytest.mark.parametrize(
    "responses",
    [
        None,
        {},
        [],
        {"consent": None},
        {"consent": {"action": "accept"}},
        {"consent": {"action": "accept", "content": {"allow": "true"}}},
        {"consent": {"action": "accept", "content": {"allow": 1}}},
        {"other": {"action": "accept", "content": {"allow": True}}},
    ],
)
def test_the_state_without_a_yes_runs_nothing(gateway: Gateway, responses: Any) -> None:
    state = ask(gateway.url, {"name": "old.txt"})["requestState"]
    result = ask(gateway.url, {"name": "old.txt"}, requestState=state, inputResponses=responses)
    assert result["isError"] is True
    assert gateway.deleted == []


@pytest.mark.requirement("CC-05")
@pytest.mark.parametrize("state", ["", "x", "x" * 100_000, "\u202eevil", 5, None, {}])
def test_invented_request_state_confirms_nothing(gateway: Gateway, state: Any) -> None:
    result = ask(gateway.url, {"name": "old.txt"}, requestState=state, inputResponses=ALLOWED)
    assert result["resultType"] == "input_required"
    assert gateway.deleted == []


@pytest.mark.requirement("CC-05")
def test_call_too_large_to_display_is_refused_without_a_question(gateway: Gateway) -> None:
    result = ask(gateway.url, {"name": "x" * 30_000})
    assert result["isError"] is True
    assert gateway.deleted == []
