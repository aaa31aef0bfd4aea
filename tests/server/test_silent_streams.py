"""A call that says nothing for minutes: its stream has begun, and goes on, so that no proxy ends its connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.skipped_time import run_skipping_time
from tests.support.wire import HERE, run_app
from toolwire import Context, ToolError, Toolkit, asgi
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
PLAIN = [f"without session {revision}" for revision in ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")]


@dataclass
class Size:
    size: int


def build_app(*, reports: bool, ended: list[str] | None = None) -> Any:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    async def rest() -> str:
        """Work for long, with nothing to report."""
        try:
            await asyncio.sleep(SILENT_S)
        except asyncio.CancelledError:
            if ended is not None:
                ended.append("cancelled")
            raise
        if ended is not None:
            ended.append("worked")
        return "worked"

    @kit.tool(approval="auto", safe=True)
    async def choose(context: Context) -> str:
        """Work for long, and then ask the user."""
        await asyncio.sleep(SILENT_S)
        answer = await context.ask(Size, "Which size?")
        if not answer:
            raise ToolError(answer.message)
        return "chosen"

    @kit.tool(long=True, approval="auto", safe=True)
    async def build() -> str:
        """Work for so long that the caller comes back later."""
        await asyncio.sleep(SILENT_S)
        return "worked"

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


def build_plain(revision: str, tool: str = "rest", **fields: str) -> Request:
    """Return a call without a session and without a token for progress."""
    meta = MODERN if revision == "2026-07-28" else {}
    params = {"name": tool, "arguments": {}, "_meta": meta} if meta else {"name": tool, "arguments": {}}
    named = {"mcp_protocol_version": revision, "mcp_method": "tools/call", "mcp_name": tool, **fields}
    return build_request("/mcp", "tools/call", params, **named)


async def open_session(app: Any) -> str:
    async with run_app(app, build_request("/mcp", "initialize", INITIALIZE)) as answer:
        return get_header((await answer.read_all()).headers, b"mcp-session-id")


@pytest.mark.requirement("I-32")
@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("way", ["opentool", "mcp", "session", "session without progress", *PLAIN])
def test_a_silent_call_keeps_its_connection(way: str, reports: bool) -> None:
    async def call(passed_s: Callable[[], float]) -> tuple[list[bytes], list[float]]:
        app, fields, params = build_app(reports=reports), {}, PARAMS
        if way.startswith("session"):
            fields = {"mcp_session_id": await open_session(app), "mcp_protocol_version": "2025-11-25"}
            params = {**PARAMS, "_meta": {}} if way == "session without progress" else PARAMS
            request = build_request("/mcp", "tools/call", params, **fields)
        elif way in PLAIN:
            request = build_plain(way.rsplit(maxsplit=1)[-1], "work" if reports else "rest")
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


@pytest.mark.requirement("I-32")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("tool", "accept"), [("rest", "application/json"), ("list", ACCEPT)])
def test_a_call_without_session_gets_one_answer_if_it_takes_no_stream_or_ends_soon(
    revision: str, tool: str, accept: str
) -> None:
    kit = Toolkit("Desk")

    @kit.tool(approval="auto", safe=True)
    async def rest() -> str:
        await asyncio.sleep(SILENT_S)
        return "worked"

    @kit.tool(name="list", approval="auto", safe=True)
    async def list_() -> str:
        await asyncio.sleep(14.9)
        return "worked"

    async def call(_: Callable[[], float]) -> bytes:
        async with run_app(asgi(kit), build_plain(revision, tool, accept=accept)) as answer:
            response = await answer.read_all()
        assert get_header(response.headers, b"content-type") == "application/json"
        return response.body

    assert b"worked" in run_skipping_time(call)


@pytest.mark.requirement("I-32")
def test_calls_of_different_age_each_begin_their_stream_in_time() -> None:
    async def call(passed_s: Callable[[], float]) -> list[float]:
        app = build_app(reports=False)

        async def begin(after_s: float) -> float:
            await asyncio.sleep(after_s)
            began = passed_s()
            async with run_app(app, build_plain("2025-11-25")) as answer:
                await answer.read_start()
                begun = passed_s() - began
                assert b"worked" in await answer.read_rest()
            return begun

        await begin(0.0)  # the first request waits for a thread, while time passes
        return await asyncio.gather(*map(begin, (0.0, 1.0, 14.0, 16.0, 40.0, 200.0)))

    assert all(14.9 < one < 15.1 for one in run_skipping_time(call))


@pytest.mark.requirement("I-32")
@pytest.mark.parametrize("key", ["", '"k1"'])
def test_client_that_leaves_a_begun_stream_cancels_its_call_unless_it_is_recorded(key: str) -> None:
    ended: list[str] = []

    async def call(_: Callable[[], float]) -> str:
        app, fields = build_app(reports=False, ended=ended), {"idempotency_key": key} if key else {}
        async with run_app(app, build_plain("2025-11-25", **fields)) as answer:
            await answer.read_start()
            assert await answer.read_chunk() is not None
            answer.disconnect()
        if not key:
            return ""
        async with run_app(app, build_plain("2025-11-25", **fields)) as answer:
            return (await answer.read_all()).body.decode()

    again = run_skipping_time(call)
    assert ended == (["worked"] if key else ["cancelled"])
    assert not key or "worked" in again


@pytest.mark.requirement("I-32")
def test_refusal_with_a_status_of_its_own_ends_a_begun_stream_as_an_error() -> None:
    async def call(_: Callable[[], float]) -> tuple[int, list[Any]]:
        async with run_app(build_app(reports=False), build_plain("2026-07-28", "choose")) as answer:
            start = await answer.read_start()
            body = await answer.read_rest()
        return start.status, [json.loads(event.data) for event in Decoder().feed(body)]

    status, (message,) = run_skipping_time(call)
    assert (status, message["id"], message["error"]["code"]) == (200, 1, -32021)


@pytest.mark.requirement("I-32")
def test_long_call_that_a_client_without_tasks_waits_for_keeps_its_connection() -> None:
    async def call(_: Callable[[], float]) -> tuple[bytes, bytes]:
        async with run_app(build_app(reports=False), build_plain("2025-11-25", "build")) as answer:
            await answer.read_start()
            return await answer.read_chunk() or b"", await answer.read_rest()

    comment, rest = run_skipping_time(call)
    assert comment in (b"", COMMENT)
    (event,) = Decoder().feed(comment + rest)
    assert json.loads(event.data)["result"]["content"]
