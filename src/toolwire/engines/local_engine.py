"""Run long calls in this process: each in a task, a limited number of them at the same time.

``PollingEngine`` runs none here, and leaves them to workers that look for them in the state once a second.
"""
# LC-01

from __future__ import annotations

import asyncio

from toolwire.core.long_call import CallWork

_MAX_TASKS = 10_000
"""How many calls wait in memory for their turn; more of them wait in the store."""


class LocalEngine:
    """Runs at most ``most`` calls at the same time; others wait for their turn in the order in which they came."""

    is_shared = False

    def __init__(self, most: int) -> None:
        self._turn = asyncio.Semaphore(most)
        self._work: CallWork | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, work: CallWork) -> None:
        """Run the calls that are offered from now on with ``work``."""
        self._work = work

    async def enqueue(self, call_id: str) -> bool:
        """Run the call when there is room; False if too many wait already."""
        if self._work is None or len(self._tasks) >= _MAX_TASKS:
            return False
        if call_id not in self._tasks:
            task = asyncio.create_task(self._run(self._work, call_id))
            self._tasks[call_id] = task
            task.add_done_callback(lambda done: self._forget(call_id, done))
        return True

    async def run(self, call_id: str) -> None:
        """Run the call, and return when that is over. If this is cancelled, the call goes on."""
        # An engine that loses its connection cancels what waits here, which must not cancel the tool.
        if await self.enqueue(call_id):
            await asyncio.wait([self._tasks[call_id]])

    async def end(self, grace_s: float) -> None:
        """Stop: give running calls ``grace_s`` seconds, then cancel them."""
        self._work = None
        tasks = list(self._tasks.values())
        if tasks and grace_s > 0:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, work: CallWork, call_id: str) -> None:
        async with self._turn:
            if self._work is not None:  # the server stops; another process, or this one after a restart, runs the call
                await work.run(call_id)

    def _forget(self, call_id: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(call_id) is done:
            del self._tasks[call_id]
        if not done.cancelled():
            done.exception()  # what failed is in the log already


class PollingEngine:
    """Runs nothing and offers nothing: each worker finds accepted calls in the state."""

    is_shared = True

    async def begin(self, work: CallWork) -> None:
        """Do nothing."""

    async def enqueue(self, call_id: str) -> bool:
        """Return False: a worker finds the call."""
        return False

    async def end(self, grace_s: float) -> None:
        """Do nothing."""
