"""Clients of other makers, unchanged, on our server over streamable HTTP and over stdio.

Each lists, calls, streams, is asked for consent, gets an image and cancels: the Python SDK 1.x and 2.x, the TypeScript
SDK 1.x and 2.x, and the client of FastMCP. Those that speak two revisions do so by both: over HTTP, one of 2025-11-25
gets a session, because it shows forms.

The command line of the Inspector makes one request and ends (``--cli``). It lists, calls and gets an image, by both
revisions. It declares no forms, so it cannot be asked; it shows no progress, and cannot cancel a call. Its other
command, ``mcpdo``, keeps connections in a program of its own, and asks its user.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from typing import Any, Self

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.interop.clients.served_kit import PNG, Notes, build_kit
from tests.interop.mcp_makers import CACHE, HERE, INSTALLED, MISSING, build_environment, start_node
from tests.support.mcp_drivers import WAIT_S, Driver, check_consent, list_drivers, run_driver
from toolwire import asgi
from toolwire.testing import background

TOOLS = ["add", "chart", "count", "delete", "hear", "step", "wait"]
SERVE = [sys.executable, "-m", "toolwire", "serve", f"{HERE / 'served_kit.py'}:kit", "--stdio", "--consent", "refuse"]
INSPECTOR = CACHE / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
MCPDO = CACHE / "node_modules/@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js"
AT_THE_PAGE = ("python-sdk-1", "typescript-sdk-2-auto", "fastmcp-auto")

pytestmark = [pytest.mark.requirement("MC-12"), pytest.mark.skipif(not INSTALLED, reason=MISSING)]


def check_story(said: dict[str, Any], revision: str) -> None:
    """Check what a client of any maker sees but for consent."""
    assert said["version"] == revision
    assert said["tools"] == TOOLS
    assert said["sum"] == {"result": 3}
    assert said["progress"] == [{"progress": one, "total": 3, "message": f"{one} of 3"} for one in (0, 1, 2)]
    assert said["quiet"] == "done"
    assert (said["image"]["type"], said["image"]["mimeType"]) == ("image", "image/png")
    assert b64decode(said["image"]["data"]) == PNG
    assert said["waited"] == "cancelled"


@pytest.mark.requirement("MC-05", "MC-06", "MC-07", "CC-05")
@pytest.mark.parametrize("driver", list_drivers())
def test_a_client_of_another_maker_does_everything_over_http(driver: Driver, tmp_path: Path) -> None:
    notes = Notes()
    with background(asgi(build_kit(notes), consent="refuse")) as url:
        reply = run_driver(driver, tmp_path, url=f"{url}/mcp", leaves=False)
        assert notes.cancelled.wait(WAIT_S)
    check_story(reply, driver.revision)
    check_consent(reply)
    assert notes.deleted == ["old.txt"]
    assert reply["heard"] == "cancelled"


@pytest.mark.requirement("MC-01", "MC-05", "MC-06", "MC-07", "CC-05")
@pytest.mark.parametrize("driver", list_drivers())
def test_a_client_of_another_maker_does_everything_over_stdio(driver: Driver, tmp_path: Path) -> None:
    reply = run_driver(driver, tmp_path, command=SERVE, leaves=False)
    check_story(reply, driver.revision)
    check_consent(reply)
    assert reply["heard"] == "cancelled"


def inspect(home: Path, era: str, target: list[str], *words: str) -> Any:
    """Return the result of one request of the Inspector, or the error that it prints."""
    options = ["--cli", "--quiet", "--format", "json", "--protocol-era", era, *words]
    done = subprocess.run(
        start_node(INSPECTOR, *options, *target),
        env=build_environment(home),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    if done.stdout:
        return json.loads(done.stdout)["result"]
    raise AssertionError(done.stderr)


@pytest.mark.requirement("MC-01", "MC-07", "CC-05")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_command_line_of_the_inspector_lists_and_calls(era: str, transport: str, tmp_path: Path) -> None:
    notes = Notes()
    with background(asgi(build_kit(notes), consent="refuse")) as url:
        target = ["--transport", "http", "--server-url", f"{url}/mcp"] if transport == "http" else ["--", *SERVE]
        listed = inspect(tmp_path, era, target, "--method", "tools/list")
        called = inspect(tmp_path, era, target, "--method", "tools/call", "--tool-name", "chart")
        options = ["--tool-name", "delete", "--tool-args-json", '{"name": "old.txt"}']
        refused = inspect(tmp_path, era, target, "--method", "tools/call", *options)
    assert [tool["name"] for tool in listed["tools"]] == TOOLS
    assert called["content"][0]["mimeType"] == "image/png"
    assert b64decode(called["content"][0]["data"]) == PNG
    assert refused["isError"] is True
    assert "this client cannot be asked for it" in refused["content"][0]["text"]
    assert notes.deleted == []


class KeptConnection:
    """A connection that ``mcpdo`` keeps in a daemon, until the block ends."""

    def __init__(self, home: Path) -> None:
        self._environment = build_environment(home) | {"MCP_INSPECTOR_SECRET_STORE": "memory"}

    def __enter__(self) -> Self:
        # Not in the folder of the test: the path of a socket has at most 107 bytes.
        self._folder = TemporaryDirectory(prefix="mcpdo-", ignore_cleanup_errors=True)
        token = token_urlsafe(24)
        self._environment |= {"MCP_INSPECTOR_DAEMON_DIR": self._folder.name, "MCP_INSPECTOR_DAEMON_TOKEN": token}
        return self

    def __exit__(self, *_: object) -> None:
        self._start("daemon", "stop")
        self._folder.cleanup()

    def run(self, *words: str) -> Any:
        """Return what a command prints."""
        done = self._start("--format", "json", "--connection", "desk", *words)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def answer(self, question: Any, *words: str) -> str:
        """Answer a question for consent, and return the text of the result of its call."""
        asked = question["elicitationPending"]
        assert 'Arguments: {"name":"old.txt"}' in asked["message"]
        return str(self.run("elicitation/respond", asked["elicitationId"], *words)["content"][0]["text"])

    def _start(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = start_node(MCPDO, *words)
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=WAIT_S, check=False
        )


@pytest.mark.requirement("MC-01", "CC-05")
@pytest.mark.parametrize(
    ("era", "transport"), [("modern", "http"), ("modern", "stdio"), ("legacy", "http"), ("legacy", "stdio")]
)
def test_a_kept_connection_of_the_inspector_asks_its_user(era: str, transport: str, tmp_path: Path) -> None:
    with background(asgi(build_kit(Notes()), consent="refuse")) as url:
        target = ["--transport", "http", "--server-url", f"{url}/mcp"] if transport == "http" else ["--", *SERVE]
        with KeptConnection(tmp_path) as desk:
            desk.run("connect", "--era", era, *target)
            assert [tool["name"] for tool in desk.run("tools/list")["tools"]] == TOOLS
            declined = desk.answer(desk.run("tools/call", "delete", "name:=old.txt"), "--decline")
            allowed = desk.answer(desk.run("tools/call", "delete", "name:=old.txt"), "allow:=true")
    assert declined == "delete was not called, because the user did not allow it."
    assert allowed == "deleted old.txt"


@pytest.mark.requirement("FD-06", "D-24")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_with_a_key_works_at_the_address_of_the_page(mode: Any) -> None:
    async def call(url: str) -> Any:
        http = httpx2.AsyncClient(headers={"authorization": "Bearer k-12345"}, follow_redirects=True)
        async with http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            return await client.call_tool("add", {"a": 1, "b": 2})

    with background(asgi(build_kit(Notes()), api_keys=["k-12345"], private=True)) as url:
        assert asyncio.run(call(f"{url}/")).structured_content == {"result": 3}


@pytest.mark.requirement("FD-06")
@pytest.mark.parametrize("driver", [one for one in list_drivers() if one.id in AT_THE_PAGE])
def test_a_client_of_another_maker_does_everything_at_the_address_of_the_page(driver: Driver, tmp_path: Path) -> None:
    notes = Notes()
    with background(asgi(build_kit(notes), consent="refuse")) as url:
        reply = run_driver(driver, tmp_path, url=url, leaves=False)
    check_story(reply, driver.revision)
    check_consent(reply)
    assert notes.deleted == ["old.txt"]
