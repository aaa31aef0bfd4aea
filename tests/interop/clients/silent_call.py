"""The client of FastMCP calls ``work`` at a URL, and prints its result. It runs with packages of its own."""

from __future__ import annotations

import asyncio
import sys

from fastmcp import Client


async def main(url: str, mode: str) -> None:
    """Print what the tool returns."""
    async with Client(url, mode=mode) as client:
        print((await client.call_tool_mcp("work", {})).content)


asyncio.run(main(*sys.argv[1:]))
