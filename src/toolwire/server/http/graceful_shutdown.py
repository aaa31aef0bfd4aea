"""A graceful end: what is between the signal that asks a server to stop and the moment it is gone.

**Rules**
- Health flips first: the app is told to drain while the server still listens and answers.
- Calls that run are waited for, up to the grace; whatever comes meanwhile is answered and its connection retired.
- A signal ends the process: by itself, by a second signal at once, or by the watchdog when a tool will not return.
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

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FLUSH_S = 1
"""How much of the grace is kept for answers that are still on their way out, in seconds."""

_POLL_S = 0.05
_log = logging.getLogger("toolwire.server")


Serve: TypeAlias = Callable[[Scope, Exchange], Awaitable[None]]
"""Answers one request; see ``App.serve``."""


class StoppableApp(Protocol):
    """An ASGI app that can be asked to stop: ``drain()`` refuses new calls, ``running`` counts those in flight."""

    @property
    def active_calls(self) -> int:
        """How many calls run now."""
        ...

    def drain(self) -> None:
        """Answer 503 to health checks and new calls from now on; running calls go on."""
        ...

    def __call__(self, scope: Any, receive: Any, send: Any, /) -> Awaitable[None]:
        """Answer one request."""
        ...


class GracefulShutdown:
    """The ASGI app ``app`` with a graceful end.

    ``serve`` is for a connection that hands its exchanges on whole: that of ``app`` where it is an ``App`` and nothing
    around one, for what only passes attributes on must not be passed by itself. It is None from the first signal on:
    then every answer is the last of its connection.
    In the main thread the server's signal handlers are taken over when it starts; elsewhere nothing is touched.
    With ``supervised`` a parent forwards signals, so that only a second SIGINT ends the process at once; and when the
    parent ends, by whatever signal, so does this process.
    """

    def __init__(self, app: StoppableApp, deadlines: Deadlines, *, supervised: bool = False) -> None:
        self._app = app
        self._deadlines = deadlines
        self._supervised = supervised
        self._draining = False
        self.serve: Serve | None = _find_direct_serve(app)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass a request on; from the first signal on, its connection closes with the answer."""
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
        leave = signal.getsignal(signal.SIGINT)
        asked = threading.Lock()
        asked.acquire()
        limits = self._deadlines
        most = max(limits.grace_s, limits.drain_s) + 2 * FLUSH_S
        # Started now: a signal handler may interrupt whatever holds the locks that a new thread needs, and a tool that
        # blocks the event loop must not keep the process either.
        threading.Thread(target=_exit_after_grace, args=(asked, most), name="toolwire-stop", daemon=True).start()

        def first(_number: int, _frame: object) -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_IGN if self._supervised else signal.SIG_DFL)
            asked.release()
            loop.call_soon_threadsafe(self._begin_stop, loop, leave)

        for number in SIGNALS:
            signal.signal(number, first)

    def _begin_stop(self, loop: asyncio.AbstractEventLoop, leave: Any) -> None:
        self._draining = True
        self.serve = None
        self._app.drain()
        limits = self._deadlines
        latest = loop.time() + max(limits.drain_s, limits.grace_s - FLUSH_S)

        def look() -> None:
            if self._app.active_calls and loop.time() < latest:
                loop.call_later(_POLL_S, look)
            else:
                leave(signal.SIGINT, None)

        loop.call_later(limits.drain_s, look)


def _find_direct_serve(app: StoppableApp) -> Serve | None:
    """Return the method of ``app`` that takes whole exchanges, or None where ASGI messages must be used."""
    # The class itself must say so: a subclass may override ``__call__``, and a middleware that passes attributes on
    # must not be bypassed.
    takes_exchanges = vars(type(app)).get("takes_exchanges", False)
    return cast("Any", app).serve if takes_exchanges else None


def _close_after_response(send: Send) -> Send:
    async def last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), CLOSE]}
        await send(message)

    return last


def _exit_with_parent(parent: BaseProcess) -> None:
    """End the process when ``parent`` has ended, however that happened: nobody else would stop this one."""
    parent.join()  # on a pipe whose other end only the parent holds, so that no signal and no polling is needed
    os._exit(1)


def _exit_after_grace(asked: threading.Lock, seconds: float) -> None:
    """End the process where it is still there ``seconds`` after ``asked`` was released."""
    asked.acquire()
    time.sleep(seconds)
    _log.error("A tool did not stop within the grace: ending without it.")
    os._exit(1)
