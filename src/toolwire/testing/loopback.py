"""A server on a free loopback port, in a thread of this process: for tests and demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from uvicorn import Server

from toolwire.server.http.deadlines import DEADLINES, Deadlines
from toolwire.server.http.graceful_shutdown import StoppableApp
from toolwire.server.http.process import HOST, ServerConfig, build_url, open_listener

_STOP_S = 10.0

Asgi: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application of any framework."""


class PlainApp:
    """An ASGI application of any framework as something that can be asked to stop: it needs no asking."""

    active_calls = 0

    def __init__(self, app: Asgi) -> None:
        self._app = app

    def drain(self) -> None:
        """Do nothing: the server lets what runs come to its end."""

    def __call__(self, scope: Any, receive: Any, send: Any, /) -> Awaitable[None]:
        """Answer one request."""
        return self._app(scope, receive, send)


def _make_stoppable(app: Any) -> StoppableApp:
    return app if hasattr(app, "drain") else PlainApp(app)


@contextmanager
def background(app: StoppableApp | Asgi, *, deadlines: Deadlines = DEADLINES) -> Generator[str, None, None]:
    """Give the base URL of ``app``, served as ``toolwire serve`` would, until the block ends.

    Raises:
        RuntimeError: at the end, when the server failed or a call would not stop.
    """
    server = Server(ServerConfig(_make_stoppable(app), deadlines=deadlines))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.run(sockets=[listener])
        except BaseException as failure:  # noqa: BLE001 - it is raised again where the block ends
            failures.append(failure)
        finally:
            listener.close()  # whoever still calls is refused rather than kept waiting

    with open_listener(HOST, 0) as listener:
        base = build_url(HOST, listener)
        thread = threading.Thread(target=run, name="toolwire-loopback", daemon=True)
        thread.start()
        try:
            yield base
        finally:
            server.should_exit = True
            thread.join(_STOP_S)
    if failures:
        raise RuntimeError("the server on loopback failed") from failures[0]
    if thread.is_alive():
        raise RuntimeError(f"the server on loopback did not stop within {_STOP_S:g} seconds")
