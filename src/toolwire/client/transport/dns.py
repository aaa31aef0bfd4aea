"""Resolve host names without blocking an event loop or the end of the program."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import TypeAlias

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""Takes a host name and a port and returns addresses, best first. It may block, and raise OSError or UnicodeError."""


def resolve_with_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses of ``host`` from the resolver of this machine, without duplicates."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in entries))


def resolve_in_thread(resolve: Resolve, host: str, port: int) -> Future[Sequence[str]]:
    """Start ``resolve`` in a thread of its own, and return a future of its addresses."""
    # The system's resolver cannot be interrupted. A daemon thread lets the caller and the program go on without it.
    future: Future[Sequence[str]] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(resolve(host, port))
        except Exception as error:  # noqa: BLE001 - it is raised again where the future is waited for
            future.set_exception(error)

    Thread(target=work, name="toolwire-lookup", daemon=True).start()
    return future
