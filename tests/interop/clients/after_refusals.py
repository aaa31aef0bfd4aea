"""The official Python SDK 1.x, which ends its connection at most HTTP statuses that say an error.

Started as ``python after_refusals.py TARGET``. TARGET is JSON: the ``url`` of a server with a prompt ``greet`` and a
tool ``add``. It asks for what the server refuses, then calls the tool, and prints what it was told.
"""

from __future__ import annotations

import asyncio
import json
import sys

from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client

URL = json.loads(sys.argv[1])["url"]


async def main() -> None:
    """Get a prompt without its argument, and then call a tool."""
    said = []
    async with streamable_http_client(URL) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        try:
            await session.get_prompt("greet", {})
        except McpError as error:
            said.append(str(error))
        called = await session.call_tool("add", {"a": 1})
        said.append(called.content[0].text)  # type: ignore[union-attr]
    print(json.dumps(said))


asyncio.run(main())
