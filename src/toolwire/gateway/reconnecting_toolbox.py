"""Offer the tools of a server that could not be reached yet: none at first, and all of them from when it answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from toolwire.core.catalog import Catalog
from toolwire.core.errors import ToolwireError
from toolwire.core.model import Call, Kind, Problem, Result, Tool
from toolwire.core.toolbox import (
    Notify,
    OutputPromise,
    Toolbox,
    ToolHome,
    embed_stored_bytes,
    find_consent_handling,
    find_home,
    find_missing_consent,
    ignore_progress,
)
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan
from toolwire.server.run.worker_threads import ThreadPool

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0

_log = logging.getLogger("toolwire")


class ReconnectingToolbox:
    """A Toolbox that connects while it is served: ``connect`` is called again until it returns a Toolbox.

    ``connect`` blocks, and raises ToolwireError while the server cannot be reached. It is called in a thread, after one
    second at first and then after twice as long each time, up to a minute, or at once if an operator asks for it.

    ``abandon`` lets a ``connect`` that runs give up, and blocks too.

    ``explain`` returns what is said of an error. ``fault`` is why it could not be reached last, and ``tried_at`` when,
    in seconds since 1970; ``since`` is when it was first not reached.
    """

    # GW-01: while one server is down, the others are served, and the gateway need not be started again.
    def __init__(
        self,
        name: str,
        connect: Callable[[], Toolbox],
        fault: str = "",
        explain: Callable[[ToolwireError], str] = str,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.fault: str = fault
        self.since: float = time.time()
        self.tried_at: float = self.since
        self._connect = connect
        self._explain = explain
        self._abandon = abandon
        # Its threads are daemons, so that a server which hangs does not keep the process from ending.
        self._threads = ThreadPool(2)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_asked_for = asyncio.Event()
        self._no_tools = Catalog(title=name)
        self._toolbox: Toolbox | None = None
        self._attempts: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the server has been reached."""
        return self._toolbox is not None

    @property
    def toolbox(self) -> Toolbox | None:
        """What was reached, or None."""
        return self._toolbox

    def catalog(self) -> Catalog:
        """Return the catalog of the server, or one without tools until it has been reached."""
        return self._no_tools if self._toolbox is None else self._toolbox.catalog()

    def handles_consent(self, tool: Tool) -> bool:
        """Return whether each call of ``tool`` passes a consent check of its connection."""
        return self._toolbox is not None and find_consent_handling(self._toolbox)(tool)

    async def find_missing_consent(self, call: Call) -> Problem | None:
        """Return what the caller is asked about ``call``; see ``AsksCallers``."""
        return await find_missing_consent(self._toolbox, call)

    def find_home(self, tool: Tool) -> ToolHome:
        """Return where ``tool`` comes from."""
        return ToolHome() if self._toolbox is None else find_home(self._toolbox, tool)

    def judge_output(self, _tool: Tool) -> OutputPromise:
        """Return that every output schema is the word of another server."""
        return OutputPromise.FOREIGN

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        """Run ``call`` at the server and return its result, or the Problem that the server has not been reached yet."""
        if self._toolbox is None:
            return Problem(kind=Kind.UNREACHABLE, message=f"{self.name} could not be reached yet. Try again later.")
        return embed_stored_bytes(await self._toolbox.run(call, notify), self._toolbox)

    async def begin(self) -> None:
        """Begin to try, or begin what was reached already."""
        if self._toolbox is not None:
            await begin_lifespan(self._toolbox)
        elif self._attempts is None:
            self._loop, self._is_asked_for = asyncio.get_running_loop(), asyncio.Event()
            self._attempts = asyncio.create_task(self._connect_at_last())

    async def end(self) -> None:
        """Stop trying, and end what was reached."""
        if self._attempts is not None:
            self._attempts.cancel()
            await asyncio.wait([self._attempts])
            self._attempts = None
        if self._toolbox is not None:
            await end_lifespan(self._toolbox)
        else:
            await self._threads.run("abandon", self._abandon)

    def try_now(self) -> bool:
        """Let the next attempt begin at once, from any thread; return False if there is none to be made."""
        # PL-04
        if self._loop is None or self._attempts is None or self.is_connected:
            return False
        self._loop.call_soon_threadsafe(self._is_asked_for.set)
        return True

    async def _connect_at_last(self) -> None:
        pause = FIRST_PAUSE_S
        while self._toolbox is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._is_asked_for.wait()
            self._is_asked_for.clear()
            pause = min(2 * pause, MAX_PAUSE_S)
            (found,) = await asyncio.gather(self._open(), return_exceptions=True)
            self.tried_at = time.time()
            if isinstance(found, ToolwireError):
                self.fault = self._explain(found)
                _log.debug("%s", self.fault)
            elif isinstance(found, BaseException):  # a defect of one upstream leaves the others alone
                self.fault = f"{self.name} could not be opened. See the server's log."
                _log.error("%s could not be opened", self.name, exc_info=found)
            else:
                self._toolbox = found
                _log.warning("%s has been reached; its tools are served now.", self.name)

    async def _open(self) -> Toolbox:
        toolbox = await self._threads.run("connect", self._connect)
        await begin_lifespan(toolbox)
        return toolbox
