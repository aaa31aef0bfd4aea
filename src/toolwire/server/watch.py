"""Deadlines for many tasks at the cost of one timer.

A timer for each call costs 2 us and a timeout context 7 us; a dictionary entry costs 0.2 us. So every deadline
is an entry, and one timer stands at the earliest of them.
"""

from __future__ import annotations

import asyncio
import math


class Watch:
    """Cancels each task that is still there at its deadline."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Task[object], float] = {}
        self._expired: set[asyncio.Task[object]] = set()
        self._timer: asyncio.Handle | None = None
        self._armed = math.inf
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, seconds: float) -> asyncio.Task[object]:
        """Give the current task ``seconds`` from now; return it, for ``stop``."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a deadline needs a task to cancel")
        due = self._due[task] = loop.time() + seconds
        if due < self._armed or loop is not self._loop:
            self._arm(loop, due)
        return task

    def stop(self, task: asyncio.Task[object]) -> bool:
        """End the deadline of ``task``; return whether it had passed, in which case its cancellation is taken back."""
        self._due.pop(task, None)
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    def _arm(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop, self._armed = loop, due
        self._timer = loop.call_at(due, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._armed = None, math.inf
        now = loop.time()
        for task in [task for task, due in self._due.items() if due <= now]:
            del self._due[task]
            self._expired.add(task)
            task.cancel()
        if self._due:
            self._arm(loop, min(self._due.values()))
