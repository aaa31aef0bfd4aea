"""A call that says nothing for minutes: its stream has begun, and goes on, so that no proxy ends its connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.skipped_time import run_skipping_time
from tests.support.wire import HERE, run_app
from toolwire import Context, Toolkit, asgi
from toolwire.core.http import Request, get_header
from toolwire.framing.sse import COMMENT, Decoder

SILENT_S = 50.0
COMMENTS = 3
"""One each 15 seconds."""
ACCEPT = "application/json, text/event-stream"
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}
PARAMS = {"name": "work", "arguments": {}, "_meta": {"progressToken": "p"}}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {"form": {}}},
    "clientInfo": {"name": "t", "version": "1"},
}


def build_app(*, reports: bool) -> Any:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    async def work(context: Context) -> str:
        """Report at once or not at all, and then work for long."""
        if reports:
            await context.progress(0.5)
        await asyncio.sleep(SILENT_S)
        return "worked"

    return asgi(kit)


def build_request(path: str, method: str, params: dict[str, Any], **fields: str) -> Request:
    more = {name.replace("_", "-"): value for name, value in fields.items()}
    named = {"content-type": "application/json", "accept": ACCEPT, **more}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return Request("POST", f"{HERE}{path}", tuple((n.encode(), v.encode()) for n, v in named.items()), body)


async def open_session(app: Any) -> str:
    async with run_app(app, build_request("/mcp", "initialize", INITIALIZE)) as answer:
        return get_header((await answer.read_all()).headers, b"mcp-session-id")


@pytest.mark.requirement("I-32")
@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("way", ["opentool", "mcp", "session", "session without progress"])
def test_a_silent_call_keeps_its_connection(way: str, reports: bool) -> None:
    async def call(passed_s: Callable[[], float]) -> tuple[list[bytes], list[float]]:
        app, fields, params = build_app(reports=reports), {}, PARAMS
        if way.startswith("session"):
            fields = {"mcp_session_id": await open_session(app), "mcp_protocol_version": "2025-11-25"}
            params = {**PARAMS, "_meta": {}} if way == "session without progress" else PARAMS
            request = build_request("/mcp", "tools/call", params, **fields)
        elif way == "mcp":
            fields = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "work"}
            request = build_request("/mcp", "tools/call", {**PARAMS, "_meta": PARAMS["_meta"] | MODERN}, **fields)
        else:
            request = build_request("/opentool/streamCall", "work", {})
        pieces: list[bytes] = []
        began = passed_s()
        async with run_app(app, request) as answer:
            start = await answer.read_start()
            assert (start.status, get_header(start.headers, b"content-type")) == (200, "text/event-stream")
            times = [passed_s() - began]
            while (piece := await answer.read_chunk()) is not None:
                pieces.append(piece)
                times.append(passed_s() - began)
        return pieces, times

    pieces, times = run_skipping_time(call)
    body = b"".join(pieces)
    assert body.count(COMMENT) >= COMMENTS
    assert max(after - before for before, after in zip([0.0, *times], times, strict=False)) < 16
    assert "worked" in "".join(event.data for event in Decoder().feed(body))


@pytest.mark.requirement("I-32")
def test_a_client_that_takes_no_stream_gets_its_one_answer() -> None:
    async def call(_: Callable[[], float]) -> bytes:
        app = build_app(reports=False)
        fields = {"mcp_session_id": await open_session(app), "mcp_protocol_version": "2025-11-25"}
        request = build_request("/mcp", "tools/call", PARAMS, **fields, accept="application/json")
        async with run_app(app, request) as answer:
            response = await answer.read_all()
        assert get_header(response.headers, b"content-type") == "application/json"
        return response.body

    assert b"worked" in run_skipping_time(call)
