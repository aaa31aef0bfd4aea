"""Our client on servers of the official SDKs that speak the HTTP+SSE transport of 2024-11-05."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolwire import Result, Value, connect, connect_sync

from .mcp_makers import CACHE, INSTALLED, MISSING, NODE

PYTHON_1 = """
from mcp.server.fastmcp import FastMCP
server = FastMCP("Old")
lowlevel = server._mcp_server
"""
PYTHON_2 = """
from mcp.server import MCPServer
server = MCPServer("Old")
lowlevel = server._lowlevel_server
"""
PYTHON_REST = '''
import socket
import uvicorn
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

count = 0


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def step() -> str:
    """Count the calls."""
    global count
    count += 1
    return str(count)


@server.tool()
def repeat(times: int) -> str:
    """Return a long text."""
    return "x" * times


transport = SseServerTransport("/messages/")


async def stream(request):
    async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
        await lowlevel.run(*streams, lowlevel.create_initialization_options())
    return Response()


routes = [Route("/sse", endpoint=stream), Mount("/messages/", app=transport.handle_post_message)]
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
print(f"http://127.0.0.1:{listening.getsockname()[1]}/sse", flush=True)
uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="critical")).run(sockets=[listening])
'''
TYPESCRIPT = """
import http from "node:http";
import { createRequire } from "node:module";
const load = createRequire("CACHE/package.json");
const { McpServer } = load("@modelcontextprotocol/sdk/server/mcp.js");
const { SSEServerTransport } = load("@modelcontextprotocol/sdk/server/sse.js");
const z = load("zod");
const open = new Map();
let count = 0;
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const server = http.createServer(async (request, response) => {
  const url = new URL(request.url, "http://here");
  if (request.method === "GET" && url.pathname === "/sse") {
    const tools = new McpServer({ name: "Old", version: "1" });
    tools.tool("add", "Add.", { a: z.number(), b: z.number() }, async ({ a, b }) => text(a + b));
    tools.tool("step", "Count.", {}, async () => text(++count));
    tools.tool("repeat", "Repeat.", { times: z.number() }, async ({ times }) => text("x".repeat(times)));
    const transport = new SSEServerTransport("/messages", response);
    open.set(transport.sessionId, transport);
    await tools.connect(transport);
  } else if (open.has(url.searchParams.get("sessionId"))) {
    await open.get(url.searchParams.get("sessionId")).handlePostMessage(request, response);
  } else response.writeHead(404).end();
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/sse`));
"""
SERVERS = ["Python SDK 1", "Python SDK 2", "TypeScript SDK 1"]


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of the stream of a server that is not ours, in a process of its own."""
    if request.param != "Python SDK 2" and not INSTALLED:
        pytest.skip(MISSING)
    file = tmp_path / "old_server.mjs"
    if request.param == "TypeScript SDK 1":
        file.write_text(TYPESCRIPT.replace("CACHE", str(CACHE)))
        command = [str(NODE), str(file)]
    else:
        is_first = request.param == "Python SDK 1"
        file.write_text((PYTHON_1 if is_first else PYTHON_2) + PYTHON_REST)
        before = ["env", f"PYTHONPATH={CACHE / 'python_sdk_1'}", sys.executable, "-S"] if is_first else [sys.executable]
        command = [*before, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, f"{request.param} does not start"
            yield address
        finally:
            process.kill()


@pytest.mark.requirement("MC-13")
def test_an_sse_url_of_an_official_server_is_listed_and_called(url: str) -> None:
    with connect_sync(url, approve=lambda _: True) as remote:
        assert remote.protocol == "mcp"
        assert [tool.name for tool in remote.tools] == ["add", "repeat", "step"]
        assert remote.call("add", {"a": 1, "b": 2}) == Value("3")
        assert [remote.call("step"), remote.call("step")] == [Value("1"), Value("2")]
        long = remote.call("repeat", {"times": 3_000_000})
        assert isinstance(long, Value)

    async def add_often() -> list[Result]:
        async with connect(url, approve=lambda _: True) as remote:
            return await asyncio.gather(*(remote.call("add", {"a": n, "b": 1}) for n in range(8)))

    assert asyncio.run(add_often()) == [Value(str(n + 1)) for n in range(8)]
