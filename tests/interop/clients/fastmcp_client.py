"""The client of FastMCP; see ``story.py``. It runs with packages of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from story import ANSWERS, TARGET, Take, print_story, tell_story


async def main() -> None:
    """Open the server, and tell what came of it."""
    asked: list[str] = []

    async def answer(message: str, *_: Any) -> ElicitResult[Any]:
        asked.append(message)
        return ElicitResult(**next(ANSWERS))

    target: Any = TARGET.get("url")
    if target is None:
        command, *words = TARGET["command"]
        target = StdioTransport(command, words, keep_alive=False)
    async with Client(target, mode=TARGET["mode"], elicitation_handler=answer) as client:

        async def call(name: str, arguments: dict[str, Any], take: Take | None) -> Any:
            return await client.call_tool_mcp(name, arguments, progress_handler=take)

        tools = [tool.name for tool in await client.list_tools()]
        print_story(await tell_story(call), version=client.protocol_version, tools=tools, asked=asked)


asyncio.run(main())
