"""Changes of a server's lists: told to the official client over HTTP and stdio, and heard by our gateway."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context as SdkContext
from mcp.server.mcpserver import MCPServer
from mcp.types import ServerNotification

from tests.support.upstreams import connect_without_user
from toolwire import Answer, ApiKey, App, Problem, Secret, Session, Toolkit, asgi, connect_sync, merge_toolboxes
from toolwire.server.mcp import change_stream
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.testing import background

from .conftest import run_app

pytestmark = pytest.mark.requirement("MC-06")

KIT = '''
from toolwire import Toolkit

kit = Toolkit("Growing")


@kit.tool(approval="auto", inline=True)
def grow(what: str) -> str:
    """Add a tool, a prompt or a resource."""
    def new() -> str:
        return what

    if what == "tool":
        kit.add(new, name="new", approval="auto")
    elif what == "prompt":
        kit.prompt(name="new")(new)
    else:
        kit.resource("new://one")(new)
    return what


@kit.prompt
def greet() -> str:
    return "Hello!"


@kit.resource("config://app")
def config() -> str:
    return "red"
'''
NAMES = {"tool": "ToolsListChanged", "prompt": "PromptsListChanged", "resource": "ResourcesListChanged"}


def build_kit() -> Toolkit:
    names: dict[str, Toolkit] = {"__name__": "growing"}  # type: ignore[dict-item]  # what a module has
    exec(compile(KIT, "growing.py", "exec"), names)
    return names["kit"]


async def grow(url: str, what: str) -> None:
    async with Client(f"{url}/mcp") as client:
        await client.call_tool("grow", {"what": what})


@pytest.mark.parametrize("what", ["tool", "prompt", "resource"])
def test_official_client_that_listens_hears_of_each_change(what: str) -> None:
    async def listen(url: str) -> None:
        with anyio.fail_after(20):
            async with (
                Client(f"{url}/mcp") as client,
                client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as changes,
            ):
                await grow(url, what)
                async for change in changes:
                    assert type(change).__name__ == NAMES[what]
                    break
                listed = (await client.list_tools()).tools
                assert ("new" in {tool.name for tool in listed}) is (what == "tool")

    with background(asgi(build_kit())) as url:
        anyio.run(listen, url)


def test_client_hears_only_what_it_asked_for() -> None:
    async def listen(url: str) -> None:
        with anyio.fail_after(20):
            async with Client(f"{url}/mcp") as client, client.listen(prompts_list_changed=True) as changes:
                assert changes.honored.tools_list_changed is None
                await grow(url, "tool")
                await grow(url, "prompt")
                async for change in changes:
                    assert type(change).__name__ == "PromptsListChanged"
                    break

    with background(asgi(build_kit())) as url:
        anyio.run(listen, url)


def test_caller_hears_nothing_of_tools_that_it_may_not_see() -> None:
    kit = Toolkit("Two")

    @kit.tool(approval="auto", inline=True)
    def grow(scope: str) -> str:
        """Add a tool for callers with a scope."""

        def new() -> str:
            return scope

        kit.add(new, name=f"for_{scope}", scopes=[scope], approval="auto")
        return scope

    keys = (ApiKey(key=Secret("a" * 32), name="guest", scopes=frozenset({"guest"})),)

    async def listen(url: str) -> None:
        with anyio.fail_after(20):
            http = httpx2.AsyncClient(headers={"authorization": "Bearer " + "a" * 32})
            async with (
                http,
                Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
                client.listen(tools_list_changed=True) as changes,
            ):
                await client.call_tool("grow", {"scope": "staff"})
                await anyio.sleep(3 * change_stream.POLL_S)
                await client.call_tool("grow", {"scope": "guest"})
                received = 0
                with anyio.move_on_after(4 * change_stream.POLL_S):
                    async for _ in changes:
                        received += 1
                assert received == 1
                assert {tool.name for tool in (await client.list_tools()).tools} == {"grow", "for_guest"}

    with background(asgi(kit, api_keys=keys)) as url:
        anyio.run(listen, url)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_host_hears_of_a_change_over_stdio(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "growing.py"
    file.write_text(KIT)
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "toolwire", "serve", str(file), "--stdio"])

    async def use() -> None:
        changed = anyio.Event()

        async def hear(message: object) -> None:
            if isinstance(message, ServerNotification) or "list_changed" in str(getattr(message, "method", "")):
                changed.set()

        with anyio.fail_after(30):
            if mode == "legacy":
                async with Client(stdio_client(parameters), mode="legacy", message_handler=hear) as client:
                    assert client.server_capabilities.tools is not None
                    assert client.server_capabilities.tools.list_changed is True
                    await client.call_tool("grow", {"what": "tool"})
                    await changed.wait()
                return
            async with Client(stdio_client(parameters)) as client, client.listen(tools_list_changed=True) as changes:
                await client.call_tool("grow", {"what": "tool"})
                async for change in changes:
                    assert type(change).__name__ == "ToolsListChanged"
                    break

    anyio.run(use)


def test_stream_ends_when_the_server_drains() -> None:
    app: App = asgi(build_kit())

    async def listen(url: str) -> None:
        with anyio.fail_after(20):
            async with Client(f"{url}/mcp") as client, client.listen(tools_list_changed=True) as changes:
                app.drain()
                assert [change async for change in changes] == []

    with background(app) as url:
        anyio.run(listen, url)


def test_streams_of_one_caller_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "MAX_STREAMS_A_CALLER", 1)

    async def listen(url: str) -> None:
        with anyio.fail_after(20):
            async with Client(f"{url}/mcp") as client:
                async with client.listen(tools_list_changed=True):
                    with pytest.raises(Exception, match=r"[Tt]oo many"):
                        async with client.listen(tools_list_changed=True):
                            pass
                with anyio.move_on_after(5):
                    while True:  # the server notices that the first one has left
                        try:
                            async with client.listen(tools_list_changed=True):
                                return
                        except Exception:  # noqa: BLE001 - the SDK's own classes of a refusal
                            await anyio.sleep(0.05)
                raise AssertionError("no stream is free again")

    with background(asgi(build_kit())) as url:
        anyio.run(listen, url)


def build_foreign() -> Any:
    """Return a server of the SDK whose tool adds another one, and tells those who listen."""
    server = MCPServer("Growing")

    def new() -> str:
        return "new"

    @server.tool()
    async def grow(what: str, context: SdkContext) -> str:
        server.add_tool(new, name="new")
        await context.notify_tools_changed()
        return what

    return server.streamable_http_app(stateless_http=True)


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = monotonic() + 20
    while not is_true():
        assert monotonic() < deadline


@pytest.mark.parametrize("maker", ["ours", "sdk"])
def test_gateway_serves_a_tool_that_its_upstream_added_before_it_listened(maker: str) -> None:
    upstream_app = build_foreign() if maker == "sdk" else asgi(build_kit())
    opener = run_app if maker == "sdk" else background
    with opener(upstream_app) as upstream_url:
        upstream = connect_without_user(f"{upstream_url}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        anyio.run(grow, upstream_url, "tool")
        with background(asgi(merge_toolboxes([upstream], names={0: "up"}))) as url:

            def has_new() -> bool:
                with connect_sync(url, protocol="mcp") as later:
                    return not isinstance(later.find("new"), Problem)

            wait_until(has_new)


@pytest.mark.parametrize("maker", ["ours", "sdk"])
def test_gateway_serves_a_tool_that_its_upstream_adds(maker: str) -> None:
    upstream_app = build_foreign() if maker == "sdk" else asgi(build_kit())
    opener = run_app if maker == "sdk" else background
    with opener(upstream_app) as upstream_url:
        upstream = connect_without_user(f"{upstream_url}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        other = FunctionToolbox(Toolkit("Own"))
        with background(asgi(merge_toolboxes([upstream, other], names={0: "up"}))) as url:
            anyio.run(grow, upstream_url, "tool")

            def has_new() -> bool:
                with connect_sync(url, protocol="mcp") as later:
                    return not isinstance(later.find("new"), Problem)

            wait_until(has_new)


SDK_PROGRAM = """
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("Growing")

