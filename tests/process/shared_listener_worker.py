"""A worker that answers each connection with its process id: an echo server on a socket that others share."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any

import uvloop

from toolwire.server.http.shared_listener import SharedListener, WorkerLoad

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Naming(asyncio.Protocol):
    """Writes the process id, and closes when the client does."""

    on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # sockets have no other
        transport.write(b"%d\n" % os.getpid())

    def connection_lost(self, exc: Exception | None) -> None:
        assert self.on_lost is not None
        self.on_lost()


def work(loop_name: str, listener: socket.socket, load: WorkerLoad, files: tuple[str, str] | None, ready: Any) -> None:
    """Accept connections until the process is ended; set ``ready`` once it does."""
    tls = None
    if files is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*files)
    loop = LOOPS[loop_name]()
    SharedListener(loop, Naming, listener, load, tls)
    loop.call_soon(ready.set)
    loop.run_forever()
