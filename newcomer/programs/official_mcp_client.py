"""Use a server with the official MCP client, which knows nothing of toolwire: list its tools."""

import asyncio
import sys

from mcp import Client


async def main() -> None:
    """Print the names of the tools."""
    async with Client(sys.argv[1]) as client:
        print([tool.name for tool in (await client.list_tools()).tools])


asyncio.run(main())
