"""Stop a server gracefully, from the first signal to the end of the process.

**Rules**
- Health checks fail first: the application drains while the server still listens and answers.
- Running calls have until the end of the grace period. A request that arrives meanwhile is answered, and its connection
  is closed.
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
from typing import Any, Protocol, TypeAlias, cast

from .deadlines import Deadlines
from .exchange import CLOSE, Exchange, Message, Receive, Scope, Send
from .lifespan import run_lifespan

FLUSH_S = 1
"""How much of the grace period is kept for sending the last responses, in seconds."""

_POLL_S = 0.05
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
        """Answer health checks and new calls with 503 from now on; running calls continue."""
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
        self,
        app: StoppableApp,
        deadlines: Deadlines,
        *,
        supervised: bool = False,
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        """Stop ``app`` within ``deadlines``; ``supervised`` says that a parent process forwards signals.

        ``on_stop`` is called when the graceful stop begins.
        """
        self._app = app
        self._deadlines = deadlines
        self._supervised = supervised
        self._on_stop = on_stop
        self._draining = False
        self.serve: Serve | None = _find_direct_serve(app)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on; after the first signal, close its connection with the response."""
        if self._draining:
            return self._app(scope, receive, _close_after_response(send))
        if scope["type"] == "lifespan":
            return self._run_lifespan(receive, send)
        return self._app(scope, receive, send)

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
        longest = max(limits.grace_s, limits.drain_s) + 2 * FLUSH_S
        # The watchdog starts now: a signal handler may interrupt code that holds the locks which a new thread needs. It
        # is a thread because a tool may block the event loop.
        threading.Thread(
            target=_exit_after_grace, args=(has_signal, longest), name="toolwire-stop", daemon=True
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
        self._app.drain()
        if self._on_stop is not None:
            self._on_stop()
        limits = self._deadlines
        latest = loop.time() + max(limits.drain_s, limits.grace_s - FLUSH_S)

        def stop_when_idle() -> None:
            if self._app.active_calls and loop.time() < latest:
                loop.call_later(_POLL_S, stop_when_idle)
            else:
                stop_server(signal.SIGINT, None)

        # R15: for this long health checks get a 503, so that a load balancer stops sending requests here.
        loop.call_later(limits.drain_s, stop_when_idle)


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
    _log.error("A tool did not stop within the grace period; the process ends without it.")
    os._exit(1)
