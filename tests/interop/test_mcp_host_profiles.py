"""Each known MCP host as its documentation describes it: how its user is asked, and that its name loosens nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from spec import mcp_hosts
from tests.support.mcp_hosts import CLIENTS, declare
from tests.support.mcp_sessions import ALLOW, PATIENCE_S, Desk, Session, build_call, next_message, read_events
from toolwire import App, asgi
from toolwire.hosting.mcp_hosts.host_files import HOSTS
from toolwire.protocols.mcp.host_profiles import HOST_PROFILES
from toolwire.testing import background

pytestmark = pytest.mark.requirement("QF-07")


def call_as(app: App, client_name: str, capabilities: dict[str, Any]) -> tuple[int, str]:
    """Call delete as a client of that name, and return how many forms its user has allowed, and the answer."""

    async def tell(url: str) -> tuple[int, str]:
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            about = {"name": client_name, "version": "1.0"}
            params = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": about}
            begun = await client.post(
                "/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            )
            session = Session(client, begun.headers["mcp-session-id"])
            message = {"jsonrpc": "2.0", **build_call("delete", None, {"name": "old"})}
            async with client.stream("POST", "/mcp", json=message, headers=session.headers()) as response:
                if response.headers["content-type"] == "application/json":
                    return 0, str(json.loads(await response.aread())["result"]["content"][0]["text"])
                events = read_events(response)
                question = (await next_message(events)).message
                assert question["method"] == "elicitation/create"
                await session.reply(question, ALLOW)
                return 1, str((await next_message(events)).message["result"]["content"][0]["text"])

    with background(app) as url:
        return anyio.run(tell, url)


@pytest.mark.parametrize(("host", "client"), CLIENTS)
def test_user_of_a_known_host_is_asked_by_form_or_in_the_inbox(
    host: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    desk, profile = Desk(), HOST_PROFILES[host]
    forms, text = call_as(asgi(desk.kit, consent="inbox"), client, declare(profile))
    if profile.shows_forms:
        assert (forms, text, desk.deleted) == (1, "deleted", ["old"])
    else:
        assert (forms, desk.deleted) == (0, [])
        assert "toolwire approvals allow" in text


@pytest.mark.parametrize("client", ["claude-code", "nobody"])
def test_name_of_a_client_neither_replaces_nor_prevents_a_question(client: str) -> None:
    desk = Desk()
    forms, text = call_as(asgi(desk.kit, consent="refuse"), client, {})
    assert (forms, desk.deleted) == (0, [])
    assert "cannot be asked" in text
    assert call_as(asgi(desk.kit, consent="refuse"), "Zed", {"elicitation": {}}) == (1, "deleted")


def test_each_fact_names_a_public_page_and_a_day() -> None:
    names = [client for _, client in CLIENTS]
    assert len(names) == len(set(names))
    assert set(HOSTS) == set(HOST_PROFILES) - {"chatgpt"}
    for profile in HOST_PROFILES.values():
        for fact in profile.list_facts().values():
            assert fact is None or fact.page.startswith("https://")
            assert fact is None or re.fullmatch(r"\d{4}-\d\d-\d\d", fact.noted)


def test_page_prints_the_profiles() -> None:
    assert "\n".join(mcp_hosts.write_rows()) in mcp_hosts.PAGE.read_text(encoding="utf-8")
