"""A forward proxy on loopback that connects every name to this machine, and records what it is asked."""

from __future__ import annotations

import base64
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

PATIENCE_S = 10.0


@dataclass
class ForwardProxy:
    """``heads`` are the requests as the proxy got them. It refuses with another ``status``, or answers ``raw``."""

    login: str = ""
    status: int = 200
    raw: bytes | None = None
    heads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.place = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def lines(self) -> list[str]:
        """The first lines of the requests."""
        return [head.partition("\r\n")[0] for head in self.heads]

    def close(self) -> None:
        """Close all connections."""
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with ExitStack() as ending:
            ending.enter_context(suppress(OSError))
            ending.callback(client.close)
            data = b""
            while b"\r\n\r\n" not in data:
                if not (more := client.recv(65536)):
                    return
                data += more
            head, _, rest = data.partition(b"\r\n\r\n")
            self.heads.append(head.decode("latin-1"))
            if self.raw is not None:
                client.sendall(self.raw)
                return
            expected = "proxy-authorization: Basic " + base64.b64encode(self.login.encode()).decode()
            status = 407 if self.login and expected not in self.heads[-1].split("\r\n") else self.status
            if status != 200:
                client.sendall(f"HTTP/1.1 {status} No {self.login}\r\ncontent-length: 0\r\n\r\n".encode())
                return
            found = re.match(rb"(?:CONNECT |\w+ http://)[^ /]+:(\d+)", head)
            assert found is not None, head
            server = ending.enter_context(socket.create_connection(("127.0.0.1", int(found[1])), PATIENCE_S))
            self._open.append(server)
            server.settimeout(None)
            if head.startswith(b"CONNECT"):
                client.sendall(b"HTTP/1.1 200 Connection established\r\nx-proxy: 1\r\n\r\n")
            else:
                line, *fields = head.split(b"\r\n")
                line = re.sub(rb"http://[^/]+", b"", line)
                fields = [one for one in fields if not one.lower().startswith(b"proxy-")]
                server.sendall(b"\r\n".join([line, *fields]) + b"\r\n\r\n" + rest)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join(PATIENCE_S)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def run_forward_proxy(login: str = "", status: int = 200, raw: bytes | None = None) -> Iterator[ForwardProxy]:
    """Run a proxy that wants the ``login`` (user:password) if there is one."""
    proxy = ForwardProxy(login, status, raw)
    try:
        yield proxy
    finally:
        proxy.close()
