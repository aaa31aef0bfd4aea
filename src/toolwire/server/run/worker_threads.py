"""Worker threads for tools that block, shared fairly among callers.

**Rules**
- A caller never holds more than its share of the threads. Calls that wait start round robin among callers.
- A thread that runs a cancelled call keeps its place until the call returns: Python cannot stop a thread.
- Threads start on demand, end when idle, and never keep the process alive.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

from toolwire.core.no_user_input import InputNeeded

T = TypeVar("T")

IDLE_S = 10.0
"""How long a thread without work waits for more before it ends, in seconds."""

_Outcome: TypeAlias = tuple[Any, BaseException | None]
"""What a function returned, or what it raised."""


def find_max_per_caller(size: int) -> int:
    """Return how many of ``size`` threads one caller may hold: three in four, at least one."""
    return max(1, size * 3 // 4)


class _Job:
    """One function to run, and the future that takes its outcome."""

    __slots__ = ("caller", "context", "future", "loop", "work")

    def __init__(self, caller: _Caller, work: Callable[[], Any]) -> None:
        self.caller = caller
        self.work = work
        self.context = copy_context()
        self.loop = loop = asyncio.get_running_loop()
        self.future: asyncio.Future[_Outcome] = loop.create_future()


class _Caller:
    """The jobs of one caller: those that wait, and the number of those that run."""

    __slots__ = ("has_turn", "name", "running", "waiting")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.waiting: deque[_Job] = deque()
        self.running = 0
        self.has_turn = False


class ThreadPool:
    """At most ``size`` threads, of which one caller holds at most ``share``, by default three in four.

    How many jobs may wait is for the user of the pool to bound; a server does so by ``Limits.running``.
    """

    def __init__(self, size: int, max_per_caller: int | None = None, *, idle_s: float = IDLE_S) -> None:
        self._size = size
        self._share = find_max_per_caller(size) if max_per_caller is None else max_per_caller
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._callers: dict[Hashable, _Caller] = {}
        self._ready_callers: deque[_Caller] = deque()  # callers with a waiting job that may start
        self._idle: list[threading.Lock] = []  # each idle thread waits for its own lock; the last one is woken first
        self._threads = 0
        # Whether a thread was woken that has taken nothing yet. It wakes the next one if there is more to do, so that
        # a burst of short jobs costs two wake-ups rather than one for each job.
        self._waking = False
        _POOLS.add(self)

    @property
    def active_jobs(self) -> int:
        """The number of jobs that run, cancelled ones included."""
        with self._lock:
            return sum(caller.running for caller in self._callers.values())

    @property
    def queue_length(self) -> int:
        """The number of jobs that no thread has begun."""
        with self._lock:
            return sum(len(caller.waiting) for caller in self._callers.values())

    @property
    def threads(self) -> int:
        """The number of threads there are, busy or idle."""
        return self._threads

    async def run(self, caller: Hashable, work: Callable[[], T]) -> T:
        """Return what ``work`` returns in a thread, on behalf of ``caller``. It sees the current context variables.

        If this is cancelled, a job that waits is removed; one that runs goes on, and its outcome is dropped.
        """
        job = self._submit(caller, work)
        try:
            result, error = await job.future
        except asyncio.CancelledError:
            self._withdraw(job)
            raise
        finally:
            del job  # with its future, an exception would refer to itself by way of its traceback
        if error is not None:
            try:
                raise error
            finally:
                del error
        value: T = result
        return value

    def _submit(self, name: Hashable, work: Callable[[], Any]) -> _Job:
        with self._lock:
            caller = self._callers.get(name)
            if caller is None:
                caller = self._callers[name] = _Caller(name)
            job = _Job(caller, work)
            caller.waiting.append(job)
            self._queue(caller)
            wake = self._next_to_wake()
        if wake is not None:
            wake()
        return job

    def _withdraw(self, job: _Job) -> None:
        caller = job.caller
        with self._lock:
            if job not in caller.waiting:
                return
            caller.waiting.remove(job)
            if caller.has_turn and not caller.waiting:
                caller.has_turn = False
                self._ready_callers.remove(caller)
            self._forget(caller)

    # With the lock held

    def _queue(self, caller: _Caller) -> None:
        """Give ``caller`` a turn if one of its jobs may start."""
        if caller.waiting and not caller.has_turn and caller.running < self._share:
            caller.has_turn = True
            self._ready_callers.append(caller)

    def _take(self) -> _Job | None:
        """Return the job whose turn it is, or None."""
        if not self._ready_callers:
            return None
        caller = self._ready_callers.popleft()
        caller.has_turn = False
        caller.running += 1
        job = caller.waiting.popleft()
        self._queue(caller)
        return job

    def _give_back(self, caller: _Caller) -> None:
        caller.running -= 1
        self._queue(caller)
        self._forget(caller)

    def _forget(self, caller: _Caller) -> None:
        if not caller.running and not caller.waiting:
            del self._callers[caller.name]

    def _next_to_wake(self) -> Callable[[], None] | None:
        """Return what makes another thread take a job, to be called without the lock; None where none is needed."""
        if self._waking or not self._ready_callers:
            return None
        if self._idle:
            self._waking = True
            return self._idle.pop().release
        if self._threads == self._size:
            return None
        self._waking = True
        self._threads += 1
        return self._start_thread

    # Without it

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._serve, name="toolwire-tool", daemon=True).start()
        except RuntimeError:  # the machine has no more of them; those that there are go on
            with self._lock:
                self._threads -= 1
                self._waking = False
                stuck = [] if self._threads else [job for each in self._callers.values() for job in each.waiting]
            for job in stuck:
                self._withdraw(job)
                _deliver(job, (None, RuntimeError("No thread could be started to run the tool.")))

    def _serve(self) -> None:
        """Run jobs until none came for long enough."""
        wake_lock = threading.Lock()
        wake_lock.acquire()
        job, wake = self._take_first(wake_lock)
        while True:
            while job is not None:
                if wake is not None:
                    wake()
                outcome = _run(job)
                with self._lock:
                    self._give_back(job.caller)
                    following = self._take()
                    wake = None if following is None else self._next_to_wake()
                    if following is None:
                        self._idle.append(wake_lock)
                _deliver(job, outcome)
                del outcome  # nothing of a call is kept while its thread waits
                job = following
            if not wake_lock.acquire(timeout=self._idle_s) and self._may_end(wake_lock):
                return
            job, wake = self._take_first(wake_lock)

    def _take_first(self, wake_lock: threading.Lock) -> tuple[_Job | None, Callable[[], None] | None]:
        """Return the job for a thread that was woken, and how it wakes the next one; without a job it is idle."""
        with self._lock:
            self._waking = False
            job = self._take()
            if job is None:
                self._idle.append(wake_lock)
                return None, None
            return job, self._next_to_wake()

    def _may_end(self, wake_lock: threading.Lock) -> bool:
        """Return whether a thread that waited for long enough ends; False where it has just been given work."""
        with self._lock:
            if wake_lock in self._idle:
                self._idle.remove(wake_lock)
                self._threads -= 1
                return True
        wake_lock.acquire()  # it is released by now, or in a moment
        return False


_POOLS: WeakSet[ThreadPool] = WeakSet()


def is_any_running() -> bool:
    """Return whether a thread of any pool still runs something, which an exit of the process would not wait for."""
    return any(pool.active_jobs for pool in _POOLS)


def run_on_loop(loop: asyncio.AbstractEventLoop, work: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Return what ``work`` returns on ``loop``, whose thread is another one.

    Raises:
        RuntimeError: the loop has ended.
    """

    async def run_work() -> T:
        return await work(*arguments)

    coroutine = run_work()
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    finally:
        coroutine.close()


def _run(job: _Job) -> _Outcome:
    try:
        return job.context.run(job.work), None
    except (Exception, SystemExit, asyncio.CancelledError, InputNeeded) as error:  # noqa: BLE001 - the caller of the tool gets it
        return None, error
    except BaseException as error:  # noqa: BLE001 - a KeyboardInterrupt of a tool must not end the server
        return None, RuntimeError(f"{type(error).__name__} was raised")


def _deliver(job: _Job, outcome: _Outcome) -> None:
    with suppress(RuntimeError):  # the loop has ended, and no task waits for the outcome
        job.loop.call_soon_threadsafe(_set_outcome, job.future, outcome)


def _set_outcome(future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
