"""A server that another thread stops ends as gracefully as one of uvicorn."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from uvicorn import Config

from tests.support.waiting import wait_until_async
from toolwire.server.http.prompt_server import PromptServer

HANG_S = 30.0


class Slow:
    """An application whose answer ends when a test lets it, and which notes how it ended."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.notes: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.notes.append("application ended")
            await send({"type": "lifespan.shutdown.complete"})
            return
        try:
            self.has_begun.set()
            await wait_until_async(self.may_end.is_set)
        except asyncio.CancelledError:
            self.notes.append("request cancelled")
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})
        self.notes.append("request answered")


@contextmanager
def run(app: Slow, **options: Any) -> Iterator[tuple[PromptServer, socket.socket, threading.Thread]]:
    """Run a server with one request that it answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = PromptServer(Config(app, lifespan="on", log_config=None, log_level="critical", **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    with socket.create_connection(listener.getsockname(), timeout=HANG_S) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert app.has_begun.wait(HANG_S)
        yield server, peer, thread
    thread.join(HANG_S)
    assert not thread.is_alive()


def is_listening(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=HANG_S).close()
    except ConnectionError:
        return False
    return True


def read_to_end(peer: socket.socket) -> bytes:
    return b"".join(iter(lambda: peer.recv(65_536), b""))


def test_stopped_server_answers_its_last_request_and_ends_its_application() -> None:
    app = Slow()
    with run(app) as (server, peer, thread):
        server.should_exit = True
        while is_listening(peer.getpeername()):
            assert thread.is_alive()
        app.may_end.set()
        assert read_to_end(peer).endswith(b"\r\n\r\ndone")
    assert app.notes == ["request answered", "application ended"]


def test_request_that_does_not_end_is_cancelled_when_the_time_for_it_is_over() -> None:
    app = Slow()
    with run(app, timeout_graceful_shutdown=1) as (server, _, thread):
        server.should_exit = True
        thread.join(HANG_S)
        assert not thread.is_alive()
    assert set(app.notes) == {"request cancelled", "application ended"}


def test_server_that_is_stopped_twice_or_before_it_runs_ends() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    app = Slow()
    server = PromptServer(Config(app, lifespan="on", log_config=None))
    server.should_exit = True
    server.run(sockets=[listener])
    server.should_exit = True
    assert app.notes == ["application ended"]
