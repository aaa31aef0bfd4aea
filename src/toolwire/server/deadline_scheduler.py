"""Deadlines for many tasks at the cost of one timer, and of nothing for what never waits.

A timer for each call costs 2 us and a timeout context 7 us; a dictionary entry costs 0.2 us. So every deadline
is an entry, and one timer stands at the earliest of them; and work that ends without waiting has none.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Generator
from time import perf_counter
from types import CoroutineType, coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlineExceeded(Exception):  # noqa: N818 - no error of the program: its deadline has passed
    """The work was cancelled, or had just ended, when its time was over."""


class DeadlineScheduler:
    """Cancels each task that is still there at its deadline."""

    def __init__(self) -> None:
        self._deadlines: dict[asyncio.Task[object], float] = {}
        self._expired: set[asyncio.Task[object]] = set()
        self._timer: asyncio.Handle | None = None
        self._timer_due = math.inf
        self._loop: asyncio.AbstractEventLoop | None = None

    @coroutine
    def run_within(self, work: Awaitable[T], seconds: float) -> Generator[Any, Any, T]:
        """Return what ``work`` returns, within ``seconds`` from now; cancelled by others, it is so as ever.

        Raises:
            Late: that took longer, whatever it ended with.
        """
        begun = perf_counter()
        steps = work if type(work) is CoroutineType else _await_work(work)
        try:
            asked = steps.send(None)
        except StopIteration as end:  # it never waited
            value: T = end.value
            return value
        task = self.start(seconds - (perf_counter() - begun))
        try:
            while True:
                try:
                    said = yield asked
                except BaseException as error:  # noqa: BLE001 - as ``yield from`` would: all of it is for the work
                    asked = steps.throw(error)
                else:
                    asked = steps.send(said)
        except StopIteration as end:
            value = end.value
        except BaseException:
            if self.stop(task):
                raise DeadlineExceeded from None
            raise
        if self.stop(task):
            raise DeadlineExceeded
        return value

    def start(self, seconds: float) -> asyncio.Task[object]:
        """Give the current task ``seconds`` from now; return it, for ``stop``."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a deadline needs a task to cancel")
        due = self._deadlines[task] = loop.time() + seconds
        if due < self._timer_due or loop is not self._loop:
            self._set_timer(loop, due)
        return task

    def stop(self, task: asyncio.Task[object]) -> bool:
        """End the deadline of ``task``; return whether it had passed, in which case its cancellation is taken back."""
        self._deadlines.pop(task, None)
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    def _set_timer(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop, self._timer_due = loop, due
        self._timer = loop.call_at(due, self._cancel_expired, loop)

    def _cancel_expired(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._timer_due = None, math.inf
        now = loop.time()
        for task in [task for task, due in self._deadlines.items() if due <= now]:
            del self._deadlines[task]
            self._expired.add(task)
            task.cancel()
        if self._deadlines:
            self._set_timer(loop, min(self._deadlines.values()))


async def _await_work(work: Awaitable[T]) -> T:
    return await work
