"""A server keeps what its users decided where it asked them: at its page, in a form of MCP, or by a word."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from toolwire import Toolkit, asgi
from toolwire.consent.decision_record import Decision
from toolwire.core.model import Secret
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.asking.confirmation import ask_about_destructive
from toolwire.stores.consent.open import open_decisions
from toolwire.testing import background

KEY = "ann-key-000000000000000000000000"


class Server:
    """A server of one tool that must be asked about, and what ran there."""

    def __init__(self, state: Path, *, keys: bool = True, **options: Any) -> None:
        self.state = state
        self.ran: list[str] = []
        kit = Toolkit("Shop")

        @kit.tool(destructive=True)
        def erase(name: str) -> str:
            """Erase something."""
            self.ran.append(name)
            return f"erased {name}"

        self.headers = {"authorization": f"Bearer {KEY}"} if keys else {}
        self.app = asgi(kit, state=state, api_keys=(ApiKey(key=Secret(KEY), name="ann"),) if keys else (), **options)
        self.url = ""

    @contextmanager
    def start(self) -> Generator[None]:
        with background(self.app) as self.url:
            yield

    def post(self, **fields: str) -> str:
        """Send a form of the page, and return the page that comes back."""
        headers = {**self.headers, "content-type": "application/x-www-form-urlencoded", "accept": "text/html"}
        with urlopen(Request(f"{self.url}/", urlencode(fields).encode(), headers)) as answer:
            return str(answer.read().decode())

    def decide_at_page(self, page: str, answer: str) -> str:
        """Answer the question on ``page``."""
        form = page[page.index('name="step" value="answer"') - 300 :]
        fields = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
        return self.post(**{**fields, "answer": answer, "confirm": "erase yes"})

    def call(self, **params: Any) -> dict[str, Any]:
        """Send the call as an MCP client that shows forms."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        message["params"] = {"name": "erase", "arguments": {"name": "tea"}, "_meta": meta, **params}  # type: ignore[assignment]  # JSON
        headers = {
            **self.headers,
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "erase",
        }
        with urlopen(Request(f"{self.url}/mcp", json.dumps(message).encode(), headers)) as answer:
            result: dict[str, Any] = json.load(answer)["result"]
        return result

    def answer_form(self, state: str, *, allows: bool) -> dict[str, Any]:
        consent = {"action": "accept", "content": {"allow": True}} if allows else {"action": "decline"}
        return self.call(requestState=state, inputResponses={"consent": consent})

    def list_records(self) -> list[Decision]:
        return [one.record for one in open_decisions(self.state).entries() if one.number]


def list_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [one.__dict__["fields"] for one in caplog.records if one.name == "toolwire.decisions"]


@pytest.mark.requirement("FU-60", "CO-01")
@pytest.mark.parametrize("answer", ["allow", "deny"])
@pytest.mark.parametrize("required", [True, False])
def test_decision_at_the_page_is_logged_with_who_decided_and_where(
    required: bool, answer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "toolwire.decisions")
    server = Server(tmp_path, require_confirmation=ask_about_destructive if required else None)
    with server.start():
        page = server.post(tool="erase", step="try", **{"/name": "tea"})
        if required:  # the server's own question comes after that of the page
            page = server.decide_at_page(page, "allow")
        assert server.ran == []
        page = server.decide_at_page(page, answer)
    assert server.ran == (["tea"] if answer == "allow" else [])
    assert ("Denied. Nothing was sent." in page) is (answer == "deny")
    decision = "allowed" if answer == "allow" else "denied"
    [record] = server.list_records()
    assert (record.principal, record.caller, record.tool) == ("key:ann", "", "Shop.erase@1.0.0")
    assert (record.decision, record.channel) == (decision, "page")
    [line] = list_lines(caplog)
    assert (line["decided_by"], line["principal"], line["decision"]) == ("key:ann", "key:ann", decision)
    assert line["channel"] == "page"
    assert "tea" not in repr((record, line))


@pytest.mark.requirement("FU-60", "CC-05")
@pytest.mark.parametrize("allows", [True, False])
def test_decision_in_a_form_is_logged_and_a_denied_word_is_worthless(
    allows: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "toolwire.decisions")
    server = Server(tmp_path)
    with server.start():
        state = server.call()["requestState"]
        assert list_lines(caplog) == []
        result = server.answer_form(state, allows=allows)
        assert result.get("isError", False) is not allows
        assert server.ran == (["tea"] if allows else [])
        # Neither an allowed nor a denied question can be answered again.
        assert "requestState" in server.answer_form(state, allows=True)
    assert server.ran == (["tea"] if allows else [])
    [record] = server.list_records()
    decision = "allowed" if allows else "denied"
    assert (record.principal, record.decision, record.channel) == ("key:ann", decision, "form")
    assert [(one["decision"], one["channel"]) for one in list_lines(caplog)] == [(decision, "form")]


@pytest.mark.requirement("FU-60", "XL-056")
def test_word_that_a_program_sends_is_logged_as_the_decision_of_its_caller(tmp_path: Path) -> None:
    server = Server(tmp_path, require_confirmation=ask_about_destructive)
    with server.start():
        word = server.call()["requestState"]
        server.headers["toolwire-confirmation"] = word
        server.call()
    assert server.ran == ["tea"]
    assert [(one.principal, one.decision, one.channel) for one in server.list_records()] == [
        ("key:ann", "allowed", "caller")
    ]


@pytest.mark.requirement("FU-60")
def test_callers_without_a_name_are_logged_but_fill_no_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "toolwire.decisions")
    server = Server(tmp_path, keys=False)
    with server.start():
        server.answer_form(server.call()["requestState"], allows=True)
    assert server.ran == ["tea"]
    assert [(one["decided_by"], one["channel"]) for one in list_lines(caplog)] == [("anonymous", "form")]
    assert server.list_records() == []


@pytest.mark.requirement("FU-60", "XL-055")
def test_call_whose_decision_cannot_be_kept_does_not_run(tmp_path: Path) -> None:
    server = Server(tmp_path)
    with server.start():
        state = server.call()["requestState"]
        (tmp_path / "audit.sqlite3").write_bytes(b"no database" * 100)
        (tmp_path / "audit.sqlite3").chmod(0o600)
        with pytest.raises(HTTPError, match="503") as refused:
            server.answer_form(state, allows=True)
    assert "the decision of its user cannot be kept now" in refused.value.read().decode()
    assert server.ran == []