@server.tool()
async def grow(context: Context) -> str:
    server.add_tool(lambda: "new", name="new")
    await context.notify_tools_changed()
    return "grown"

server.run("stdio")
"""
EVENT_STREAM_SERVER = """
import socket
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("Growing")

@server.tool()
async def grow(context: Context) -> str:
    server.add_tool(lambda: "new", name="new")
    await context.session.send_tool_list_changed()
    return "grown"

listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
print(f"http://127.0.0.1:{listening.getsockname()[1]}/sse", flush=True)
uvicorn.Server(uvicorn.Config(server.sse_app(), log_level="critical")).run(sockets=[listening])
"""
OLDER_PROGRAM = """
import json, sys

names = ["grow"]

for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "Growing", "version": "1.0.0"}
            answer = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            answer = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
        case "tools/call":
            names.append("new")
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
            answer = {"content": []}
        case _:
            if "id" in asked:
                error = {"code": -32601, "message": "unknown"}
                print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


@pytest.mark.parametrize("text", [SDK_PROGRAM, OLDER_PROGRAM], ids=["sdk", "2025-11-25"])
def test_gateway_serves_a_tool_that_a_program_adds(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "growing.py"
    file.write_text(text)
    check_growth(f"stdio:{sys.executable} {file}", approve_command=lambda _: True)


def test_gateway_serves_a_tool_that_a_server_with_one_event_stream_adds(tmp_path: Path) -> None:
    file = tmp_path / "growing.py"
    file.write_text(EVENT_STREAM_SERVER)
    # In a process of its own, because this transport of the SDK leaves streams open when its server stops.
    with subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            check_growth(process.stdout.readline().strip())
        finally:
            process.kill()


def check_growth(target: str, **options: Any) -> None:
    """Check that a gateway serves the tool that ``grow`` of its upstream adds."""
    upstream = connect_without_user(target, Session(), protocol="mcp", approve=lambda _: Answer(True), **options)
    with background(asgi(merge_toolboxes([upstream], names={0: "up"}))) as url:
        with connect_sync(url, protocol="mcp", approve=lambda _: Answer(True)) as caller:
            assert not isinstance(caller.call("grow"), Problem)

        def has_new() -> bool:
            with connect_sync(url, protocol="mcp") as later:
                return not isinstance(later.find("new"), Problem)

        wait_until(has_new)
