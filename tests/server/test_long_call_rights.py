"""What another app of the same user, or the caller itself without its former rights, gets of a long call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.inbox import wait_for
from tests.support.jwt_signing import CLAIMS, SECRET, sign_with_secret
from toolwire import Toolkit, asgi, connect_sync
from toolwire.auth.caller_token import ExpectedClaims, read_secret
from toolwire.core.call_status import CallPage
from toolwire.hosting import open_gateway
from toolwire.server.access.signed_tokens import SignedTokenCallers
from toolwire.testing import background


def sign(app: str, scope: str) -> str:
    claims = {**CLAIMS, "exp": time.time() + 86_400, "client_id": app, "scope": scope}
    return sign_with_secret(claims).decode()


MAIL, NOTES = sign("mail-app", "mail.read"), sign("notes-app", "notes.read")


@pytest.fixture
def url() -> Iterator[str]:
    kit = Toolkit("Mail")

    @kit.tool(approval="auto", safe=True, long=True, scopes=["mail.read"])
    def export() -> str:
        """Export all mails."""
        return "private mails"

    @kit.tool(approval="auto", safe=True, long=True)
    def count() -> int:
        """Count something."""
        return 7

    expected = ExpectedClaims(issuer=CLAIMS["iss"], audience=CLAIMS["aud"])
    with background(asgi(kit, callers=SignedTokenCallers(read_secret(SECRET), expected))) as served:
        yield served


def send(url: str, token: str, method: str, path: str, body: Any = None) -> httpx2.Response:
    fields = {"authorization": f"Bearer {token}"}
    if path == "/mcp":
        fields |= {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    return httpx2.request(method, f"{url}{path}", headers=fields, json=body, timeout=30)


@pytest.mark.requirement("D-09", "D-30", "LC-02")
def test_app_without_the_scopes_of_a_tool_gets_nothing_of_its_calls(url: str) -> None:
    with connect_sync(url, protocol="openapi", api_key=MAIL, agree=lambda _: True) as remote:
        handles = {tool: remote.start(tool) for tool in ("export", "count")}
        for handle in handles.values():
            wait_for(lambda handle=handle: handle.status().is_over)
    call_id = handles["export"].id
    assert "private mails" in send(url, MAIL, "GET", f"/calls/{call_id}").text
    for method, body in (("GET", None), ("DELETE", None), ("POST", {"input": {"x": {"action": "accept"}}})):
        refused = send(url, NOTES, method, f"/calls/{call_id}", body)
        assert refused.status_code == 403, refused.text
        assert 'scope="notes.read mail.read"' in refused.headers["www-authenticate"]
    assert send(url, NOTES, "GET", f"/calls/{handles['count'].id}").json()["result"] == 7
    listed = send(url, NOTES, "GET", "/calls").json()["calls"]
    assert [one["id"] for one in listed] == [handles["count"].id]
    events = httpx2.get(
        f"{url}/calls/{call_id}", headers={"authorization": f"Bearer {NOTES}", "accept": "text/event-stream"}
    )
    assert events.status_code == 403
    for protocol in ("mcp", "otc", "opentool"):
        with connect_sync(url, protocol=protocol, api_key=NOTES, agree=lambda _: True) as remote:
            page = remote.list_calls()
            assert not isinstance(page, CallPage) or call_id not in [one.id for one in page.calls], protocol
            assert "private mails" not in str(remote.handle(call_id).status()), protocol


@pytest.mark.requirement("PL-02", "LC-02")
def test_caller_whose_right_to_a_tool_is_taken_away_gets_nothing_of_its_calls(tmp_path: Path) -> None:
    kit = Toolkit("Tasks")

    @kit.tool(approval="auto", safe=True, long=True, keep_s=60)
    def export() -> str:
        """Export all tasks."""
        return "private tasks"

    (tmp_path / "keys.txt").touch(mode=0o600)
    (tmp_path / "keys.txt").write_text("key-of-ann ann\n")
    file = tmp_path / "toolwire.toml"
    other = Toolkit("Other")
    other.tool(name="add")(lambda: 1)
    with background(asgi(kit)) as tasks, background(asgi(other)) as others:
        upstreams = f'[upstreams.tasks]\ntarget = "{tasks}"\nagree = true\n[upstreams.other]\ntarget = "{others}"\n'
        head = f'api-key-file = "keys.txt"\nstate = "state"\n{upstreams}[callers.ann]\ntools = '
        file.write_text(f'{head}["tasks"]\n')
        with background(open_gateway(file)) as served:
            made = send(served, "key-of-ann", "POST", "/mcp", build_call("export"))
            assert "private tasks" in made.text, made.text
            (call_id,) = [one["id"] for one in send(served, "key-of-ann", "GET", "/calls").json()["calls"]]
            assert "private tasks" in send(served, "key-of-ann", "GET", f"/calls/{call_id}").text
        file.write_text(f'{head}["other"]\n')
        with background(open_gateway(file)) as served:
            assert send(served, "key-of-ann", "GET", f"/calls/{call_id}").status_code == 404
            assert send(served, "key-of-ann", "DELETE", f"/calls/{call_id}").status_code == 404
            assert send(served, "key-of-ann", "GET", "/calls").json()["calls"] == []


def build_call(tool: str) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
