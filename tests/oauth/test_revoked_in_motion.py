"""What still runs, waits or is sent when the access of its caller is revoked meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

import toolwire
from tests.support.inbox import wait_for
from toolwire import Context
from toolwire.core.check import Answer
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.oauth.accounts import Accounts

from .conftest import QUICK, Walker
from .running_site import Running

MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


class Desk(Running):
    """A site with tools that take their time."""

    def __init__(self, folder: Path, serve: Callable[..., str], **settings: Any) -> None:
        self.folder, self.moments = folder, 200
        self.begun, self.cancelled, self.published = list[str](), list[str](), list[str]()
        self.may_end = threading.Event()
        super().__init__(folder, serve, **settings)
        self.token = self.signed_in(Walker()).access.reveal()

    def wrapped(self) -> Any:
        kit = toolwire.Toolkit("Desk")

        @kit.tool(approval="auto", safe=True)
        async def watch(context: Context) -> str:
            """Watch for a while."""
            self.begun.append("watch")
            try:
                for number in range(self.moments):
                    await context.progress({"seen": number})
                    await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                self.cancelled.append("watch")
                raise
            return "all that was seen"

        @kit.tool(approval="auto", safe=True)
        async def read() -> str:
            """Read for a while."""
            self.begun.append("read")
            await asyncio.sleep(7)
            return "what was read"

        @kit.tool
        def publish(text: str) -> str:
            """Publish a text."""
            self.published.append(text)
            return "published"

        @kit.tool(approval="auto", safe=True, long=True)
        def export() -> str:
            """Export for a while."""
            self.begun.append("export")
            self.may_end.wait(30)
            return "all that was exported"

        @kit.tool(long=True)
        def announce(text: str) -> str:
            """Announce a text."""
            self.published.append(text)
            return "announced"

        return toolwire.asgi(kit, callers=self.server.callers, consent="inbox", state=str(self.folder / "state"))

    def revoke(self, how: str) -> None:
        """Revoke all access: as the user does in this process, or as a command in another one."""
        people = Accounts(self.store, hasher=QUICK)
        account = people.find_by_name("Ada")
        assert account is not None
        if how == "here":
            with self.store.read_transaction() as rows:
                (grant,) = rows.list_grants(account.id)
            assert asyncio.run(self.server.disconnect(account.id, grant.id))
        else:
            people.remove(account)

    def count_open(self) -> int:
        """Return how many long calls are not over."""
        with closing(sqlite3.connect(self.folder / "state" / "calls.sqlite")) as rows:
            return int(rows.execute("SELECT count(*) FROM long_calls WHERE until IS NULL").fetchone()[0])

    def send(self, path: str, body: Any, method: str = "POST", **fields: str) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.token}", **{k.replace("_", "-"): v for k, v in fields.items()}}
        return httpx2.request(method, f"{self.url}{path}", headers=headers, json=body, timeout=40)


def build_opentool(tool: str, **arguments: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": tool, "params": arguments}


def build_call(tool: str, **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.requirement("D-38")
@pytest.mark.parametrize("how", ["here", "elsewhere"])
def test_running_calls_bring_nothing_more(
    tmp_path: Path, serve: Callable[..., str], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(tmp_path, serve, cache_s=0)
    client = {"name": "t", "version": "1"}
    start = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client}
    opened = desk.send("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}, **MCP)
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    accepted = desk.send("/api/export", None, method="GET", prefer="respond-async, wait=0")
    assert accepted.status_code == 202, accepted.text
    task = accepted.headers["location"]
    ways: dict[str, Callable[[], httpx2.Response]] = {
        "opentool stream": lambda: desk.send("/opentool/streamCall", build_opentool("watch")),
        "mcp stream": lambda: desk.send("/mcp", build_call("watch"), **MCP),
        "mcp session": lambda: desk.send("/mcp", build_call("watch"), **MCP, **session),
        "mcp": lambda: desk.send("/mcp", build_call("read"), **MCP),
        "openapi": lambda: desk.send("/api/read", None, method="GET"),
        "opentool": lambda: desk.send("/opentool/call", build_opentool("read")),
        "long": lambda: desk.send("/api/export", None, method="GET", prefer="wait=20"),
        "status": lambda: desk.send(task, None, method="GET", prefer="wait=20"),
    }
    with ThreadPoolExecutor(len(ways)) as pool:
        began = {name: pool.submit(send) for name, send in ways.items()}
        wait_for(lambda: len(desk.begun) == len(ways))
        desk.revoke(how)
        threading.Timer(6, desk.may_end.set).start()
        found = {name: one.result(40) for name, one in began.items()}
    for name, response in found.items():
        assert "was revoked" in response.text, (name, response.text[-300:])
        assert "all that was" not in response.text, name
        assert "what was read" not in response.text, name
    assert {name for name, one in found.items() if one.status_code == 401} >= {"openapi", "long", "status"}
    assert len(desk.cancelled) == 3, "the calls of streams end as if their clients had left"
    assert caplog.text.count("the access of its caller was revoked") >= 6


@pytest.mark.requirement("D-38", "GW-04")
@pytest.mark.parametrize("how", ["here", "elsewhere"])
def test_call_that_waits_for_its_user_does_not_begin(tmp_path: Path, serve: Callable[..., str], how: str) -> None:
    desk = Desk(tmp_path, serve, cache_s=0)
    approvals = Approvals(tmp_path / "state")
    later = desk.send("/api/announce", {"text": "later"}, prefer="respond-async, wait=0")
    assert later.status_code == 202, later.text
    ways: list[Callable[[], httpx2.Response]] = [
        lambda: desk.send("/api/publish", {"text": "openapi"}, prefer="wait=30"),
        lambda: desk.send("/mcp", build_call("publish", text="mcp"), **MCP, prefer="wait=30"),
        lambda: desk.send("/opentool/streamCall", build_opentool("publish", text="stream"), prefer="wait=30"),
        lambda: desk.send("/api/announce", {"text": "long"}, prefer="wait=30"),
    ]
    with ThreadPoolExecutor(len(ways)) as pool:
        began = [pool.submit(send) for send in ways]
        wait_for(lambda: len(approvals.list_pending()) == len(ways) + 1)
        desk.revoke(how)
        for one in approvals.list_pending():
            assert approvals.answer(one.id, Answer(allowed=True))
        for one in began:
            assert "was revoked" in one.result(40).text
    wait_for(lambda: desk.count_open() == 0)
    assert desk.published == []


@pytest.mark.requirement("D-38")
def test_call_outlives_a_token_that_only_expired(tmp_path: Path, serve: Callable[..., str]) -> None:
    desk = Desk(tmp_path, serve, cache_s=0, access_s=3.0)
    desk.moments = 100
    assert "all that was seen" in desk.send("/mcp", build_call("watch"), **MCP).text
    assert desk.send("/mcp", build_call("watch"), **MCP).status_code == 401
