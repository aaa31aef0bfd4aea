"""A client that reads a stream slowly: the tool waits for it, so that nothing piles up in the memory of the server."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolwire import Toolkit, asgi
from toolwire.testing.loopback import background

from .peer import message

HANG_S = 20.0
PIECE = "x" * 65_536
PIECES = 600
FIELDS = (b"accept: application/json, text/event-stream",)


def build_call(wire: str) -> bytes:
    """Return the request of a call of ``count`` whose client wants to hear each piece."""
    asked: dict[str, Any] = {"name": "count", "arguments": {}, "_meta": {"progressToken": "t"}}
    if wire == "opentool":
        body = {"jsonrpc": "2.0", "id": "1", "method": "count", "params": {}}
        return message("POST", "/opentool/streamCall", json.dumps(body).encode())
    fields = [*FIELDS, b"mcp-protocol-version: " + wire.encode()]
    if wire == "2026-07-28":
        about = {"protocolVersion": wire, "clientInfo": {"name": "x", "version": "1"}, "clientCapabilities": {}}
        asked["_meta"] |= {f"io.modelcontextprotocol/{name}": value for name, value in about.items()}
        fields += [b"mcp-method: tools/call", b"mcp-name: count"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    return message("POST", "/mcp", json.dumps(body).encode(), *fields)


@pytest.mark.requirement("MC-05", "D-34")
@pytest.mark.parametrize("wire", ["2025-11-25", "2026-07-28", "opentool"])
def test_tool_produces_no_more_items_than_its_client_reads(wire: str) -> None:
    made: list[int] = []
    kit = Toolkit("Work", version="1.0.0")

    @kit.tool(approval="auto", safe=True)
    async def count() -> AsyncIterator[str]:
        for number in range(PIECES):
            made.append(number)
            yield PIECE
        made.append(-1)

    with background(asgi(kit)) as url:
        parts = urlsplit(url)
        address = str(parts.hostname), int(parts.port or 0)
        with closing(socket.socket()) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            peer.settimeout(HANG_S)
            peer.connect(address)
            peer.sendall(build_call(wire))
            assert peer.recv(1).startswith(b"H")
            held = -1
            while held != len(made):  # until as many requests were answered as take far longer than a piece
                held = len(made)
                ask_for_health(address, times=100)
            assert 0 < held < PIECES / 4, "the pieces pile up in the server"
            while -1 not in made:
                assert peer.recv(1_000_000)
    assert made == [*range(PIECES), -1]


def ask_for_health(address: tuple[str, int], *, times: int) -> None:
    with closing(socket.create_connection(address, HANG_S)) as other:
        for _ in range(times):
            other.sendall(message("GET", "/health"))
            answer = b""
            while not answer.endswith(b"}"):
                answer += other.recv(10_000)
