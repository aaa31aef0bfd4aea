"""Commit the changes of many tasks to one SQLite file in one thread, many changes per transaction.

Rules:
- No task blocks the event loop for the disk or for a lock. A slow or locked file delays only its own changes.
- Changes that wait at the same time are committed together, also those that came while the file was locked. A locked
  file makes them wait for a limited time, then they are refused.
- If a change raises, the other changes of its transaction are made again without it.
- What can be made by one statement needs no transaction around it: the file is locked for that statement only.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

T = TypeVar("T")

_MAX_QUEUE = 4_096
_MAX_BATCH = 256
_COMPLETED_AT_ONCE = 32
_IDLE_S = 2.0
_FIRST_PAUSE_S = 0.0002
_MAX_PAUSE_S = 0.004
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Change(NamedTuple):
    """A change and where its outcome goes. ``on_refusal`` returns the outcome if it cannot be made.

    ``work`` is what the thread that commits has to do; in a GroupCommit, a function.

    ``on_abandon`` gets the outcome of a change whose task was cancelled. Without ``future`` no task waits for it.
    """

    work: Any
    on_refusal: Callable[[], Any]
    on_abandon: Callable[[Any], None]
    future: asyncio.Future[Any] | None = None


make_change: Final = cast("Callable[[tuple[Any, ...]], Change]", MethodType(tuple.__new__, Change))
"""Make a Change from a tuple of all its fields, in half the time: two are made for each call."""

MakeMany: TypeAlias = Callable[[Sequence[Any]], "Sequence[Any] | None"]
"""Make many changes by one statement that commits itself; return their outcomes, or None if none was made."""
NOT_MADE: Final = object()
"""The outcome of one of many changes that needs a transaction."""


_NOTHING_AT_ONCE: Final[Mapping[type, MakeMany]] = {}


class GroupCommit:
    """Makes changes in transactions. Its thread runs while there are changes, and ends by itself.

    That thread calls ``begin``, ``commit`` and ``roll_back``, once in each transaction. ``begin`` raises sqlite3.Error
    if the file is locked or cannot be written. ``roll_back`` gets the error and never raises. A locked file is tried
    again for ``busy_s`` seconds. Before a transaction, each of ``at_once`` gets the work of its own type, and raises
    sqlite3.Error if it made none of it.
    """

    def __init__(
        self,
        *,
        begin: Callable[[], None],
        commit: Callable[[], None],
        roll_back: Callable[[Exception], None],
        busy_s: float,
        at_once: Mapping[type, MakeMany] = _NOTHING_AT_ONCE,
    ) -> None:
        self._at_once = at_once
        self._begin_now, self._commit_now, self._roll_back_now = begin, commit, roll_back
        self._busy_s = busy_s
        self._queue: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = False

    def run_change(
        self, work: Callable[[], T], *, on_refusal: Callable[[], T], on_abandon: Callable[[T], None] | None = None
    ) -> asyncio.Future[T]:
        """Return what ``work`` returns, after its commit; if the change cannot be made, what ``on_refusal`` returns.

        ``work`` runs in another thread. If the task is cancelled before its change begins, the change is not made. If
        the change is made nevertheless, ``on_abandon`` gets its outcome.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # With more waiting changes, a new one would only time out later. An early refusal costs nothing.
        if self._queue.qsize() >= _MAX_QUEUE:
            future.set_result(on_refusal())
        else:
            self._enqueue(make_change((work, on_refusal, on_abandon or ignore_outcome, future)))
        return future

    def post_change(self, work: Callable[[], object]) -> None:
        """Make a change without waiting for it. Whether it succeeds is not reported."""
        self._enqueue(Change(work, _return_none, ignore_outcome))

    def _enqueue(self, change: Change) -> None:
        self._queue.put(change)
        with self._lock:
            if not self._running:
                self._running = True
                threading.Thread(target=self._commit_waiting, name="toolwire-ledger", daemon=True).start()

    def _commit_waiting(self) -> None:
        while True:
            try:
                first = self._queue.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    # Check again under the lock: a task that added a change meanwhile saw a running thread, and started
                    # none.
                    if self._queue.empty():
                        self._running = False
                        return
                continue
            self._commit([first, *self._drain(_MAX_BATCH - 1)])

    def _drain(self, most: int) -> list[Change]:
        taken: list[Change] = []
        while len(taken) < most:
            try:
                taken.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return taken

    def _commit(self, changes: Sequence[Change]) -> None:
        wanted, made = _list_wanted(changes), list[tuple[Change, Any]]()
        try:
            for kind, make_many in self._at_once.items():
                wanted = self._make_at_once(kind, make_many, wanted, made)
            outcomes = self._transact(wanted, most=_MAX_BATCH) if wanted else []
        except _LockedError:
            # The changes that came meanwhile are refused too. Each would wait for the same locked file again.
            wanted += self._drain(_MAX_QUEUE)
            deliver_outcomes([*made, *((change, change.on_refusal()) for change in wanted)])
            return
        except Exception:  # noqa: BLE001 - one of them failed; each is tried alone
            # One change failed and the rollback undid all of them, so each is made again alone.
            outcomes = [self._transact_alone(change) for change in wanted]
        deliver_outcomes([*made, *zip(wanted, outcomes, strict=True)])

    def _make_at_once(
        self, kind: type, make_many: MakeMany, wanted: list[Change], made: list[tuple[Change, Any]]
    ) -> list[Change]:
        """Add to ``made`` what ``make_many`` could make of its ``kind`` in ``wanted``; return the other changes.

        Raises:
            _LockedError: others had the file for too long.
        """
        some = [change for change in wanted if type(change.work) is kind]
        if not some:
            return wanted
        works = [change.work for change in some]
        try:
            outcomes = self._try_while_locked(lambda: make_many(works))
        except sqlite3.Error:  # the transaction that follows says in the log what is wrong
            return wanted
        if outcomes is None:
            return wanted
        made.extend(zip(some, outcomes, strict=True))
        left = [] if len(some) == len(wanted) else [change for change in wanted if type(change.work) is not kind]
        if NOT_MADE in outcomes:
            left += [change for change, outcome in made if outcome is NOT_MADE]
            made[:] = [one for one in made if one[1] is not NOT_MADE]
        return left

    def _transact_alone(self, change: Change) -> Any:
        try:
            return self._transact([change])[0]
        except (_LockedError, sqlite3.Error, OSError):
            return change.on_refusal()
        except Exception as error:  # noqa: BLE001 - the task that asked for the change gets it
            return Failure(error)

    def _transact(self, changes: list[Change], *, most: int = 0) -> list[Any]:
        """Return the outcome of each change, committed. Changes that came meanwhile are added, up to ``most`` in all.

        Raises:
            _LockedError: others had the file for too long.
        """
        self._try_while_locked(self._begin_now)
        # While other processes had the file, more changes came: in this transaction they cost no further lock.
        # In place, because the caller pairs its list with the outcomes.
        changes[:] = _list_wanted([*changes, *self._drain(most - len(changes))])
        try:
            outcomes = [change.work() for change in changes]
            self._commit_now()
        except Exception as error:
            self._roll_back_now(error)
            raise
        return outcomes

    def _try_while_locked(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, tried again while others have the file.

        Raises:
            _LockedError: others had the file for too long.
        """
        until, pause = time.monotonic() + self._busy_s, _FIRST_PAUSE_S
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _LOCKED:
                    raise
                if time.monotonic() >= until:
                    self._roll_back_now(error)
                    raise _LockedError from error
            time.sleep(pause)
            # Other processes hold the file for a fraction of a millisecond, so it is tried again soon, and less often
            # later.
            pause = min(2 * pause, _MAX_PAUSE_S)


def _list_wanted(changes: Sequence[Change]) -> list[Change]:
    """Return ``changes`` without those of tasks that left before their change began."""
    return [change for change in changes if change.future is None or not change.future.cancelled()]


class _LockedError(Exception):
    """Others had the file for longer than a change waits."""


class Failure(NamedTuple):
    """An error that the task gets which asked for the change."""

    error: Exception


def deliver_outcomes(outcomes: Sequence[tuple[Change, Any]]) -> None:
    """Give each outcome to the task that waits for it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Change, Any]]] = {}
    for change, outcome in outcomes:
        if change.future is not None:
            by_loop.setdefault(change.future.get_loop(), []).append((change, outcome))
    # One call per event loop, because waking a loop costs a system call.
    for loop, delivered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_complete, delivered)
        except RuntimeError:  # the loop is closed, and its tasks with it
            for change, outcome in delivered:
                change.on_abandon(outcome)


def _complete(outcomes: Sequence[tuple[Change, Any]]) -> None:
    if len(outcomes) > _COMPLETED_AT_ONCE:
        # ST-05: a store that hung refuses all calls that waited for it at the same time. Their answers leave the event
        # loop free for others in between.
        asyncio.get_running_loop().call_soon(_complete, outcomes[_COMPLETED_AT_ONCE:])
        outcomes = outcomes[:_COMPLETED_AT_ONCE]
    for change, outcome in outcomes:
        # The task was cancelled after its change was committed, so nothing waits for the outcome.
        if change.future is None or change.future.cancelled():
            change.on_abandon(outcome)
        elif isinstance(outcome, Failure):
            change.future.set_exception(outcome.error)
        else:
            change.future.set_result(outcome)


def ignore_outcome(_: object) -> None:
    """Ignore an outcome that no task waits for."""


def _return_none() -> None:
    """Return nothing for a refused change that no task waits for."""
