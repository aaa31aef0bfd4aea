"""Requests that one connection sends without waiting: answered in order, and few of them kept at a time."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn import Server

from toolwire.server.http.connection import HttpConnection
from toolwire.server.http.process import ServerConfig
from toolwire.testing.loopback import background

from .echo import Echo

HANG_S = 30.0
MANY = 7_200
SMALL = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
MAX_STORED = 150
"""The limit of 16, and what one small piece may hold besides."""

MAX_READ = 17 * len(SMALL)
"""One that is answered and 16 that wait, where they arrive one by one."""


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with background(Echo()) as url:
        parts = urlsplit(url)
        yield str(parts.hostname), int(parts.port or 0)


class Counted(asyncio.Transport):
    """A transport that leads nowhere; it knows whether it may be read, and counts answers."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.answers = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 4), "sockname": ("127.0.0.1", 80)}.get(name, default)

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.answers += bytes(data).count(b"HTTP/1.1 200")

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None: ...


class Held(Echo):
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.asked = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        await self.free.wait()
        await super().__call__(scope, receive, send)


@pytest.mark.requirement("R10", "D-34", "AT-12")
@pytest.mark.parametrize("chunk", [len(SMALL), 1_000, 100_000])
def test_pipelined_requests_are_buffered_up_to_a_limit(chunk: int) -> None:
    async def story() -> None:
        app, transport = Held(), Counted()
        config = ServerConfig(app)
        config.load()
        connection = HttpConnection(config, Server(config).server_state, {}, asyncio.get_running_loop())
        connection.connection_made(transport)
        rest, received = SMALL * MANY, 0

        def arrive() -> int:
            """Let arrive what a socket would bring as long as it is read; return how many bytes that were."""
            nonlocal rest
            arrived = 0
            while rest and transport.reading:
                connection.data_received(rest[:chunk])
                arrived += len(rest[:chunk])
                rest = rest[chunk:]
                assert len(connection.pipeline) <= MAX_STORED
            return arrived

        received += arrive()
        assert received <= max(MAX_READ, chunk)
        await asyncio.sleep(0)
        assert (app.asked, transport.answers) == (1, 0)
        app.free.set()
        while transport.answers < MANY:
            await asyncio.sleep(0)
            assert arrive() <= max(MAX_READ, chunk)
        assert not connection.pipeline
        connection.connection_lost(None)

    async def within() -> None:
        async with asyncio.timeout(HANG_S):
            await story()

    asyncio.run(within())


REQUEST = st.one_of(
    st.just(SMALL),
    st.builds(
        lambda body: b"POST /b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body),
        st.integers(0, 9_000).map(lambda size: b"x" * size),
    ),
    st.builds(
        lambda pieces: (
            b"POST /c HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            + b"0\r\n\r\n"
        ),
        st.lists(st.integers(1, 3_000).map(lambda size: b"y" * size), max_size=4),
    ),
)


def all_of(address: tuple[str, int], sent: bytes) -> list[dict[str, str]]:
    """Return what every answer says, in order."""
    received = b""
    with closing(socket.create_connection(address, timeout=HANG_S)) as peer:
        peer.sendall(sent)
        while piece := peer.recv(1 << 20):
            received += piece
    replies = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        replies.append(json.loads(received[:length]))
        received = received[length:]
    return replies


@settings(max_examples=40)
@given(st.lists(REQUEST, max_size=60))
def test_pipelined_requests_with_bodies_are_answered_in_order(address: tuple[str, int], requests: list[bytes]) -> None:
    text = all_of(address, b"".join(requests) + LAST)
    assert [each["path"] for each in text] == [*(each.split()[1].decode() for each in requests), "/last"]
    sizes = [each.count(b"x", each.index(b"\r\n\r\n")) + each.count(b"y") for each in requests]
    assert [len(each["body"]) for each in text[:-1]] == sizes


def test_more_requests_than_one_read_holds_are_all_answered(address: tuple[str, int]) -> None:
    sent = b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(3_000))
    assert [each["path"] for each in all_of(address, sent + LAST)] == [
        *(f"/{number}" for number in range(3_000)),
        "/last",
    ]


@pytest.mark.parametrize("cut", [1, 100, 3_000])
def test_incomplete_request_after_pipelined_ones_is_awaited(address: tuple[str, int], cut: int) -> None:
    sent = SMALL * 500 + LAST
    with closing(socket.create_connection(address, timeout=HANG_S)) as peer:
        peer.sendall(sent[:-cut])
        received = peer.recv(1 << 20)
        peer.sendall(sent[-cut:])
        while piece := peer.recv(1 << 20):
            received += piece
    assert received.count(b"HTTP/1.1 200") == 501
