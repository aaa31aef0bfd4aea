"""Serve an application on a free loopback port, in a thread of this process, for tests and examples."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from toolwire.server.http.deadlines import DEADLINES, Deadlines
from toolwire.server.http.graceful_shutdown import StoppableApp
from toolwire.server.http.process import HOST, ServerConfig, build_url, open_listener
from toolwire.server.http.prompt_server import PromptServer

_STOP_S = 10.0

Asgi: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application of any framework."""


class PlainApp:
    """Adapt an ASGI application of any framework to the interface of an application that can be stopped."""

    active_calls = 0

    def __init__(self, app: Asgi) -> None:
        self._app = app

    def drain(self) -> None:
        """Do nothing: the server itself waits for running requests."""

    def __call__(self, scope: Any, receive: Any, send: Any, /) -> Awaitable[None]:
        """Answer one request."""
        return self._app(scope, receive, send)


def _make_stoppable(app: Any) -> StoppableApp:
    return app if hasattr(app, "drain") else PlainApp(app)


@contextmanager
def background(
    app: StoppableApp | Asgi, *, deadlines: Deadlines = DEADLINES, trusted_proxies: Sequence[str] = ()
) -> Generator[str, None, None]:
    """Serve ``app`` as ``toolwire serve`` does, and yield its base URL. The server stops when the block ends.

    ``trusted_proxies`` are the addresses of proxies whose header fields identify the client.

    Raises:
        RuntimeError: the server failed, or did not stop within 10 seconds.
    """
    server = PromptServer(ServerConfig(_make_stoppable(app), deadlines=deadlines, trusted_proxies=trusted_proxies))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.run(sockets=[listener])
        except BaseException as failure:  # noqa: BLE001 - it is raised again when the block ends
            failures.append(failure)
        finally:
            listener.close()  # later clients are refused at once and do not wait for a timeout

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
        raise RuntimeError("the loopback server failed") from failures[0]
    if thread.is_alive():
        raise RuntimeError(f"the loopback server did not stop within {_STOP_S:g} seconds")
