"""The official Python SDK 2.x as a client; see ``story.py``."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from story import ANSWERS, TARGET, Take, print_story, tell_story


async def main() -> None:
    """Open the server, and tell what came of it."""
    asked: list[str] = []

    async def answer(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult.model_validate(next(ANSWERS))

    target: Any = TARGET.get("url")
    if target is None:
        target = stdio_client(StdioServerParameters(command=TARGET["command"][0], args=TARGET["command"][1:]))
    async with Client(target, mode=TARGET["mode"], elicitation_callback=answer) as client:

        async def call(name: str, arguments: dict[str, Any], take: Take | None) -> types.CallToolResult:
            return await client.call_tool(name, arguments, progress_callback=take)

        tools = [tool.name for tool in (await client.list_tools()).tools]
        print_story(await tell_story(call), version=client.protocol_version, tools=tools, asked=asked)


asyncio.run(main())
