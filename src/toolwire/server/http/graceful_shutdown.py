"""Stop a server gracefully, from the first signal to the end of the process.

**Rules**
- Health checks fail first: for ``drain_s`` seconds ``/health`` answers 503, while each call is still accepted and each
  response closes its connection. A server that nobody checks, and that has no open connection, does not wait.
- The listener closes then, after it has taken every connection that it has let in: no client sees a reset.
- Running calls have until the end of the grace period.
- A signal always ends the process: normally, at once by a second signal, or by a watchdog if a tool does not return.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from toolwire.core.model import Kind

from .deadlines import Deadlines
from .exchange import CLOSE, Exchange, Message, Receive, Scope, Send
from .lifespan import run_lifespan
from .listener_filter import refuse_new_connections
from .refusal import RefusalApp
from .uvicorn_interface import UvicornServer

if TYPE_CHECKING:
    from .shared_listener import WorkerLoad

FLUSH_S = 1
"""How much of the grace period is kept for sending the last responses, in seconds."""

_POLL_S = 0.05
_PROBED_S = 10.0
"""For how many seconds after a health check another one is expected."""
_SETTLE_S = 0.1
"""How long connections that a client has begun to open may take, in seconds."""
_FIRST_REQUEST_S = 1.0
"""How long a connection that was accepted last may take to send its first request, in seconds."""
_log = logging.getLogger("toolwire.server")


Serve: TypeAlias = Callable[[Scope, Exchange], Awaitable[None]]
"""Answers one request; see ``App.serve``."""


def list_stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a server: SIGINT, SIGTERM, and SIGHUP unless this process ignores it."""
    # The terminal that closes sends SIGHUP; a program that nohup started ignores it and goes on.
    has_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if has_terminal else [])]


class StoppableApp(Protocol):
    """An ASGI application that can be asked to stop."""

    @property
    def active_calls(self) -> int:
        """The number of calls that run now."""
        ...

    def drain(self) -> None:
        """Answer new calls with 503 from now on; running calls continue."""
        ...

    def __call__(self, scope: Any, receive: Any, send: Any, /) -> Awaitable[None]:
        """Answer one request."""
        ...


