"""Looking up the addresses of a name, with an end to the wait."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import TypeAlias

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""Takes a host name and a port and returns addresses, best first. It may block, and raise OSError or UnicodeError."""


def resolve_with_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses that this machine's own resolver has for ``host``, each once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def resolve_in_thread(resolve: Resolve, host: str, port: int) -> Future[Sequence[str]]:
    """Return the answer of ``resolve`` as a future.

    The system's resolver cannot be interrupted. It gets a thread of its own, so that a name nobody answers for
    keeps neither an event loop nor the end of the program waiting.
    """
    future: Future[Sequence[str]] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(resolve(host, port))
        except Exception as error:  # noqa: BLE001 - it is raised again where the future is waited for
            future.set_exception(error)

    Thread(target=work, name="toolwire-lookup", daemon=True).start()
    return future
