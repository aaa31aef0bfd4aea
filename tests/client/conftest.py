"""Doors to test, async and sync alike, and a server on loopback that answers whatever bytes a test likes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem

PATIENCE_S = 10.0


@dataclass
class Seen:
    """One request as it came over the wire."""

    line: str
    fields: list[tuple[str, str]]
    body: bytes = b""

    @property
    def headers(self) -> dict[str, str]:
        """The header fields by name in lower case; of several the last."""
        return dict(self.fields)


Answer = Callable[[Seen], Iterable[bytes | None]]
"""Gives the pieces to send; None waits for the client to leave, while the server is still at work."""


@dataclass
class Listener:
    """A server that records: connections, first bytes, whole requests, clients that leave. Ends when the test does."""

    answer: Answer
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    connections: int = 0
    requests: list[Seen] = field(default_factory=list)
    first_bytes: list[bytes] = field(default_factory=list)
    sent_bytes: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)
    deserted: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._socket = socket.create_server((self.host, 0))
        self.port: int = self._socket.getsockname()[1]
        self.origin = f"http://{self.host}:{self.port}"
        self._start(self._accept)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.settimeout(PATIENCE_S)
            self._open.append(connection)
            self._start(self._serve, connection)

    def _serve(self, plain: socket.socket) -> None:
        with (
            suppress(OSError),
            plain if self.tls is None else self.tls.wrap_socket(plain, server_side=True) as connection,
        ):
            while (seen := self._read(connection)) is not None:
                self.requests.append(seen)
                for piece in self.answer(seen):
                    if piece is None:
                        self._await_end(connection)
                        return
                    connection.sendall(piece)
                    self.sent_bytes += len(piece)
        self.hung_up.set()

    def _await_end(self, connection: socket.socket) -> None:
        """Note that the client left before its answer was complete."""
        try:
            ended = not connection.recv(1)
        except ConnectionError:
            ended = True
        if ended:
            self.deserted.set()

    def _read(self, connection: socket.socket) -> Seen | None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                self.first_bytes.append(data)
                return None
            data += more
            if data[:1] == b"\x16":  # a TLS client: what it says first is all there is to see
                self.first_bytes.append(data)
                return None
        head, _, body = data.partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        pairs = (field.partition(":") for field in rest)
        seen = Seen(line, [(name.lower(), value.strip()) for name, _, value in pairs])
        while len(body) < int(seen.headers.get("content-length", 0)):
            body += connection.recv(65536)
        seen.body = body
        return seen


def write_response(body: bytes = b"{}", *fields: str, status: str = "200 OK") -> bytes:
    """Return a whole response with ``body`` and ``fields`` such as ``"etag: 1"``."""
    head = "\r\n".join((f"HTTP/1.1 {status}", f"content-length: {len(body)}", *fields))
    return head.encode() + b"\r\n\r\n" + body


FINE = write_response()


@pytest.fixture
def encode_response() -> Callable[..., bytes]:
    """Write whole responses."""
    return write_response


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    """Start a listener that gives each request the answer: bytes, or a function of the request that gives pieces.

    An answer that raises an OSError hangs up.
    """
    with ExitStack() as ending:

        def start(answer: bytes | Answer = FINE, **options: Any) -> Listener:
            listener = Listener((lambda _: [answer]) if isinstance(answer, bytes) else answer, **options)
            ending.callback(listener.close)
            return listener

        yield start


@dataclass
class FakeTransport:
    """One transport with one way to use it, whether it is async inside or not."""

    send: Callable[..., Response | Problem]
    network: Network | SyncNetwork


OpenDoor = Callable[..., FakeTransport]


@pytest.fixture(params=["asyncio", "uvloop", "sync"])
def open_network(request: pytest.FixtureRequest) -> Iterator[OpenDoor]:
    """Make doors of each kind."""
    with ExitStack() as ending:

        def make(**options: Any) -> FakeTransport:
            if request.param == "sync":
                sync = SyncNetwork(**options)
                ending.callback(sync.close)
                return FakeTransport(sync.send, sync)
            factory = uvloop.new_event_loop if request.param == "uvloop" else None
            runner = ending.enter_context(asyncio.Runner(loop_factory=factory))
            network = Network(**options)
            ending.callback(lambda: runner.run(network.aclose()))

            def send(wanted: Request, **more: Any) -> Response | Problem:
                return runner.run(network.send(wanted, **more))

            return FakeTransport(send, network)

        yield make
