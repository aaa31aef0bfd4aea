"""A stream over MCP is bounded by the size of one message, not by all that it brings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from toolwire import Kind, Problem, Result, Toolkit, Value, asgi, connect
from toolwire.core.model import Progress
from toolwire.protocols.mcp.post_message import McpClientSession
from toolwire.protocols.mcp.stream_reader import Listener
from toolwire.testing.loopback import background

pytestmark = pytest.mark.requirement("GR-06")

ITEM = "a" * 20_000


def build_kit() -> Toolkit:
    kit = Toolkit("Feed")

    @kit.tool(approval="auto")
    async def read(most: int) -> AsyncIterator[str]:
        """Read."""
        for _ in range(most):
            yield ITEM

    return kit


def call(most: int) -> tuple[Result, int]:
    """Return the result of a call over MCP, and how many items came before it."""

    async def run(url: str) -> tuple[Result, int]:
        heard = 0

        async def notify(_: Progress) -> None:
            nonlocal heard
            heard += 1

        async with connect(url, protocol="mcp", agree=lambda _: True, timeout_s=60) as remote:
            return await remote.call("read", {"most": most}, notify=notify), heard

    with background(asgi(build_kit())) as url:
        return asyncio.run(run(url))


def test_stream_of_more_than_16_mib_brings_its_items_and_its_result() -> None:
    result, received = call(290)  # 5.8 MB as progress, and twice in the answer
    assert result == Value([ITEM] * 290)
    assert received == 290


def test_answer_of_more_than_16_mib_is_refused_after_its_items_and_the_server_is_not_blamed() -> None:
    result, received = call(450)
    assert isinstance(result, Problem)
    assert received == 450
    assert result.kind is Kind.BAD_ANSWER
    assert result.message == (
        "Cannot read the answer: this client accepts at most 16,777,216 bytes in one message of an MCP "
        "stream. The result of a tool that streams repeats all its items there. If the server also "
        "speaks OpenTool, call the tool over OpenTool, which sends each item once."
    )


def write_event(**message: object) -> bytes:
    return b"id: e1\ndata: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"


def test_listener_keeps_the_answer_alone() -> None:
    received = Listener(McpClientSession(endpoint=""), 1)
    message = write_event(method="notifications/progress", params={"progressToken": 1, "progress": 1, "message": ITEM})
    for _ in range(100):
        assert len(list(received.read_piece(message))) == 1
    assert list(received.read_piece(write_event(id=1, result={"content": []}))) == []
    assert received.answered
    assert received.build_body() == b'id: e1\ndata: {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}\n\n'


def test_large_answer_is_kept_unread_and_a_large_item_is_passed_on() -> None:
    received = Listener(McpClientSession(endpoint=""), 1)
    item = "a" * 2_000_000
    message = write_event(method="notifications/progress", params={"progressToken": 1, "message": item})
    assert [one.value["message"] for one in received.read_piece(message) if isinstance(one, Progress)] == [item]
    answer = write_event(id=1, result={"content": [{"type": "text", "text": item}]})
    assert list(received.read_piece(answer)) == []
    assert received.may_have_answer
    assert item.encode() in received.build_body()


def test_answer_without_its_last_empty_line_is_read() -> None:
    received = Listener(McpClientSession(endpoint=""), 1)
    assert list(received.read_piece(write_event(id=1, result={})[:-2])) == []
    assert received.build_body().endswith(b'data: {"jsonrpc": "2.0", "id": 1, "result": {}}\n\n')
