"""A byte order mark before a text of another maker's server is left out, wherever one is read."""

from __future__ import annotations

import asyncio
import json
from codecs import BOM_UTF8
from typing import Any

import pytest

from toolwire import Value, connect
from toolwire.framing import jsontext
from toolwire.framing.sse import Decoder, Event
from toolwire.testing import background

pytestmark = pytest.mark.requirement("I-33")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_first_event_after_a_mark_is_read(size: int) -> None:
    text, decoder = BOM_UTF8 + b"data: one\n\ndata: two\n\n", Decoder()
    events = [event for at in range(0, len(text), size) for event in decoder.feed(text[at : at + size])]
    assert events == [Event("message", "one"), Event("message", "two")]


def test_json_after_a_mark_is_read() -> None:
    assert jsontext.read(BOM_UTF8 + b'{"a":1}') == {"a": 1}
    assert jsontext.read_without_duplicates(BOM_UTF8 + b'{"a":1}') == {"a": 1}
    large = b"[" + b",".join([b'"0123456789"'] * 300_000) + b"]"
    assert jsontext.read(BOM_UTF8 + large) == jsontext.read(large)


class MarkedServer:
    """An MCP server whose answers begin with a mark, as one JSON text or as an event."""

    def __init__(self, *, events: bool) -> None:
        self._events = events

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        asked = json.loads((await receive())["body"] or b"{}")
        tool = {"name": "t", "description": "A tool", "inputSchema": {"type": "object"}}
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": "called"}]},
        }
        method = asked.get("method", "")
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
        reply |= {"result": results[method]} if method in results else {"error": {"code": -32601, "message": "no"}}
        text = json.dumps(reply).encode()
        kind = b"text/event-stream" if self._events else b"application/json"
        body = BOM_UTF8 + (b"data: " + text + b"\n\n" if self._events else text)
        status = 405 if scope["method"] != "POST" else 200 if "id" in asked else 202
        headers = [(b"content-type", kind), (b"allow", b"POST")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body if status == 200 else b""})


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
def test_mcp_server_that_marks_its_answers_is_found_and_called(events: bool) -> None:
    async def run(url: str) -> Any:
        async with connect(f"{url}/mcp", protocol="mcp", approve=lambda _: True) as remote:
            return await remote.call("t", {})

    with background(MarkedServer(events=events)) as url:
        assert asyncio.run(run(url)) == Value("called")
