"""Run uvicorn so that it stops as soon as it is told to."""

from __future__ import annotations

import asyncio
import contextlib
from socket import socket

from toolwire.core.lazy_import import explain_missing_module

try:
    from uvicorn import Config, Server
except ModuleNotFoundError as _error:
    raise explain_missing_module(_error, "server") from _error

_TICK_S = 1.0
"""How often the date in the responses is set anew."""

_POLL_INTERVAL_S = 0.002
"""How often a stopping server looks whether its last connections have ended."""


class PromptServer(Server):
    """A server of uvicorn that notices ``should_exit`` at once, also where another thread sets it.

    uvicorn looks ten times a second whether it should stop, and pauses for a tenth of a second before it ends. A test
    that starts a server waits for both.
    """

    def __init__(self, config: Config) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._should_exit = False
        self._has_woken = asyncio.Event()
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        """Whether the server stops, or will stop."""
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._should_exit = value
        if value and (loop := self._loop) is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped already
                loop.call_soon_threadsafe(self._has_woken.set)

    async def main_loop(self) -> None:
        """Wait until the server should stop."""
        # The loop is known before the first look, so whoever sets ``should_exit`` later wakes it.
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._has_woken.wait()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Accept no more connections, wait for those that are open, and end the application, all as uvicorn does."""
        for listener in [*self.servers, *(sockets or ())]:
            listener.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110 - they are sets of uvicorn
                    await asyncio.sleep(_POLL_INTERVAL_S)
                for server in self.servers:
                    await server.wait_closed()
        except TimeoutError:
            for task in state.tasks:
                task.cancel()
        if not self.force_exit:
            await self.lifespan.shutdown()
