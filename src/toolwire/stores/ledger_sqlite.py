"""A ledger of calls in an SQLite file: it outlives its process, and several processes of one machine share it.

Rules:
- Every change is one short transaction that takes the write lock at its beginning, so one of many claims wins. What
  nearly every call is, a new one that ends, is two statements, each a transaction of its own.
- When the file cannot be written nothing new is recorded, and so nothing new is run under a key. [R13]
- The ending of a call that could not be written is kept in memory and written when that is possible again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from toolwire.core.ledger import UNAVAILABLE, Claim, Ending, LedgerLimits, Standing, Ticket, digested
from toolwire.core.model import Problem

from . import ledger_result
from . import ledger_tables as sql
from .ledger_age import Age, boot_id
from .ledger_calls import Calls, row_bytes
from .ledger_owner import Owner
from .ledger_tally import Counted, Tally

ON_DISK = LedgerLimits()
_BUSY_S = 1.0
_MOST_UNSAVED = 1_000

_log = logging.getLogger("toolwire.ledger")
_T = TypeVar("_T")


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
        self._age = Age(boot_id() if boot is None else boot, clock)
        self._tally = Tally()
        self._calls = Calls(self._path, limits, age=self._age, tally=self._tally)
        self._unsaved: dict[Ticket, Ending | None] = {}
        self._lock = threading.Lock()
        self._open = False
        self._begin()

    async def begin(self) -> None:
        """Open the file again, where it was closed."""
        if not self._open:
            self._begin()

    async def end(self) -> None:
        """Close the file. Calls that still run are then as those of a process that died."""
        if self._open:
            self._open = False
            self._write(self._calls.sweep)
            self._owner.leave()
            self._db.close()

    async def claim(self, claim: Claim) -> Standing:
        """Return the ticket for a call that may run now, or why it does not."""
        if self._unsaved:
            self._save_endings()
            for ticket in self._unsaved:
                if ticket.key == claim.key:
                    return UNAVAILABLE
        claim = digested(claim)
        standing: Standing | None = self._add(claim)
        return self._write(partial(self._calls.claim, claim, self._owner.number)) if standing is None else standing

    async def settle(self, ticket: Ticket, ending: Ending | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        if ending is not None and ticket.attempt == 1:
            saved = self._end(ticket, ending)
        else:
            saved = self._write(partial(self._calls.settle, ticket, ending))
        if saved is not None and len(self._unsaved) < _MOST_UNSAVED:
            self._unsaved[ticket] = ending

    # What nearly every call is: each is one statement

    def _add(self, claim: Claim) -> Ticket | Problem | None:
        """Return the ticket for a call that is new; None where there is more to be looked at."""
        key, fingerprint, rerun, _ = claim
        size = row_bytes(key)
        if self._calls.sweeps_next() or not self._tally.has_room(self._limits, size):
            return None
        added = self._at_once(sql.ADD_NEW, (*key, fingerprint, rerun, self._owner.number, 1, size))
        if isinstance(added, Problem):
            return added
        if not added:
            return None
        self._calls.taken += 1
        self._tally.add(1, size)
        return Ticket(key, self._owner.number, 1)

    def _end(self, ticket: Ticket, ending: Ending) -> Problem | None:
        """Remember how a call ended that ran for the first time."""
        answer = ledger_result.write(ending.result, self._limits.answer_bytes)
        until = self._age.now() + self._limits.keep_s
        values = (ending.state.value, ending.pinned, answer, len(answer), until, *ticket.key, ticket.owner, 1)
        ended = self._at_once(sql.SETTLE, values)
        if isinstance(ended, Problem):
            return ended
        if ended:
            self._tally.add(0, len(answer))
            if self._tally.over(self._limits):
                self._write(partial(self._calls.make_room, 0, 0))
        return None

    # Around them

    def _begin(self) -> None:
        self._db = sql.connect(self._path, _BUSY_S)
        if isinstance(self._write(partial(self._calls.join, self._db)), Problem):
            self._db.close()
            raise sql.unusable(self._path, "it cannot be written")
        try:
            self._owner = Owner(self._path)
        except OSError as error:
            self._db.close()
            raise sql.unusable(self._path, error) from error
        self._open = True

    def _save_endings(self) -> None:
        for ticket, ending in list(self._unsaved.items()):
            if self._write(partial(self._calls.settle, ticket, ending)) is not None:
                return
            del self._unsaved[ticket]

    def _at_once(self, statement: str, values: tuple[object, ...]) -> int | Problem:
        """Return how many rows a statement changes, or the Problem that the file cannot be written."""
        with self._lock:
            try:
                return self._db.execute(statement, values).rowcount
            except (sqlite3.Error, OSError) as error:
                _log.error("the ledger %s cannot be written: %s", self._path.name, error)
                return UNAVAILABLE

    def _write(self, work: Callable[[], _T]) -> _T | Problem:
        """Return what ``work`` does in one transaction, or the Problem that the file cannot be written."""
        db, counted = self._db, self._tally.counted
        with self._lock:
            try:
                db.execute("BEGIN IMMEDIATE")
                found = work()
                db.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                _log.error("the ledger %s cannot be written: %s", self._path.name, error)
                self._roll_back(counted)
                return UNAVAILABLE
            except BaseException:
                self._roll_back(counted)
                raise
        return found

    def _roll_back(self, counted: Counted) -> None:
        self._tally.counted = counted
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error as error:
            _log.error("the ledger %s could not go back: %s", self._path.name, error)
