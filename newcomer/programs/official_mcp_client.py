"""Use a server with the official MCP client, which knows nothing of toolwire: list its tools, and call one."""

import asyncio
import sys
from typing import Any

from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult


async def allow(_: Any, params: ElicitRequestParams) -> ElicitResult:
    """Show the question of the server, and allow the call."""
    print(params.message)
    return ElicitResult(action="accept", content={"allow": True})


async def main() -> None:
    """Print the names of the tools, and what ``list_animals`` returns after its user allowed it."""
    async with Client(sys.argv[1], elicitation_callback=allow) as client:
        print([tool.name for tool in (await client.list_tools()).tools])
        print((await client.call_tool("list_animals", {})).content)


asyncio.run(main())
