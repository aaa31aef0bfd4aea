"""Keep a ledger of calls in an SQLite file, which outlives its process and is shared by processes of one machine.

Rules:
- One thread makes all changes, so the event loop never waits for the disk or for a lock. New calls, and endings, that
  wait at the same time are one statement each; all other changes go into one transaction, which takes the write lock
  when it begins, so one of several claims wins.
- While the file cannot be written, no new call is recorded, and so no new call with a key runs.
- The ending of a call that could not be written is kept in memory, and written when that is possible again.
"""
# R13

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, Final, NamedTuple, cast
from weakref import WeakSet

from toolwire.core.ledger import (
    UNAVAILABLE,
    CallEnding,
    CallKey,
    Claim,
    ClaimOutcome,
    LedgerLimits,
    Ticket,
    digest_fingerprint,
    make_ticket,
)
from toolwire.stores.clock import ClockMark, LedgerClock, read_boot_id
from toolwire.stores.database import build_unusable_error, close_with, open_file
from toolwire.stores.group_commit import NOT_MADE, GroupCommit
from toolwire.stores.outage_log import OutageLog

from . import result_bytes, sqlite_batch
from .process_lock import ProcessLock, find_owners, is_alive
from .sql_calls import SqlCalls, row_bytes
from .statements import AGE, FORGET_AGE, SAVE_AGE, SQLITE
from .tables import CALLS_FILE
from .usage import LedgerUsage, Room, add_room

ON_DISK = LedgerLimits()
SWEEP_S: Final = 60.0
_BUSY_S = 1.0
_MAX_UNSAVED = 1_000

_log = logging.getLogger("toolwire.ledger")


class _Claiming(NamedTuple):
    """The change that ``claim`` asks for; ``make`` makes it in a transaction."""

    claim: Claim
    make: Callable[[Claim], ClaimOutcome]

    def __call__(self) -> ClaimOutcome:
        return self.make(self.claim)


class _Finishing(NamedTuple):
    """The change that ``finish`` asks for; ``make`` makes it in a transaction."""

    ticket: Ticket
    ending: CallEnding | None
    make: Callable[[Ticket, CallEnding | None], None]

    def __call__(self) -> None:
        return self.make(self.ticket, self.ending)


_make_claiming = cast("Callable[[tuple[Claim, Any]], Callable[[], ClaimOutcome]]", MethodType(tuple.__new__, _Claiming))
_make_finishing = cast(
    "Callable[[tuple[Ticket, CallEnding | None, Any]], Callable[[], None]]", MethodType(tuple.__new__, _Finishing)
)


