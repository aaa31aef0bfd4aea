"""ASGI messages through our own connection: what an application sends arrives framed, or a failure is answered."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolwire.testing.loopback import background

HANG_S = 30.0
PARTS = [(b"one", True), (b"", True), (b"two", True), (b"", False)]
CHUNKED = b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
FAILURE = b'{"error":"internal","message":"The server failed. See its log."}'

Story = Callable[[Any, Any], Awaitable[object]]


class Told:
    """An application that answers each request by ``story``."""

    active_calls = 0

    def __init__(self) -> None:
        self.story: Story = lambda _receive, _send: asyncio.sleep(0)

    def drain(self) -> None: ...

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        await self.story(receive, send)


@pytest.fixture(scope="module")
def app() -> Told:
    return Told()


@pytest.fixture(scope="module")
def address(app: Told) -> Iterator[tuple[str, int]]:
    with background(app) as url:
        parts = urlsplit(url)
        yield str(parts.hostname), int(parts.port or 0)


def exchange(address: tuple[str, int], request: bytes) -> tuple[bytes, bytes]:
    """Return the head, in lower case and without the date, and the body of all that comes until the server closes."""
    received = b""
    with socket.create_connection(address, timeout=HANG_S) as peer:
        peer.sendall(request)
        while piece := peer.recv(65_536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return b"\r\n".join(line for line in head.lower().split(b"\r\n") if not line.startswith(b"date: ")), body


def request(method: bytes = b"GET", version: bytes = b"1.1", fields: bytes = b"connection: close\r\n") -> bytes:
    return b"%b / HTTP/%b\r\nhost: x\r\n%b\r\n" % (method, version, fields)


def build_story(status: int, headers: list[tuple[bytes, bytes]], parts: list[tuple[bytes, bool]]) -> Story:
    async def story(_receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for body, more in parts:
            await send({"type": "http.response.body", "body": body, "more_body": more})

    return story


@pytest.mark.parametrize(
    ("status", "headers", "asked", "expected"),
    [
        (
            200,
            [],
            request(),
            (b"http/1.1 200 ok\r\nconnection: close\r\ntransfer-encoding: chunked", CHUNKED),
        ),
        (
            200,
            [(b"Transfer-Encoding", b"chunked"), (b"content-length", b"6")],
            request(),
            (b"http/1.1 200 ok\r\ntransfer-encoding: chunked\r\ncontent-length: 6\r\nconnection: close", CHUNKED),
        ),
        (
            299,
            [(b"content-length", b"6"), (b"Connection", b"Keep-Alive, Close")],
            request(fields=b""),
            (b"http/1.1 299 \r\ncontent-length: 6\r\nconnection: keep-alive, close", b"onetwo"),
        ),
        (200, [], request(version=b"1.0"), (b"http/1.1 200 ok\r\nconnection: close", b"onetwo")),
        (200, [], request(b"HEAD"), (b"http/1.1 200 ok\r\nconnection: close", b"")),
        (
            200,
            [(b"content-length", b"7")],
            request(b"HEAD"),
            (b"http/1.1 200 ok\r\ncontent-length: 7\r\nconnection: close", b""),
        ),
    ],
)
def test_a_response_in_parts_arrives_framed(
    app: Told,
    address: tuple[str, int],
    status: int,
    headers: list[tuple[bytes, bytes]],
    asked: bytes,
    expected: tuple[bytes, bytes],
) -> None:
    app.story = build_story(status, headers, PARTS)
    assert exchange(address, asked) == expected


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_no_framing(app: Told, address: tuple[str, int], status: int) -> None:
    app.story = build_story(status, [], [(b"", False)])
    head, body = exchange(address, request())
    assert head.endswith(b"\r\nconnection: close")
    assert head.count(b"\r\n") == 1
    assert body == b""


async def raises(_receive: Any, _send: Any) -> None:
    raise ValueError("a bug of the application")


async def returns(_receive: Any, _send: Any) -> None: ...


async def exits(_receive: Any, _send: Any) -> None:
    raise SystemExit(3)


async def sends_a_body_first(_receive: Any, send: Any) -> None:
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    "story",
    [
        raises,
        returns,
        exits,
        sends_a_body_first,
        build_story(200, [(b"etag", b"a\r\nb: c")], PARTS),
        build_story(200, [(b"bad name", b"a")], PARTS),
        build_story(200, [(b"content-length", b"some")], PARTS),
    ],
)
def test_a_failure_before_the_response_is_answered_in_json_and_logged(
    app: Told, address: tuple[str, int], story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    app.story = story
    with caplog.at_level(logging.ERROR, "toolwire.server"):
        head, body = exchange(address, request(fields=b""))
    assert head.startswith(b"http/1.1 500 internal server error\r\ncontent-type: application/json\r\n")
    assert head.endswith(b"connection: close")
    assert body == FAILURE
    assert [each.message for each in caplog.records] == ["The application failed to answer a request."]


@pytest.mark.parametrize(
    ("headers", "parts", "body"),
    [
        ([(b"content-length", b"2")], [(b"one", False)], b""),
        ([(b"content-length", b"4")], [(b"one", False)], b"one"),
        ([(b"content-length", b"3")], [(b"one", False), (b"two", False)], b"one"),
        ([(b"content-length", b"4")], [(b"one", True)], b"one"),
        ([], [(b"one", True)], b"3\r\none\r\n"),
    ],
)
def test_a_failure_within_the_response_closes_the_connection(
    app: Told,
    address: tuple[str, int],
    headers: list[tuple[bytes, bytes]],
    parts: list[tuple[bytes, bool]],
    body: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app.story = build_story(200, headers, parts)
    with caplog.at_level(logging.ERROR, "toolwire.server"):
        assert exchange(address, request(fields=b""))[1] == body
    assert caplog.records


@pytest.mark.parametrize(
    ("version", "expect", "told"),
    [
        (b"1.1", b"100-Continue", True),
        (b"1.1", b"200-ok", False),
        (b"1.0", b"100-continue", False),
    ],
)
def test_expect_100_continue_is_answered_when_the_body_is_requested(
    app: Told, address: tuple[str, int], version: bytes, expect: bytes, told: bool
) -> None:
    async def story(receive: Any, send: Any) -> None:
        message = await receive()
        await build_story(200, [], [(message["body"], False)])(receive, send)

    app.story = story
    fields = b"connection: close\r\ncontent-length: 4\r\nexpect: %b\r\n" % expect
    with socket.create_connection(address, timeout=HANG_S) as peer:
        peer.sendall(request(b"POST", version, fields))
        if told:
            assert peer.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.sendall(b"body")
        received = b""
        while piece := peer.recv(65_536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"body" in received


def test_receive_reports_disconnect_after_the_response(app: Told, address: tuple[str, int]) -> None:
    messages: list[Any] = []

    async def story(receive: Any, send: Any) -> None:
        messages.append(await receive())
        await build_story(200, [(b"content-length", b"0")], [(b"", False)])(receive, send)
        messages.append(await receive())

    app.story = story
    exchange(address, request())
    assert [each["type"] for each in messages] == ["http.request", "http.disconnect"]


def test_message_sent_after_a_disconnect_is_dropped(app: Told, address: tuple[str, int]) -> None:
    steps: list[str] = []
    received, ended = threading.Event(), threading.Event()

    async def story(receive: Any, send: Any) -> None:
        await receive()
        received.set()
        steps.append((await receive())["type"])
        await build_story(200, [], PARTS)(receive, send)
        steps.append("sent")
        ended.set()

    app.story = story
    with closing(socket.create_connection(address, timeout=HANG_S)) as peer:
        peer.sendall(request())
        assert received.wait(HANG_S)
    assert ended.wait(HANG_S)
    assert steps == ["http.disconnect", "sent"]