class GracefulShutdown:
    """An ASGI application that passes requests on to ``app`` and stops it gracefully.

    ``serve`` takes whole exchanges of our own connection. It is None if ``app`` must get ASGI messages, and from the
    first signal on, when every response is the last of its connection.

    In the main thread, starting replaces the signal handlers of the server; in other threads no handler changes. With
    ``supervised``, a parent process forwards signals: only a second SIGINT ends the process at once, and the process
    ends when its parent does.
    """

    def __init__(
        self, app: StoppableApp, deadlines: Deadlines, *, supervised: bool = False, load: WorkerLoad | None = None
    ) -> None:
        """Stop ``app`` within ``deadlines``; ``supervised`` says that a parent process forwards signals.

        ``load`` is what this process shares with the other workers of a server.
        """
        self._app = app
        self._deadlines = deadlines
        self._supervised = supervised
        self._load = load
        self._draining = False
        self._probed_at = -_PROBED_S
        self.serve: Serve | None = _find_direct_serve(app)

    def note_probe(self) -> None:
        """Note that somebody checks the health of this server now."""
        self._probed_at = time.monotonic()
        if self._load is not None:
            self._load.note_probe()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on; after the first signal, close its connection with the response."""
        if self._draining:
            # CR-03: a worker that is replaced says nothing of the server, which goes on.
            if scope["type"] == "http" and _is_probe(scope) and not self._is_replaced():
                return _STOPPING(scope, receive, send)
            return self._app(scope, receive, _close_after_response(send))
        if scope["type"] == "lifespan":
            return self._run_lifespan(receive, send)
        return self._app(scope, receive, send)

    def _is_replaced(self) -> bool:
        return self._load is not None and self._load.is_leaving()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        parent = multiprocessing.parent_process()
        if self._supervised and parent is not None:
            threading.Thread(target=_exit_with_parent, args=(parent,), name="toolwire-parent", daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            self._catch_signals()
        await run_lifespan(self._app, receive, send)

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        stop_server = signal.getsignal(signal.SIGINT)
        has_signal = threading.Lock()  # held until the first signal
        has_signal.acquire()
        limits = self._deadlines
        max_wait_s = max(limits.grace_s, limits.drain_s) + 2 * FLUSH_S
        # The watchdog starts now: a signal handler may interrupt code that holds the locks which a new thread needs. It
        # is a thread because a tool may block the event loop.
        threading.Thread(
            target=_exit_after_grace, args=(has_signal, max_wait_s), name="toolwire-stop", daemon=True
        ).start()

        def handle_first(_number: int, _frame: object) -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_IGN if self._supervised else signal.SIG_DFL)
            # A terminal that closes sends it twice, from the shell and from the system.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            has_signal.release()
            loop.call_soon_threadsafe(self._begin_stop, loop, stop_server)

        for number in list_stop_signals():
            signal.signal(number, handle_first)

    def _begin_stop(self, loop: asyncio.AbstractEventLoop, stop_server: Any) -> None:
        self._draining = True
        self.serve = None
        if self._load is not None:
            self._load.leave()
        self._stopping = loop.create_task(self._stop(loop, stop_server))

    async def _stop(self, loop: asyncio.AbstractEventLoop, stop_server: Any) -> None:
        # R15, CR-03
        limits, server = self._deadlines, _find_server(stop_server)
        begun = loop.time()
        try:
            await _wait_while(lambda: self._is_awaited(server), begun + limits.drain_s)
            if server is not None:
                await self._stop_listening(server)
            self._app.drain()
            latest = begun + max(limits.drain_s, limits.grace_s - FLUSH_S)
            await _wait_while(lambda: self._app.active_calls > 0, latest)
        finally:
            stop_server(signal.SIGINT, None)

    def _is_awaited(self, server: UvicornServer | None) -> bool:
        """Return whether a proxy may still send requests here, because it checks this server or is connected to it."""
        probed_at = self._probed_at if self._load is None else self._load.find_probe()
        return server is None or bool(server.server_state.connections) or time.monotonic() - probed_at < _PROBED_S

    async def _stop_listening(self, server: UvicornServer) -> None:
        """Close the listener, and each connection once it has its last response."""
        # A process that reloads its code takes over the listener of the one before it.
        if not self._supervised if self._load is None else self._load.stop_listening():
            for listener in server.servers:
                for one in listener.sockets:
                    refuse_new_connections(one.fileno())
            await asyncio.sleep(_SETTLE_S)  # what was let in before is accepted meanwhile
        for listener in server.servers:
            listener.close()
        await asyncio.sleep(_POLL_S)  # what this process accepted last becomes a connection
        connections = server.server_state.connections
        for connection in list(connections):
            if not connection.is_unused:
                connection.shutdown()
        # A request whose head or body is still read is no running call yet, and must become one.
        tasks = server.server_state.tasks
        until = asyncio.get_running_loop().time() + _FIRST_REQUEST_S
        await _wait_while(
            lambda: len(tasks) > self._app.active_calls or any(one.is_unused for one in connections), until
        )
        for connection in list(connections):
            connection.shutdown()


async def _wait_while(is_busy: Callable[[], bool], until: float) -> None:
    """Wait while ``is_busy`` returns True, until the time ``until`` of the event loop's clock."""
    loop = asyncio.get_running_loop()
    while is_busy() and loop.time() < until:  # noqa: ASYNC110 - what it reads are sets and counts of other modules
        await asyncio.sleep(_POLL_S)


_STOPPING = RefusalApp(503, Kind.OVERLOADED, "This server is shutting down.")


def _is_probe(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path") or "") in ("/health", "/uts/health")


def _find_server(stop_server: Any) -> UvicornServer | None:
    """Return the server of uvicorn whose method ``stop_server`` is."""
    server = getattr(stop_server, "__self__", None)
    return cast("UvicornServer", server) if hasattr(server, "servers") and hasattr(server, "server_state") else None


def _find_direct_serve(app: StoppableApp) -> Serve | None:
    """Return the method of ``app`` that takes whole exchanges, or None where ASGI messages must be used."""
    # The class itself must say so: a subclass may override ``__call__``, and a middleware that passes attributes on
    # must not be bypassed.
    takes_exchanges = vars(type(app)).get("takes_exchanges", False)
    return cast("Any", app).serve if takes_exchanges else None


def _close_after_response(send: Send) -> Send:
    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), CLOSE]}
        await send(message)

    return send_last


def _exit_with_parent(parent: BaseProcess) -> None:
    """End the process when ``parent`` has ended: no other process would stop this one."""
    # This waits on a pipe whose other end only the parent holds, so it notices a parent that was killed, too.
    parent.join()
    os._exit(1)


def _exit_after_grace(has_signal: threading.Lock, seconds: float) -> None:
    """End the process if it still runs ``seconds`` after the first signal."""
    has_signal.acquire()
    time.sleep(seconds)
    # Not sys.exit(), which would end only this thread: a tool that does not return would keep the process.
    _log.error("A tool did not stop within the grace period. The process ends anyway.")
    os._exit(1)
