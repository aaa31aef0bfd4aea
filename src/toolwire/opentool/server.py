"""Serve one tool by the name that the OpenTool SDKs use: its address and its keys."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any

from toolwire.core.errors import ToolwireError
from toolwire.server import App, ServerLimits
from toolwire.server.http.deadlines import DEADLINES, Deadlines
from toolwire.server.http.lifespan import end_lifespan
from toolwire.server.http.process import HOST, PORT, ServerConfig, build_url, open_listener
from toolwire.server.http.prompt_server import PromptServer
from toolwire.server.options import ServerOptions

from .description import Given
from .serve_object import build_app, build_toolbox

_STOP_S = 10.0
_POLL_INTERVAL_S = 0.02


class OpenToolServer:
    """Serves ``tool`` on every protocol. Call ``run()``, or ``start()`` and ``stop()`` next to other work.

    - ``document``: describes a tool that has no ``load``.
    - ``version``: used if the tool has none.
    - ``api_keys``: the keys of which each call needs one.
    - ``admin_key``: a POST with this key to ``/opentool/stop`` stops the server.
    - ``port``: 0 chooses a free port. ``url`` tells which.
    - ``strict_jsonrpc``: an answer contains a result or an error, never both.

    Raises:
        DefinitionError: the tool cannot be served, or does not match its document.
    """

    # S-1, S-17, A-12, A-27

    def __init__(
        self,
        tool: Any,
        *,
        host: str = HOST,
        port: int = PORT,
        version: str = "1.0.0",
        document: Given | None = None,
        api_keys: Iterable[str] = (),
        admin_key: str | None = None,
        limits: ServerLimits | None = None,
        deadlines: Deadlines = DEADLINES,
        strict_jsonrpc: bool = False,
    ) -> None:
        self._box = build_toolbox(tool, document, version=version)
        self._app_anew = partial(
            build_app,
            self._box,
            ServerOptions(api_keys=tuple(api_keys), limits=limits, strict_jsonrpc=strict_jsonrpc),
            admin_key=admin_key,
            stop=self._request_stop,
        )
        self._host, self._port, self._deadlines = host, port, deadlines
        self._app: App | None = None
        self._server: PromptServer | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self.url: str = ""

    def run(self, announce: Callable[[str], object] = print) -> None:
        """Serve in this thread until SIGINT, SIGTERM or ``/opentool/stop``. Running calls finish first.

        ``announce`` is called with the URL as soon as the server listens.

        Raises:
            DefinitionError: the server cannot listen at this host and port.
            ToolwireError: the tool's ``init`` failed.
        """
        listener = self._listen()
        announce(self.url)
        with listener:
            self._serve(listener)

    def start(self) -> OpenToolServer:
        """Serve in a new thread, and return this server as soon as its tool is initialized.

        Raises:
            DefinitionError: the server cannot listen at this host and port.
            ToolwireError: the server is already running, or the tool's ``init`` failed.
        """
        if self._thread is not None:
            raise ToolwireError("This server has already been started.")
        listener = self._listen()
        self._failure = None
        self._ready.clear()
        self._thread = threading.Thread(target=self._serve_in_thread, args=(listener,), name="opentool", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self.stop()
        return self

    def stop(self) -> None:
        """Stop the server that ``start`` started, and wait for it to end. Running calls finish first.

        Raises:
            ToolwireError: the server failed, or a call did not stop.
        """
        thread = self._thread
        if thread is None:
            return
        self._wind_down()
        thread.join(_STOP_S)
        self._thread = None
        if thread.is_alive():
            raise ToolwireError("The server did not stop: a call is still running.")
        if isinstance(self._failure, ToolwireError):
            raise self._failure
        if self._failure is not None:
            raise ToolwireError("The server failed.") from self._failure

    def __enter__(self) -> OpenToolServer:
        return self if self._thread is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _listen(self) -> socket.socket:
        listener = open_listener(self._host, self._port)
        self.url = build_url(self._host, listener)
        self._app = self._app_anew()  # one that was told to stop takes no more calls
        self._server = PromptServer(ServerConfig(self._app, deadlines=self._deadlines))
        return listener

    def _serve_in_thread(self, listener: socket.socket) -> None:
        try:
            self._serve(listener)
        except BaseException as failure:  # noqa: BLE001 - it is raised again by stop()
            self._failure = failure
        finally:
            listener.close()  # new connections are refused now, instead of waiting until they time out
            self._ready.set()

    def _serve(self, listener: socket.socket) -> None:
        """Begin the tool, serve, and end the tool, all in one event loop; a server that stops ends it itself."""
        server = self._server
        if server is None:
            return
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(self._begin())
            self._ready.set()
            try:
                with contextlib.suppress(KeyboardInterrupt):  # the way uvicorn leaves after a signal
                    runner.run(server.serve(sockets=[listener]))
            finally:
                runner.run(end_lifespan(self._box))

    async def _begin(self) -> None:
        try:
            await self._box.begin()
        except Exception as error:
            raise ToolwireError(f"The tool's init() failed: {type(error).__name__}: {error}") from error

    def _request_stop(self) -> None:
        """Stop as a signal would; called in the thread that serves, which must go on meanwhile."""
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGTERM)
        else:
            threading.Thread(target=self._wind_down, name="opentool-stop", daemon=True).start()

    def _wind_down(self) -> None:
        """Take no new calls, wait for those that run, up to the grace, and let the server go."""
        app, server = self._app, self._server
        if app is None or server is None:
            return
        app.drain()
        until = time.monotonic() + self._deadlines.grace_s
        while app.active_calls and time.monotonic() < until:
            time.sleep(_POLL_INTERVAL_S)
        server.should_exit = True
