"""Hold the lifespan of a toolkit open in a task of its own."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from toolwire.define import Lifespan


class LifespanTask:
    """Enters what ``lifespan`` returns, and leaves it in the same task, as many asynchronous libraries require."""

    def __init__(self, lifespan: Lifespan) -> None:
        self._lifespan = lifespan
        self._opened: asyncio.Future[Any] | None = None
        self._ending: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> Any:
        """Return what the lifespan yielded; further calls return the same.

        Raises:
            Exception: whatever the lifespan raised when it was entered; the next call tries again.
        """
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._ending = asyncio.Event()
            self._task = asyncio.create_task(self._hold(self._opened, self._ending))
        try:
            # A caller who leaves must not end it for the others.
            return await asyncio.shield(self._opened)
        # The caller was cancelled. The lifespan stays open, so this is no failure of it.
        except asyncio.CancelledError:
            raise
        except Exception:
            self._opened = None
            raise

    async def end(self) -> None:
        """Leave the lifespan; nothing happens if it was not entered."""
        task, ending = self._task, self._ending
        self._opened = self._ending = self._task = None
        if task is not None and ending is not None:
            ending.set()
            await task

    async def _hold(self, opened: asyncio.Future[Any], ending: asyncio.Event) -> None:
        try:
            async with AsyncExitStack() as stack:
                manager = self._lifespan()
                value = (
                    await stack.enter_async_context(manager)
                    if isinstance(manager, AbstractAsyncContextManager)
                    else stack.enter_context(manager)
                )
                opened.set_result(value)
                await ending.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
