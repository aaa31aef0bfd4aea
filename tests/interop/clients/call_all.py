"""Call every tool of a server with one of the official Python SDKs, 1.x or 2.x, and print what came of each call.

Started as ``python call_all.py TARGET``. TARGET is JSON: the ``url``, and the ``mode`` for 2.x. It first lists them
so that the SDK knows what each promises. It prints an object: by name, a result, or ``lost`` with the error.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import mcp

TARGET = json.loads(sys.argv[1])


async def main() -> None:
    """Call each tool, and print all answers."""
    async with AsyncExitStack() as stack:
        if hasattr(mcp, "Client"):
            client: Any = await stack.enter_async_context(mcp.Client(TARGET["url"], mode=TARGET["mode"]))
        else:
            from mcp.client.streamable_http import streamable_http_client

            streams = await stack.enter_async_context(streamable_http_client(TARGET["url"]))
            client = await stack.enter_async_context(mcp.ClientSession(*streams[:2]))
            await client.initialize()
        reply: dict[str, Any] = {}
        cursor: dict[str, str] = {}
        names: list[str] = []
        while True:
            listed = (await client.list_tools(**cursor)).model_dump(by_alias=True, mode="json")
            names += [tool["name"] for tool in listed["tools"]]
            if not listed.get("nextCursor"):
                break
            cursor = {"cursor": listed["nextCursor"]}
        for name in names:
            try:
                reply[name] = (await client.call_tool(name, {})).model_dump(by_alias=True, mode="json")
            except Exception as error:  # noqa: BLE001 - whatever it is, the result is lost
                reply[name] = {"lost": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(reply))


asyncio.run(main())
