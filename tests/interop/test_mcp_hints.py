"""What servers of the official SDK say about their tools, behind a gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer

from toolwire import Session, asgi
from toolwire.client.connection.connect import connect_without_user
from toolwire.testing.loopback import background

from .conftest import run_app


def build_hinting_server() -> MCPServer:
    server = MCPServer("Hints")

    @server.tool(
        title="Look it\u200b up",
        annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )
    def find(text: str) -> str:
        """Find a text."""
        return text

    @server.tool(annotations=types.ToolAnnotations(destructive_hint=False))
    def note(text: str) -> str:
        return text

    @server.tool()
    def plain(text: str) -> str:
        return text

    return server


async def list_annotations(url: str) -> dict[str, dict[str, Any]]:
    async with Client(f"{url}/mcp") as client:
        tools = (await client.list_tools()).tools
    return {tool.name: tool.model_dump(by_alias=True, exclude_none=True)["annotations"] for tool in tools}


@pytest.fixture(scope="module")
def hints() -> dict[str, dict[str, Any]]:
    with (
        run_app(build_hinting_server().streamable_http_app()) as url,
        background(asgi(connect_without_user(url, Session()))) as gateway,
    ):
        return asyncio.run(list_annotations(gateway))


@pytest.mark.requirement("I-10")
def test_gateway_keeps_titles_and_hints_except_read_only(hints: dict[str, dict[str, Any]]) -> None:
    assert hints["find"] == {
        "title": "Look it up",
        "readOnlyHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


def test_gateway_adds_no_hints_the_upstream_does_not_declare(hints: dict[str, dict[str, Any]]) -> None:
    assert hints["note"]["destructiveHint"] is False
    assert "destructiveHint" not in hints["plain"]
    assert hints["plain"]["idempotentHint"] is False
