"""Sessions of MCP, written by hand over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from toolwire import Context, Toolkit

KEYS = {"ann": "ann-key-000000000000000000000000", "bob": "bob-key-000000000000000000000000"}

ALLOW = {"action": "accept", "content": {"allow": True}}

FORMS: dict[str, Any] = {"elicitation": {}}

PATIENCE_S = 20


class Desk:
    """Tools that delete, wait, grow and write much, and what they did."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.written = 0
        self.cancelled = threading.Event()
        self.kit = kit = Toolkit("Desk")

        @kit.tool(destructive=True)
        def delete(name: str) -> str:
            """Delete something."""
            self.deleted.append(name)
            return "deleted"

        @kit.tool(approval="auto")
        async def wait(context: Context) -> str:
            """Wait until the call is cancelled."""
            await context.progress("waiting")
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
            return ""

        @kit.tool(approval="auto")
        def is_cancelled() -> bool:
            """Wait until ``wait`` was cancelled."""
            return self.cancelled.wait(PATIENCE_S)

        @kit.tool(approval="auto")
        async def write_much(context: Context) -> str:
            """Write 64 MiB of progress."""
            for _ in range(1_024):
                await context.progress("x" * 65_536)
                self.written += 1
            return "done"

        @kit.tool(approval="auto", inline=True)
        def count_written() -> int:
            """Return how much was written."""
            return self.written

        @kit.tool(approval="auto", inline=True)
        def grow() -> str:
            """Add a tool."""
            number = len(kit.catalog().tools)
            kit.add(lambda: "new", name=f"new_{number}", description="New.", approval="auto")
            return "grown"


class Session:
    """One session by plain HTTP, so that everything about it can be wrong."""

    def __init__(self, client: httpx2.AsyncClient, id_: str) -> None:
        self.client, self.id = client, id_
        self.next_id = 1

    def headers(self, **more: str) -> dict[str, str]:
        own = {"mcp-session-id": self.id, "mcp-protocol-version": "2025-11-25"}
        return own | {"accept": "application/json, text/event-stream", **more}

    async def post(self, message: dict[str, Any]) -> httpx2.Response:
        return await self.client.post("/mcp", json={"jsonrpc": "2.0", **message}, headers=self.headers())

    async def call(self, tool: str, id_: Any = None, **arguments: Any) -> Any:
        return await self.post(build_call(tool, id_, arguments))

    @asynccontextmanager
    async def stream(self, tool: str, id_: Any = None, **arguments: Any) -> AsyncIterator[AsyncIterator[Event]]:
        message = {"jsonrpc": "2.0", **build_call(tool, id_, arguments)}
        async with self.client.stream("POST", "/mcp", json=message, headers=self.headers()) as response:
            assert response.headers["content-type"] == "text/event-stream", await response.aread()
            yield read_events(response)

    @asynccontextmanager
    async def listen(self, **more: str) -> AsyncIterator[AsyncIterator[Event]]:
        fields = {name.replace("_", "-"): value for name, value in more.items()}
        async with self.client.stream("GET", "/mcp", headers=self.headers(**fields)) as response:
            assert response.status_code == 200, await response.aread()
            yield read_events(response)

    async def reply(self, question: dict[str, Any], result: Any) -> None:
        assert (await self.post({"id": question["id"], "result": result})).status_code == 202

    async def end(self) -> int:
        return (await self.client.delete("/mcp", headers=self.headers())).status_code


class Event:
    """One event: its id, and its message, None for an event that is only an id."""

    def __init__(self, id_: str, data: str) -> None:
        self.id = id_
        self.message: Any = json.loads(data) if data else None


async def read_events(response: httpx2.Response) -> AsyncIterator[Event]:
    id_ = data = ""
    async for line in response.aiter_lines():
        if line.startswith("id:"):
            id_ = line[3:].strip()
        elif line.startswith("data:"):
            data = line[5:].strip()
        elif not line and id_:
            yield Event(id_, data)
            id_ = data = ""


async def next_message(events: AsyncIterator[Event]) -> Event:
    """Return the next event with a message. A ping, which goes before a question, is left out and not answered."""
    async for event in events:
        if event.message is not None and event.message.get("method") != "ping":
            return event
    raise AssertionError("the stream has ended")


def build_call(name: str, id_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    meta = {"progressToken": "p"}
    return {
        "id": 1 if id_ is None else id_,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": meta},
    }


async def begin(
    client: httpx2.AsyncClient, capabilities: Any = None, version: str = "2025-11-25", **headers: str
) -> httpx2.Response:
    params = {"protocolVersion": version, "capabilities": FORMS if capabilities is None else capabilities}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    fields = {"accept": "application/json, text/event-stream", **headers}
    return await client.post("/mcp", json=message, headers=fields)


async def open_session(client: httpx2.AsyncClient, capabilities: Any = None) -> Session:
    response = await begin(client, capabilities)
    assert response.status_code == 200, response.text
    return Session(client, response.headers["mcp-session-id"])
