"""A Python client of another maker for all rows: ``python python_client.py MAKER`` makes the call of each line.

MAKER is ``sdk-1``, ``sdk-2`` or ``fastmcp``; each runs with packages of its own. A call has the ``url`` or ``command``
of a server, the header ``fields``, the ``mode``, whether the client shows ``forms``, and ``tool``, ``arguments`` and
``meta``. ``taken`` is the beginning of the names of the files that say which items of a stream have come.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

MAKER = sys.argv[1]
WAIT_S = 60


class User:
    """Who is asked: allows each call, and says how large."""

    def __init__(self, taken: str) -> None:
        self.taken = taken
        self.consented: list[str] = []
        self.entered: list[str] = []
        self.items: list[Any] = []

    def fill(self, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        if "allow" in schema["properties"]:
            self.consented.append(message)
            return {"allow": True}
        self.entered.append(message)
        return {"size": 4}

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        self.note_item(message)

    def note_item(self, item: Any) -> None:
        self.items.append(item)
        Path(f"{self.taken}.{len(self.items)}").touch()


async def call_sdk_1(asked: dict[str, Any], user: User, stack: AsyncExitStack) -> tuple[str, Any]:
    import httpx
    from mcp import ClientSession, StdioServerParameters, types
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    async def answer(_: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content=user.fill(params.message, params.requestedSchema))

    if asked["command"]:
        command, *words = asked["command"]
        server = StdioServerParameters(command=command, args=words, env=asked["env"])
        streams: Any = await stack.enter_async_context(stdio_client(server))
    else:
        http = await stack.enter_async_context(httpx.AsyncClient(headers=asked["fields"], timeout=WAIT_S))
        streams = await stack.enter_async_context(streamable_http_client(asked["url"], http_client=http))
    callback = answer if asked["forms"] else None
    session = await stack.enter_async_context(ClientSession(*streams[:2], elicitation_callback=callback))
    opened = await session.initialize()
    wait = timedelta(seconds=WAIT_S)
    result = await session.call_tool(
        asked["tool"], asked["arguments"], wait, user.take if user.taken else None, meta=asked["meta"]
    )
    return str(opened.protocolVersion), result


async def call_sdk_2(asked: dict[str, Any], user: User, stack: AsyncExitStack) -> tuple[str, Any]:
    import httpx2
    from mcp import Client, StdioServerParameters, types
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    async def answer(_: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content=user.fill(params.message, params.requested_schema))

    if asked["command"]:
        command, *words = asked["command"]
        target: Any = stdio_client(StdioServerParameters(command=command, args=words, env=asked["env"]))
    else:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=asked["fields"], timeout=WAIT_S))
        target = streamable_http_client(asked["url"], http_client=http)
    callback = answer if asked["forms"] else None
    client = await stack.enter_async_context(Client(target, mode=asked["mode"], elicitation_callback=callback))
    result = await client.call_tool(
        asked["tool"], asked["arguments"], WAIT_S, user.take if user.taken else None, meta=asked["meta"]
    )
    return str(client.protocol_version), result


async def call_fastmcp(asked: dict[str, Any], user: User, stack: AsyncExitStack) -> tuple[str, Any]:
    from fastmcp import Client
    from fastmcp.client.elicitation import ElicitResult
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    async def answer(message: str, _: Any, params: Any, __: Any) -> Any:
        schema = getattr(params, "requested_schema", None) or params.requestedSchema
        return ElicitResult(action="accept", content=user.fill(message, schema))

    if asked["command"]:
        command, *words = asked["command"]
        target: Any = StdioTransport(command, words, env=asked["env"], keep_alive=False)
    else:
        target = StreamableHttpTransport(asked["url"], headers=asked["fields"])
    forms = {"elicitation_handler": answer} if asked["forms"] else {}
    client = await stack.enter_async_context(Client(target, mode=asked["mode"], **forms))
    result = await client.call_tool_mcp(
        asked["tool"], asked["arguments"], user.take if user.taken else None, WAIT_S, asked["meta"] or None
    )
    return str(client.protocol_version), result


CALLS = {"sdk-1": call_sdk_1, "sdk-2": call_sdk_2, "fastmcp": call_fastmcp}


def describe(error: BaseException) -> str:
    """Return what the user of the client reads of ``error``: its text, or that of what it collects."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def make_call(asked: dict[str, Any]) -> dict[str, Any]:
    user = User(asked["taken"])
    reply: dict[str, Any] = {}
    try:
        async with AsyncExitStack() as stack:
            reply["version"], result = await CALLS[MAKER](asked, user, stack)
            reply["result"] = result.model_dump(by_alias=True, mode="json")
    except Exception as error:  # noqa: BLE001 - whatever it is, the test compares its text
        reply["error"] = describe(error)
    return {**reply, "consented": user.consented, "entered": user.entered, "items": user.items}


for line in sys.stdin:
    print(json.dumps(asyncio.run(make_call(json.loads(line)))), flush=True)
