"""The official Python SDK 1.x as a client; see ``story.py``. It runs with packages of its own."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from story import ANSWERS, TARGET, Take, print_story, tell_story


async def main() -> None:
    """Open the server, and tell what came of it."""
    asked: list[str] = []

    async def answer(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult.model_validate(next(ANSWERS))

    async with AsyncExitStack() as stack:
        if "url" in TARGET:
            streams = await stack.enter_async_context(streamable_http_client(TARGET["url"]))
        else:
            server = StdioServerParameters(command=TARGET["command"][0], args=TARGET["command"][1:])
            streams = await stack.enter_async_context(stdio_client(server))
        session = await stack.enter_async_context(ClientSession(*streams[:2], elicitation_callback=answer))
        opened = await session.initialize()

        async def call(name: str, arguments: dict[str, Any], take: Take | None) -> types.CallToolResult:
            id_ = session._request_id  # the id of the next request, which nothing else tells
            try:
                return await session.call_tool(name, arguments, progress_callback=take)
            except asyncio.CancelledError:  # this SDK leaves it to the application to say so
                params = types.CancelledNotificationParams(requestId=id_, reason="enough")
                await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
                raise

        tools = [tool.name for tool in (await session.list_tools()).tools]
        print_story(await tell_story(call), version=opened.protocolVersion, tools=tools, asked=asked)


asyncio.run(main())