class SqliteLedger:
    """The ledger at ``path``. ``clock`` is in seconds and never goes back while the machine, ``boot``, runs.

    Raises:
        DefinitionError: the file is something else, or cannot be opened.
    """

    def __init__(
        self,
        path: Path | str,
        limits: LedgerLimits = ON_DISK,
        *,
        clock: Callable[[], float] = time.monotonic,
        boot: str | None = None,
    ) -> None:
        self._path = Path(path).absolute()
        self._limits = limits
        self._age = LedgerClock(read_boot_id() if boot is None else boot, clock)
        self._usage = LedgerUsage(SQLITE)
        self._calls = SqlCalls(
            SQLITE,
            limits,
            self._usage,
            now=self._age.now,
            is_alive=partial(is_alive, self._path),
            after_sweep=self._save_age,
        )
        self._outages = OutageLog(_log, f"the ledger {self._path.name} can be written again.")
        self._unsaved: dict[Ticket, CallEnding | None] = {}
        self._saved: set[Ticket] = set()
        self._counted = self._usage.totals
        self._changes = GroupCommit(
            begin=self._begin_transaction,
            commit=self._commit,
            roll_back=self._roll_back,
            busy_s=_BUSY_S,
            # Endings first, so that a claim of the same key finds the result.
            at_once={_Finishing: self._finish_many, _Claiming: self._add_many},
        )
        self._is_open = False
        self._open_file()

    async def begin(self) -> None:
        """Open the file again if it was closed."""
        if not self._is_open:
            self._open_file()

    async def end(self) -> None:
        """Close the file. Calls that still run are then as those of a process that died."""
        if self._is_open:
            self._is_open = False
            await self._changes.run_change(self._sweep_once, on_refusal=_ignore_refusal)
            self._owner.release()
            self._connection.close()

    async def claim(self, claim: Claim) -> ClaimOutcome:
        """Return the ticket for a call that may run now, or why it does not."""
        if self._unsaved:
            self._changes.post_change(self._save_endings)
        work = _make_claiming((digest_fingerprint(claim), self._claim))
        return await self._changes.run_change(work, on_refusal=_refuse, on_abandon=self._give_back)

    async def finish(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        work = _make_finishing((ticket, ending, self._calls.finish))
        await self._changes.run_change(work, on_refusal=partial(self._store_unsaved, ticket, ending))

    def post_sweep(self) -> None:
        """Remove the calls whose time is over, also on a server without new calls; 64 in each transaction."""
        # GR-03
        if self._is_open:
            self._changes.post_change(self._sweep_expired)

    def _sweep_once(self) -> None:
        self._calls.sweep()

    def _sweep_expired(self) -> None:
        if self._is_open and self._calls.sweep():
            self.post_sweep()

    # What the thread that commits does: many changes at once, or ``begin``, changes, and ``commit`` or ``roll_back``

    def _finish_many(self, works: Sequence[_Finishing]) -> list[Any] | None:
        """Settle the first runs among ``works`` by one statement."""
        outcomes: list[Any] = [NOT_MADE] * len(works)
        places: dict[Ticket, int] = {}
        rows: list[tuple[Any, ...]] = []
        needs: dict[str, Room] = {}
        until, most = self._age.now() + self._limits.keep_s, self._limits.answer_bytes
        for place, (ticket, ending, _) in enumerate(works):
            if ending is None or ticket.attempt != 1 or ticket in places:  # the first ending of a call holds
                continue
            key, owner, _ = ticket
            state, result, pinned = ending
            answer = result_bytes.write_result(result, most)
            size = len(answer)
            places[ticket] = place
            rows.append((*key, owner, state.value, pinned, answer, size, until))
            add_room(needs, key.principal, 0, size)
        if not rows:
            return None
        self._calls.make_room(needs)  # before these calls end: only ended calls are removed for room
        recorded = sqlite_batch.finish_calls(self._connection, rows)
        self._outages.record_success()
        for place in places.values():
            outcomes[place] = None
        if not all(recorded):
            needs.clear()
            for row, is_finished in zip(rows, recorded, strict=True):
                if is_finished:
                    add_room(needs, row[0], 0, row[7])
        self._usage.add_all(needs)
        return outcomes

    def _add_many(self, works: Sequence[_Claiming]) -> list[Any] | None:
        """Record the calls that ``works`` claim by one statement, if all of them are new."""
        # With unsaved endings, a key may belong to a call whose ending the file does not know.
        if self._unsaved:
            return None
        outcomes: list[Any] = [NOT_MADE] * len(works)
        places: dict[CallKey, int] = {}
        rows: list[tuple[Any, ...]] = []
        needs: dict[str, Room] = {}
        owner = self._owner.number
        for place, ((key, fingerprint, can_rerun, _), _) in enumerate(works):
            if key not in places:
                size = row_bytes(key)
                places[key] = place
                rows.append((*key, fingerprint, can_rerun, owner, size))
                add_room(needs, key.principal, 1, size)
        if not (self._calls.make_room(needs) and sqlite_batch.add_calls(self._connection, rows)):
            return None
        self._outages.record_success()
        self._usage.add_all(needs)
        for key, place in places.items():
            outcomes[place] = make_ticket((key, owner, 1))
        if self._calls.count_new(len(rows)):
            self._changes.post_change(self._calls.sweep)
        return outcomes

    def _claim(self, claim: Claim) -> ClaimOutcome:
        # The call has ended, but its row says that it still runs: a claim would wait for an ending that never comes.
        if self._unsaved and any(ticket.key == claim.key for ticket in self._unsaved.keys() - self._saved):
            return UNAVAILABLE
        return self._calls.claim(claim, self._owner.number)

    def _give_back(self, standing: ClaimOutcome) -> None:
        """Forget a call whose caller left before the call could run."""
        if isinstance(standing, Ticket):
            self._changes.post_change(partial(self._calls.finish, standing, None))

    def _store_unsaved(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Remember an ending that cannot be written, to write it when that is possible again."""
        if len(self._unsaved) < _MAX_UNSAVED:
            self._unsaved[ticket] = ending

    def _save_endings(self) -> None:
        for ticket, ending in list(self._unsaved.items()):
            self._calls.finish(ticket, ending)
            self._saved.add(ticket)

    # A transaction

    def _begin_transaction(self) -> None:
        """Take the file for changes."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._counted = self._usage.totals

    def _commit(self) -> None:
        """Write what was changed."""
        self._connection.execute("COMMIT")
        self._outages.record_success()
        # Only after the commit: an ending whose transaction is rolled back must stay in memory.
        for ticket in self._saved:
            self._unsaved.pop(ticket, None)
        self._saved.clear()

    def _roll_back(self, error: Exception) -> None:
        """Undo what was changed, and say in the log why."""
        self._saved.clear()
        self._usage.totals = self._counted
        self._usage.forget_callers()
        self._outages.record_failure("the ledger %s cannot be written: %s.", self._path.name, error)
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as failure:
            _log.error("the changes in the ledger %s could not be rolled back: %s", self._path.name, failure)

    def _attach(self) -> None:
        """Read the age of the ledger, count its rows, and mark calls of dead owners as interrupted."""
        self._calls.attach(self._connection)
        mark = self._connection.execute(AGE).fetchone()
        self._age.resume(None if mark is None else ClockMark(*mark))
        self._save_age()
        self._calls.recount()
        self._calls.interrupt_orphans(find_owners(self._path))

    def _save_age(self) -> None:
        self._connection.execute(FORGET_AGE)
        self._connection.execute(SAVE_AGE, self._age.mark())

    def _open_file(self) -> None:
        self._connection = open_file(self._path, CALLS_FILE, busy_s=_BUSY_S).connection
        close_with(self, self._connection)  # end() is not called if the server cannot be built
        try:
            self._begin_transaction()
            self._attach()
            self._commit()
            self._owner = ProcessLock(self._path)
        except (sqlite3.Error, OSError) as error:
            self._connection.close()
            raise build_unusable_error(self._path, error) from error
        self._connection.execute("PRAGMA busy_timeout = 0")  # from here on GroupCommit repeats, with its own limit
        self._is_open = True
        sweep_regularly(self)


def _refuse() -> ClaimOutcome:
    return UNAVAILABLE


def _ignore_refusal() -> None:
    """Ignore that the file cannot be written when it is closed."""


# GR-03: what is over is removed each minute, also while no call arrives.
_LEDGERS: WeakSet[SqliteLedger] = WeakSet()
_LOCK = threading.Lock()
_THREADS: list[threading.Thread] = []


def sweep_regularly(ledger: SqliteLedger) -> None:
    """Sweep ``ledger`` each minute for as long as it lives."""
    with _LOCK:
        _LEDGERS.add(ledger)
        # A process that was forked has the list, and not the thread.
        if not any(one.is_alive() for one in _THREADS):
            _THREADS[:] = [threading.Thread(target=_sweep_until_exit, name="toolwire-sweeper", daemon=True)]
            _THREADS[0].start()


def sweep_all() -> None:
    """Sweep each ledger of this process once."""
    with _LOCK:
        ledgers = list(_LEDGERS)
    for one in ledgers:
        one.post_sweep()


def _sweep_until_exit() -> None:
    pause = threading.Event()
    while not pause.wait(SWEEP_S):
        sweep_all()
