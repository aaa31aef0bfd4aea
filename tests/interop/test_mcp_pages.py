"""A long list of tools has pages: the official client and ours read all of them, and a wrong cursor is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import anyio
import pytest
from mcp import Client, MCPError
from pydantic import Field

from toolwire import Toolkit, Value, asgi, connect_sync
from toolwire.protocols.mcp.answers import PAGE_BYTES
from toolwire.testing.loopback import background

TOOLS = 200
LONG = "x" * 50_000


def build_kit(tools: int = TOOLS) -> Toolkit:
    kit = Toolkit("Long")

    def tell(text: Annotated[str, Field(description=LONG)]) -> str:
        """Tell the text again."""
        return text

    for number in range(tools):
        kit.tool(name=f"tell_{number:03}", approval="auto", safe=True)(tell)
    return kit


@pytest.fixture
def url() -> Iterator[str]:
    with background(asgi(build_kit(), find="never")) as base:
        yield base


async def read_pages(url: str, mode: Any) -> list[list[str]]:
    pages: list[list[str]] = []
    async with Client(f"{url}/mcp", mode=mode) as client:
        cursor: str | None = None
        while True:
            listed = await client.list_tools(cursor=cursor)
            pages.append([tool.name for tool in listed.tools])
            cursor = listed.next_cursor
            if cursor is None:
                break
        last = pages[-1][-1]
        called = await client.call_tool(last, {"text": "there"})
        assert called.content[0].text == "there"
    return pages


@pytest.mark.requirement("MC-06")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_reads_every_page(url: str, mode: Any) -> None:
    pages = anyio.run(read_pages, url, mode)
    assert len(pages) == -(-TOOLS * len(LONG) // PAGE_BYTES) == 3
    assert [name for page in pages for name in page] == [f"tell_{number:03}" for number in range(TOOLS)]


@pytest.mark.requirement("MC-06")
def test_our_client_reads_every_page(url: str) -> None:
    with connect_sync(url, protocol="mcp", agree=lambda _: True) as remote:
        assert len(remote.tools) == TOOLS
        assert remote.call(f"tell_{TOOLS - 1}", {"text": "there"}) == Value("there")


@pytest.mark.requirement("MC-06")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_cursor_of_another_list_is_refused(url: str, mode: Any) -> None:
    async def ask(base: str, cursor: str | None) -> Any:
        async with Client(f"{base}/mcp", mode=mode) as client:
            try:
                return await client.list_tools(cursor=cursor)
            except MCPError as error:
                return error.error.code

    cursor = anyio.run(ask, url, None).next_cursor
    with (
        background(asgi(build_kit(), find="never")) as same,
        background(asgi(build_kit(TOOLS - 1), find="never")) as other,
    ):
        assert anyio.run(ask, same, cursor).tools  # such as another worker of one server
        for base, wrong in ((other, cursor), (url, "2"), (url, f"{cursor}0"), (url, "")):
            assert anyio.run(ask, base, wrong) == -32602
