"""A call that outlasts the read timeout of nginx, without a session and without progress: its result arrives."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client

from tests.interop.mcp_makers import INSTALLED, MISSING, build_environment, start_python
from tests.support.proxies import WAIT_S, run_proxy
from toolwire import Answer, Question, Session, Toolkit, asgi, connect, connect_sync
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.options import RemoteOptions
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.run import call_runner
from toolwire.testing import background

pytestmark = pytest.mark.requirement("I-32")

PROXY_S, WORK_S = 1, 2.5
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work", "arguments": {}}}


def be_impatient(configuration: str) -> str:
    """Return the page's configuration of nginx without TLS, and with a short time limit."""
    changed = configuration.replace("proxy_read_timeout 120s", f"proxy_read_timeout {PROXY_S}s").replace(" ssl;", ";")
    assert changed.count(f"{PROXY_S}s;") == 1
    return changed


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, ran: list[str]) -> Iterator[str]:
    monkeypatch.setattr(call_runner, "KEEP_ALIVE_S", PROXY_S / 4)
    kit = Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    async def work() -> str:
        """Work for longer than the proxy waits."""
        await asyncio.sleep(WORK_S)
        ran.append("work")
        return "worked"

    with background(asgi(kit, sessions="none")) as url:
        yield url


@pytest.fixture
def url(server: str, tmp_path: Path) -> Iterator[str]:
    """The address of the server's MCP endpoint behind nginx."""
    with run_proxy("nginx", tmp_path, urlsplit(server).port or 0, change=be_impatient) as port:
        yield f"http://127.0.0.1:{port}/mcp"


async def call_with_python_sdk(url: str, mode: Any) -> str:
    async with Client(url, mode=mode) as client:
        return str((await client.call_tool("work", {})).content)


def allow(_: Question) -> Answer:
    return Answer(allowed=True)


async def call_with_toolwire(url: str, _: Any) -> str:
    async with connect(url, protocol="mcp", session=Session(), approve=allow) as remote:
        return str((await remote.call("work")).value)


Caller = Callable[[str, Any], Awaitable[str]]


@pytest.mark.parametrize(
    ("caller", "mode"),
    [(call_with_python_sdk, "auto"), (call_with_python_sdk, "legacy"), (call_with_toolwire, "")],
    ids=["python-sdk-auto", "python-sdk-legacy", "toolwire"],
)
def test_result_of_a_silent_call_passes_an_impatient_proxy(caller: Caller, mode: Any, url: str, ran: list[str]) -> None:
    assert "worked" in asyncio.run(caller(url, mode))
    assert ran == ["work"]


def test_blocking_client_gets_the_result(url: str) -> None:
    with connect_sync(url, protocol="mcp", session=Session(), approve=allow) as remote:
        assert remote.call("work").value == "worked"


@pytest.mark.skipif(not INSTALLED, reason=MISSING)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_client_of_fastmcp_gets_the_result(mode: str, url: str, tmp_path: Path) -> None:
    command = [*start_python("silent_call.py", "fastmcp"), url, mode]
    done = subprocess.run(
        command, env=build_environment(tmp_path), capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert "worked" in done.stdout, done.stderr


def test_gateway_passes_a_silent_call_on_through_the_proxy_at_each_side(url: str, tmp_path: Path) -> None:
    settings = ServeSettings(targets=[url], remote=RemoteOptions(protocol="mcp"))
    (own := tmp_path / "own").mkdir()
    with (
        background(build_app(settings, open_toolboxes(settings))) as gateway,
        run_proxy("nginx", own, urlsplit(gateway).port or 0, change=be_impatient) as port,
    ):
        assert "worked" in asyncio.run(call_with_toolwire(f"http://127.0.0.1:{port}/mcp", ""))


def test_client_that_takes_no_stream_is_still_cut(url: str, ran: list[str]) -> None:
    answers = [
        httpx2.post(url, json=CALL, headers={"accept": accept}, timeout=WAIT_S)
        for accept in ("application/json", "application/json, text/event-stream")
    ]
    assert [one.status_code for one in answers] == [504, 200]
    (event,) = [line for line in answers[1].text.splitlines() if line.startswith("data:")]
    assert json.loads(event.removeprefix("data:"))["result"]["content"][0]["text"] == "worked"
    assert ran == ["work"], "the proxy left the first call, which ended with it"
