"""The shorter way through an exchange: the same bytes as the messages of ASGI, and only where nothing is between."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn import Server

from toolwire import Toolkit, asgi
from toolwire.core.http import Response
from toolwire.server.app import App
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.http.connection import HttpConnection
from toolwire.server.http.exchange import MessageExchange, get_exchange
from toolwire.server.http.messages import read_body, send_messages, send_response
from toolwire.server.http.process import ServerConfig
from toolwire.server.http.request_cycle import RequestCycle
from toolwire.server.limits import ServerLimits
from toolwire.testing.loopback import background

FIELDS = st.lists(
    st.tuples(
        st.sampled_from([b"content-type", b"X-Other", b"etag", b"connection", b"Content-Length", b"bad name"]),
        st.sampled_from([b"application/json", b"close", b"keep-alive", b"", b"3", b"a\r\nb: c", b"\xff", b"\x00"]),
    ),
    max_size=3,
)
DATE = re.compile(rb"date: [^\r]*GMT")
LAST = b"GET /last HTTP/1.0\r\nhost: x\r\n\r\n"
NOT_OURS = (b"bad name", b"Content-Length")
STATUSES = st.sampled_from([200, 201, 204, 304, 404, 500, 503])
RESPONSES = st.builds(Response, STATUSES, FIELDS, st.one_of(st.binary(max_size=5), st.just(b"large" * 1_000)))


def between(receive: Any, send: Any) -> tuple[Any, Any]:
    """Return what a middleware would put in the place of both."""

    async def hear() -> Any:
        return await receive()

    async def say(message: Any) -> None:
        await send(message)

    return hear, say


class Answering:
    """An app that answers each request with ``response``: directly, or with something between it and the connection."""

    active_calls = 0
    response = Response(200, [], b"")
    seen: bytes | None = None
    direct = False
    whole = False

    def drain(self) -> None: ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            assert message["type"] == "lifespan.shutdown"
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["path"] == "/last":
            await send_response(scope, get_exchange(receive, send), Response(200, [], b"last"))
            return
        if scope["path"] == "/between":
            receive, send = between(receive, send)
        exchange = get_exchange(receive, send)
        self.direct = isinstance(exchange, RequestCycle)
        body = await read_body(exchange, dict(scope["headers"]), ServerLimits(), DeadlineScheduler())
        assert isinstance(body, bytes)
        self.seen = body
        self.whole = exchange.try_send_response(self.response)
        if not self.whole:
            await send_messages(scope, send, self.response)


@pytest.fixture(scope="module")
def app() -> Answering:
    return Answering()


@pytest.fixture(scope="module")
def address(app: Answering) -> Iterator[tuple[str, int]]:
    with background(app) as url:
        parts = urlsplit(url)
        yield str(parts.hostname), int(parts.port or 0)


def exchange_bytes(address: tuple[str, int], request: bytes) -> bytes:
    """Return all that comes until the server closes: after the answer to a last request, if not before."""
    received = b""
    with socket.create_connection(address, timeout=30) as peer:
        peer.sendall(request + LAST)
        while chunk := peer.recv(65_536):
            received += chunk
    return DATE.sub(b"date: today", received)


@given(
    response=RESPONSES,
    method=st.sampled_from([b"POST", b"HEAD"]),
    version=st.sampled_from([b"1.1", b"1.0"]),
    body=st.binary(max_size=5),
)
def test_direct_response_sends_the_same_bytes_as_asgi_messages(
    app: Answering, address: tuple[str, int], response: Response, method: bytes, version: bytes, body: bytes
) -> None:
    app.response = response
    replies = []
    for path, direct in ((b"/", True), (b"/between", False)):
        app.seen = None
        head = b"%b %b HTTP/%b\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (method, path, version, len(body))
        replies.append(exchange_bytes(address, head + body))
        assert app.seen == body
        assert app.direct is direct
    assert replies[0] == replies[1]
    bad = {(name, value) for name, value in response.headers if name in NOT_OURS or value in (b"a\r\nb: c", b"\x00")}
    if not bad:
        assert replies[0].startswith(b"HTTP/1.1 ")
    assert b"\r\nb: c" not in replies[0]


def test_exchange_requires_receive_and_send_of_one_request() -> None:
    one, another = build_cycle(), build_cycle()
    assert get_exchange(one.receive, one.send) is one
    assert isinstance(get_exchange(another.receive, one.send), MessageExchange)
    assert isinstance(get_exchange(*between(one.receive, one.send)), MessageExchange)


@pytest.mark.parametrize("body", [b"{}", b"large" * 1_000])
def test_served_application_uses_the_direct_response(app: Answering, address: tuple[str, int], body: bytes) -> None:
    app.response = Response(200, [(b"content-type", b"application/json")], body)
    reply = exchange_bytes(address, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx")
    assert app.whole
    assert reply.startswith(b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: application/json\r\n")
    assert b"\r\n\r\n" + body + b"HTTP/1.1 " in reply


def test_direct_response_waits_for_a_late_body(app: Answering, address: tuple[str, int]) -> None:
    app.response = Response(200, [], b"ok")
    with socket.create_connection(address, timeout=30) as peer:
        for part in (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n", b"ab", b"cd"):
            peer.sendall(part)
            if part.startswith(b"POST"):
                assert peer.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert peer.recv(1_000).endswith(b"\r\ncontent-length: 2\r\n\r\nok")
    assert app.seen == b"abcd"


def build_cycle(**state: Any) -> RequestCycle:
    """Return the exchange of a connection without a socket, in ``state``."""
    connection: Any = SimpleNamespace(
        transport=None,
        access_log=False,
        flow=SimpleNamespace(read_paused=False, resume_reading=lambda: None),
        server_state=SimpleNamespace(default_headers=[]),
        on_response_complete=lambda: None,
    )
    cycle = RequestCycle(connection, {"headers": (), "http_version": "1.1"}, keep_alive=True)
    vars(cycle).update(state)
    return cycle


def receive_at_once(cycle: RequestCycle) -> Any:
    """Return the message that ``receive`` has for its caller, or None where it waits."""

    async def receive() -> Any:
        task = asyncio.create_task(cycle.receive())
        await asyncio.sleep(0)
        if task.done():
            return task.result()
        task.cancel()
        return None

    return asyncio.run(receive())


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, None),
        ({"body": b"a piece"}, {"type": "http.request", "body": b"a piece", "more_body": True}),
        ({"more_body": False}, {"type": "http.request", "body": b"", "more_body": False}),
        ({"disconnected": True}, {"type": "http.disconnect"}),
        ({"response_complete": True}, {"type": "http.disconnect"}),
    ],
)
def test_received_data_is_returned_at_once(state: dict[str, Any], message: Any) -> None:
    assert receive_at_once(build_cycle(**state)) == message


def test_after_the_whole_body_was_read_receive_waits_for_the_end() -> None:
    cycle = build_cycle(body=b"whole", more_body=False)
    assert cycle.take_body() == b"whole"
    assert receive_at_once(cycle) is None
    cycle.disconnect()
    assert receive_at_once(cycle) == {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("response", "usual"),
    [
        (Response(200, ((b"content-type", b"application/json"),), b"{}"), True),
        (Response(200, (), b"large" * 1_000), True),
        (Response(304, (), b""), False),
        (Response(200, ((b"set-cookie", b"session=secret"),), b"{}"), False),
        (Response(200, ((b"etag", b"a\r\nb: c"),), b"{}"), False),
    ],
)
def test_ordinary_response_is_sent_at_once_and_others_as_messages(response: Response, usual: bool) -> None:
    written: list[bytes] = []
    transport = SimpleNamespace(write=written.append, writelines=lambda parts: written.append(b"".join(parts)))
    connection: Any = SimpleNamespace(
        access_log=False,
        transport=transport,
        flow=SimpleNamespace(write_paused=False),
        server_state=SimpleNamespace(default_headers=[(b"date", b"today")]),
        on_response_complete=lambda: None,
    )
    assert RequestCycle(connection, {"method": "GET"}, keep_alive=True).try_send_response(response) is usual
    assert [data.endswith(b"\r\n\r\n" + response.body) for data in written] == [True] * usual


class Nowhere(asyncio.Transport):
    """A transport that leads nowhere."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 4), "sockname": ("127.0.0.1", 80)}.get(name, default)

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None: ...

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.mark.parametrize("times", [0, 1, 3])
def test_lost_connection_is_freed_without_garbage_collection(app: Answering, times: int) -> None:
    app.response = Response(200, [], b"ok")

    async def lose() -> weakref.ref[HttpConnection]:
        config = ServerConfig(app)
        config.load()
        state = Server(config).server_state
        connection = HttpConnection(config, state, {}, asyncio.get_running_loop())
        connection.connection_made(Nowhere())
        connection.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * times)
        while state.tasks:
            await asyncio.wait(state.tasks)
        connection.connection_lost(None)
        return weakref.ref(connection)

    gc.disable()
    try:
        assert asyncio.run(lose())() is None
    finally:
        gc.enable()


class Stricter(App):
    """An application of somebody who answers before it is asked."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send_messages(scope, send, Response(403, [], b"no"))
        else:
            await super().__call__(scope, receive, send)


class Around:
    """A middleware that has all attributes of what it is around."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send_messages(scope, send, Response(403, [], b"no"))
        else:
            await self._app(scope, receive, send)


@pytest.mark.parametrize("around", [False, True])
def test_middleware_around_an_application_is_not_bypassed(around: bool) -> None:
    app = asgi(Toolkit("Kit"))
    if not around:
        app.__class__ = Stricter
    with background(Around(app) if around else app) as url:
        parts = urlsplit(url)
        reply = exchange_bytes((str(parts.hostname), int(parts.port or 0)), b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
    assert reply.count(b"HTTP/1.1 403 ") == 2
