"""The OpenTool server under the name of its SDKs: one tool, its address and its keys."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from uvicorn import Server

from toolwire.core.errors import ToolwireError
from toolwire.server import Limits
from toolwire.server.deadlines import DEADLINES, Deadlines
from toolwire.server.process import HOST, PORT, Serving, listening, url

from .description import Given
from .serving import app_of, served
from .toolbox import ObjectBox

_STOP_S = 10.0


class OpenToolServer:
    """Serves ``tool`` on every protocol: ``run()`` until a signal, or ``start()`` and ``stop()`` beside other work.

    ``document`` describes the tool where its own ``load`` does not; ``version`` is that of a tool without any.
    ``api_keys`` are the keys that calls need one of. With an ``admin_key`` whoever has it can POST to
    ``/opentool/stop``. Port 0 takes a free one; ``url`` says which. [S-1, S-17, A-27]

    Raises:
        DefinitionError: the tool cannot be served, or does not fit its document.
    """

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
        limits: Limits | None = None,
        deadlines: Deadlines = DEADLINES,
    ) -> None:
        self._box = served(tool, document, version=version)
        self._app = app_of(
            self._box,
            api_keys=api_keys,
            admin_key=admin_key,
            stop=self._ask_to_stop,
            limits=limits,
        )
        self._host, self._port, self._deadlines = host, port, deadlines
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.url = ""

    def run(self, announce: Callable[[str], object] = print) -> None:
        """Serve in this thread until SIGINT, SIGTERM or ``/opentool/stop``; running calls finish first.

        ``announce`` is given the URL as soon as the socket listens.

        Raises:
            DefinitionError: nothing can listen at this host and port.
        """
        listener = self._listen()
        announce(self.url)
        with listener:
            self._serve(listener)

    def start(self) -> OpenToolServer:
        """Serve in a thread of its own from now on, and return this server; its ``url`` takes calls at once.

        Raises:
            DefinitionError: nothing can listen at this host and port.
        """
        if self._thread is not None:
            raise ToolwireError("This server has been started already.")
        listener = self._listen()
        self._failure = None
        self._thread = threading.Thread(target=self._serve_aside, args=(listener,), name="opentool", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop what ``start`` started, and wait until it is gone.

        Raises:
            ToolwireError: the server had failed, or a call would not stop.
        """
        thread = self._thread
        if thread is None:
            return
        self._ask_to_stop()
        thread.join(self._deadlines.grace_s + _STOP_S)
        self._thread = None
        if thread.is_alive():
            raise ToolwireError("The server did not stop: a call is still running.")
        if self._failure is not None:
            raise ToolwireError("The server failed.") from self._failure

    def __enter__(self) -> OpenToolServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _listen(self) -> socket.socket:
        listener = listening(self._host, self._port)
        self.url = url(self._host, listener)
        self._server = Server(Serving(self._app, deadlines=self._deadlines))
        return listener

    def _serve_aside(self, listener: socket.socket) -> None:
        try:
            self._serve(listener)
        except BaseException as failure:  # noqa: BLE001 - it is raised again by stop()
            self._failure = failure
        finally:
            listener.close()  # whoever still calls is refused rather than kept waiting

    def _serve(self, listener: socket.socket) -> None:
        """Begin the tool, serve, and end the tool, all in one event loop."""
        server = self._server
        if server is None:
            return
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(self._begin())
            try:
                with contextlib.suppress(KeyboardInterrupt):  # the way uvicorn leaves after a signal
                    runner.run(server.serve(sockets=[listener]))
            finally:
                runner.run(self._end())

    async def _begin(self) -> None:
        if isinstance(self._box, ObjectBox):
            await self._box.begin()

    async def _end(self) -> None:
        if isinstance(self._box, ObjectBox):
            await self._box.end()

    def _ask_to_stop(self) -> None:
        """End gracefully: what a signal does where the server has the main thread, and the same without one."""
        if self._thread is None:
            signal.raise_signal(signal.SIGTERM)
            return
        self._app.drain()
        if self._server is not None:
            self._server.should_exit = True
