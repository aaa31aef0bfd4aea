"""A client that leaves before the answer: its call is cancelled on every wire, unless the call is recorded."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.waiting import wait_until_async
from toolwire import Context, Toolkit, asgi
from toolwire.testing.loopback import background

from .calls import CALLS
from .peer import message

HANG_S = 20.0


class Record:
    """What became of the calls."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.cancelled = threading.Event()
        self.finished = threading.Event()
        self.go_on = threading.Event()


def tools(record: Record) -> Toolkit:
    kit = Toolkit("Work", version="1.0.0")

    @kit.tool(approval="auto", safe=True)
    async def wait() -> str:
        record.begun.set()
        try:
            await wait_until_async(record.go_on.is_set)
        except asyncio.CancelledError:
            record.cancelled.set()
            raise
        record.finished.set()
        return "done"

    @kit.tool(approval="auto", safe=True)
    def hold(context: Context) -> str:
        record.begun.set()
        while not record.go_on.wait(0.001):
            if context.is_cancelled:
                record.cancelled.set()
                return "dropped"
        record.finished.set()
        return "done"

    @kit.tool(approval="auto")
    async def count():  # type: ignore[no-untyped-def]  # what it yields is found out by running it
        record.begun.set()
        try:
            yield 1
            await wait_until_async(record.go_on.is_set)
        except (asyncio.CancelledError, GeneratorExit):
            record.cancelled.set()
            raise
        record.finished.set()

    return kit


def between(app: Any) -> Any:
    """Return ``app`` behind a middleware, so that only the messages of ASGI reach it."""

    async def middleware(scope: Any, receive: Any, send: Any) -> None:
        async def hear() -> Any:
            return await receive()

        await app(scope, hear, send)

    middleware.active_calls = 0  # type: ignore[attr-defined]
    middleware.drain = lambda: None  # type: ignore[attr-defined]
    return middleware


@pytest.fixture(params=["direct", "behind a middleware"])
def served_record(request: pytest.FixtureRequest) -> Iterator[tuple[Record, Callable[[], socket.socket]]]:
    record = Record()
    app: Any = asgi(tools(record))
    with background(app if request.param == "direct" else between(app)) as url:
        parts = urlsplit(url)
        yield record, lambda: socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=HANG_S)
        record.go_on.set()


@pytest.mark.requirement("D-34", "MC-05", "I-03")
@pytest.mark.parametrize("tool", ["wait", "hold"])
@pytest.mark.parametrize("wire", CALLS)
def test_disconnected_client_cancels_its_call(
    served_record: tuple[Record, Callable[[], socket.socket]], wire: str, tool: str
) -> None:
    record, dial = served_record
    with closing(dial()) as peer:
        peer.sendall(CALLS[wire](tool, {}))
        assert record.begun.wait(HANG_S)
    assert record.cancelled.wait(HANG_S)
    assert not record.finished.is_set()


def until_noticed(dial: Callable[[], socket.socket]) -> None:
    """Ask so often for something else that a connection that was closed before has long been noticed."""
    with closing(dial()) as other:
        for _ in range(300):
            other.sendall(message("GET", "/health"))
            answer = b""
            while not answer.endswith(b"}"):  # the head and the body may arrive one by one
                piece = other.recv(10_000)
                assert piece, answer
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200")


def stateless(tool: str) -> bytes:
    """Return a call in MCP 2026-07-28, whose text says that a disconnection is a cancellation."""
    about = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    about |= {"io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"}}  # type: ignore[dict-item]
    about |= {"io.modelcontextprotocol/clientCapabilities": {}}  # type: ignore[dict-item]
    params = {"name": tool, "arguments": {}, "_meta": about}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    fields = (
        b"accept: application/json, text/event-stream",
        b"mcp-protocol-version: 2026-07-28",
        b"mcp-method: tools/call",
        b"mcp-name: " + tool.encode(),
    )
    return message("POST", "/mcp", json.dumps(body).encode(), *fields)


@pytest.mark.requirement("MC-05", "MC-06", "I-03")
def test_disconnected_stateless_mcp_client_cancels_its_call(
    served_record: tuple[Record, Callable[[], socket.socket]],
) -> None:
    record, dial = served_record
    with closing(dial()) as peer:
        peer.sendall(stateless("wait"))
        assert record.begun.wait(HANG_S)
    assert record.cancelled.wait(HANG_S)


STREAM = json.dumps({"jsonrpc": "2.0", "id": "1", "method": "count", "params": {}}).encode()
KEY = b"idempotency-key: a-key-of-the-test"


@pytest.mark.parametrize("keyed", [False, True])
def test_disconnected_stream_is_cancelled_unless_recorded(
    served_record: tuple[Record, Callable[[], socket.socket]], keyed: bool
) -> None:
    record, dial = served_record
    fields = (KEY,) if keyed else ()
    with closing(dial()) as peer:
        peer.sendall(message("POST", "/opentool/streamCall", STREAM, *fields))
        assert peer.recv(1_000).startswith(b"HTTP/1.1 200")
    if not keyed:
        assert record.cancelled.wait(HANG_S)
        return
    until_noticed(dial)
    record.go_on.set()
    assert record.finished.wait(HANG_S)
    assert not record.cancelled.is_set()


@pytest.mark.requirement("A-42", "I-03")
@pytest.mark.parametrize("tool", ["wait", "hold"])
def test_recorded_call_continues_after_a_disconnect_and_is_replayed(
    served_record: tuple[Record, Callable[[], socket.socket]], tool: str
) -> None:
    record, dial = served_record
    body = json.dumps({"jsonrpc": "2.0", "id": "1", "method": tool, "params": {}}).encode()
    call = message("POST", "/opentool/call", body, KEY)
    with closing(dial()) as peer:
        peer.sendall(call)
        assert record.begun.wait(HANG_S)
    until_noticed(dial)
    record.go_on.set()
    assert record.finished.wait(HANG_S)
    assert not record.cancelled.is_set()
    with closing(dial()) as again:
        again.sendall(call)
        assert b'"done"' in again.recv(10_000)
