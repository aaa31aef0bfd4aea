"""A page of an MCP App calls a tool through a gateway: its host passes the call on, and the user is asked as always."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.types import ElicitResult, Implementation, ToolAnnotations

from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.testing import background

from .conftest import run_app

pytestmark = pytest.mark.requirement("QF-09")

PAGE = "ui://disk/view.html"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "erase", "arguments": {"name": "old"}}}


def build_disk(erased: list[str]) -> MCPServer:
    """Return a server with a page whose button calls a tool that only pages may call."""
    server = MCPServer("Disk")

    @server.resource(PAGE, mime_type="text/html;profile=mcp-app")
    def view() -> str:
        return f"<button onclick='parent.postMessage({json.dumps(CALL)}, \"*\")'>Erase</button>"

    @server.tool(meta={"ui": {"resourceUri": PAGE}})
    def look() -> str:
        """Show the disk."""
        return "full"

    @server.tool(meta={"ui": {"resourceUri": PAGE, "visibility": ["app"]}})
    def erase(name: str) -> str:
        """Erase a file."""
        erased.append(name)
        return f"erased {name}"

    return server


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_call_of_a_page_runs_only_if_its_user_allows_it(mode: Any, allowed: bool) -> None:
    erased: list[str] = []
    shown: list[str] = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        shown.append(params.message)
        return ElicitResult(action="accept", content={"allow": allowed})

    user: Any = answer

    async def act_as_host(url: str) -> Any:
        async with Client(url, mode=mode, elicitation_callback=user) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            meta: Any = tools["erase"].meta
            assert meta["ui"]["visibility"] == ["app"]
            page: Any = (await client.read_resource(meta["ui"]["resourceUri"])).contents[0]
            reply = re.search(r"postMessage\((.*), \"\*\"\)", page.text)
            assert reply is not None
            asked = json.loads(reply[1])["params"]
            return await client.call_tool(asked["name"], asked["arguments"])

    with run_app(build_disk(erased).streamable_http_app()) as url:
        settings = ServeSettings(targets=[f"{url}/mcp"])
        with background(build_app(settings, open_toolboxes(settings))) as front:
            result = anyio.run(act_as_host, f"{front}/mcp")
    assert len(shown) == 1
    assert '"name":"old"' in shown[0]
    assert result.is_error is not allowed
    assert erased == (["old"] if allowed else [])


@pytest.mark.requirement("QF-10")
@pytest.mark.parametrize("has_page", [True, False])
def test_page_gets_each_result_of_its_server_whole(has_page: bool) -> None:
    server = build_disk([]) if has_page else MCPServer("Disk")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def list_files() -> dict[str, str]:
        """List the files."""
        return {"files": "name\n" * 20_000}

    async def allow(_: Any, __: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"allow": True})

    user: Any = allow

    async def act_as_host(url: str) -> Any:
        about = Implementation(name="claude-ai", version="1")
        async with Client(url, client_info=about, elicitation_callback=user) as client:
            return await client.call_tool("list_files", {})

    with run_app(server.streamable_http_app()) as url:
        settings = ServeSettings(targets=[f"{url}/mcp"])
        with background(build_app(settings, open_toolboxes(settings))) as front:
            result = anyio.run(act_as_host, f"{front}/mcp")
    (block,) = result.content
    assert (len(block.text) > 100_000) is has_page


def test_call_of_a_page_does_not_run_where_its_user_cannot_be_asked() -> None:
    erased: list[str] = []

    async def act_as_host(url: str) -> Any:
        async with Client(url) as client:
            return await client.call_tool("erase", {"name": "old"})

    with run_app(build_disk(erased).streamable_http_app()) as url:
        settings = ServeSettings(targets=[f"{url}/mcp"])
        with background(build_app(settings, open_toolboxes(settings))) as front:
            result = anyio.run(act_as_host, f"{front}/mcp")
    assert result.is_error is True
    assert erased == []
