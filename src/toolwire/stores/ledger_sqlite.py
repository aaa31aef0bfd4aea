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

from toolwire.core.ledger import (
    FULL,
    UNAVAILABLE,
    Claim,
    Ending,
    InFlight,
    Key,
    LedgerLimits,
    Row,
    Standing,
    State,
    Step,
    Stored,
    Ticket,
    conflict,
    interrupted,
    next_step,
    state_of,
)
from toolwire.core.model import Problem

from . import ledger_result
from . import ledger_tables as sql
from .ledger_age import Mark, boot_id, resumed
from .ledger_owner import Owner, is_there, present
from .ledger_tally import Counted, Tally

ROW_BYTES = 400
"""What a row and its index take besides its texts, in bytes."""
ON_DISK = LedgerLimits()
_BUSY_S = 1.0
_SWEEP_EVERY = 64
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
        self._clock = clock
        self._boot = boot_id() if boot is None else boot
        self._unsaved: dict[Ticket, Ending | None] = {}
        self._tally = Tally()
        self._lock = threading.Lock()
        self._taken = 0
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
            self._write(self._sweep)
            self._owner.leave()
            self._db.close()

    async def claim(self, claim: Claim) -> Standing:
        """Return the ticket for a call that may run now, or why it does not."""
        if self._unsaved:
            self._save_endings()
            for ticket in self._unsaved:
                if ticket.key == claim.key:
                    return UNAVAILABLE
        standing: Standing | None = self._add(claim)
        return self._write(partial(self._claim, claim)) if standing is None else standing

    async def settle(self, ticket: Ticket, ending: Ending | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        if ending is not None and ticket.attempt == 1:
            saved = self._end(ticket, ending)
        else:
            saved = self._write(partial(self._settle, ticket, ending))
        if saved is not None and len(self._unsaved) < _MOST_UNSAVED:
            self._unsaved[ticket] = ending

    # What nearly every call is: each is one statement

    def _add(self, claim: Claim) -> Ticket | Problem | None:
        """Return the ticket for a call that is new; None where there is more to be looked at."""
        key, fingerprint, rerun, _ = claim
        size = ROW_BYTES + len(key.principal) + len(key.tool) + len(key.call_id)
        if (self._taken + 1) % _SWEEP_EVERY == 0 or not self._tally.has_room(self._limits, size):
            return None
        added = self._at_once(sql.ADD_NEW, (*key, fingerprint, rerun, self._owner.number, 1, size))
        if isinstance(added, Problem):
            return added
        if not added:
            return None
        self._taken += 1
        self._tally.add(1, size)
        return Ticket(key, self._owner.number, 1)

    def _end(self, ticket: Ticket, ending: Ending) -> Problem | None:
        """Remember how a call ended that ran for the first time."""
        answer = ledger_result.write(ending.result, self._limits.answer_bytes)
        until = self._age() + self._limits.keep_s
        values = (ending.state.value, ending.pinned, answer, len(answer), until, *ticket.key, ticket.owner, 1)
        ended = self._at_once(sql.SETTLE, values)
        if isinstance(ended, Problem):
            return ended
        if ended:
            self._tally.add(0, len(answer))
            if self._tally.over(self._limits):
                self._write(partial(self._make_room, 0, 0))
        return None

    # Each of these runs inside one transaction

    def _claim(self, claim: Claim) -> Standing:
        found = self._find(claim.key)
        match next_step(None if found is None else self._row(found), claim):
            case Step.WAIT if found is not None:
                return InFlight(found.attempt)
            case Step.REFUSE:
                return conflict(claim.key)
            case Step.REPLAY if found is not None:
                return Stored(ledger_result.read(found.answer or b""))
            case Step.INTERRUPT if found is not None:
                answer = self._interrupt(found.number, claim.key, found.size, rerun=False)
                return Stored(ledger_result.read(answer))
            case _:
                return self._take(claim, found)

    def _find(self, key: Key) -> sql.Found | None:
        values = self._db.execute(sql.FIND, key).fetchone()
        if values is None:
            return None
        found = sql.Found(*values)
        if found.until is not None and found.until <= self._age():
            self._remove(found.number, found.size)
            return None
        return found

    def _row(self, found: sql.Found) -> Row:
        owned = found.until is None and (found.owner == self._owner.number or is_there(self._path, found.owner))
        return Row(found.fingerprint, State(found.state), owned, bool(found.pinned), found.attempt)

    def _take(self, claim: Claim, found: sql.Found | None) -> Standing:
        if found is not None:
            return self._take_again(claim, found)
        self._taken += 1
        if self._taken % _SWEEP_EVERY == 0:
            self._sweep()
        size = ROW_BYTES + len(claim.key.principal) + len(claim.key.tool) + len(claim.key.call_id)
        if not self._make_room(1, size):
            return FULL
        key, fingerprint, rerun, _ = claim
        self._db.execute(sql.ADD, (*key, fingerprint, rerun, self._owner.number, 1, size))
        return Ticket(key, self._owner.number, 1)

    def _take_again(self, claim: Claim, found: sql.Found) -> Ticket:
        """Return the ticket for another run of a call; what is known of the last stays until this one has ended."""
        attempt = found.attempt + 1
        self._db.execute(sql.AGAIN, (claim.rerun, self._owner.number, attempt, found.number))
        return Ticket(claim.key, self._owner.number, attempt)

    def _settle(self, ticket: Ticket, ending: Ending | None) -> None:
        mine, earlier = (*ticket.key, ticket.owner, ticket.attempt), 0
        if ticket.attempt > 1:
            found = self._db.execute(sql.EARLIER, mine).fetchone()
            if found is None or ending is None:
                return None if found is None else self._restore(ticket.key, *found)
            earlier = len(found[2] or b"")
        elif ending is None:
            gone = self._db.execute(sql.FORGET, mine).fetchall()
            return self._tally.add(-len(gone), -sum(size for (size,) in gone))
        answer = ledger_result.write(ending.result, self._limits.answer_bytes)
        more = len(answer) - earlier
        values = (ending.state.value, ending.pinned, answer, more, self._age() + self._limits.keep_s, *mine)
        if self._db.execute(sql.SETTLE, values).rowcount:
            self._make_room(0, more)
        return None

    def _restore(self, key: Key, number: int, size: int, answer: bytes | None) -> None:
        """Know again what was known before a run that was none."""
        if answer is None:  # an owner died with it, and this was the first try after that
            self._interrupt(number, key, size, rerun=True)
            answer = b""
        state = state_of(ledger_result.read(answer)) if answer else State.INTERRUPTED
        self._db.execute(sql.RESTORE, (state.value, self._age() + self._limits.keep_s, number))

    def _make_room(self, rows: int, size: int) -> bool:
        """Count ``rows`` and ``size`` in, and the oldest ended calls out, until there is room; say whether there is."""
        self._tally.add(rows, size)
        while self._tally.over(self._limits):
            oldest = self._db.execute(sql.OLDEST).fetchall()
            if not oldest:
                self._tally.add(-rows, -size)
                return False
            self._remove(*oldest[0])
        return True

    def _remove(self, number: int, size: int) -> None:
        self._db.execute(sql.REMOVE, (number,))
        self._tally.add(-1, -size)

    def _interrupt(self, number: int, key: Key, size: int, *, rerun: bool) -> bytes:
        """Note that nobody knows what became of a call; return the answer to it."""
        answer = ledger_result.write(interrupted(key), self._limits.answer_bytes)
        until = self._age() + self._limits.keep_s
        self._db.execute(sql.INTERRUPT, (not rerun, answer, size + len(answer), until, number))
        self._tally.add(0, len(answer))
        return answer

    def _sweep(self) -> None:
        for number, size in self._db.execute(sql.EXPIRED, (self._age(),)).fetchall():
            self._remove(number, size)
        self._tally.share(self._db)
        self._save_age()

    def _save_age(self) -> None:
        self._db.execute("DELETE FROM age")
        self._db.execute("INSERT INTO age VALUES (?, ?, ?)", (self._boot, self._clock(), self._age()))

    def _join(self) -> None:
        """Take the ledger's age up, count what is in it, and note the calls whose owner is gone as interrupted."""
        mark = self._db.execute("SELECT boot, clock, age FROM age").fetchone()
        self._offset = resumed(None if mark is None else Mark(*mark), self._boot, self._clock()) - self._clock()
        self._save_age()
        self._tally.recount(self._db)
        there = present(self._path)
        for number, principal, tool, call_id, rerun, owner, size in self._db.execute(sql.RUNNING).fetchall():
            if owner not in there:
                self._interrupt(number, Key(principal, tool, call_id), size, rerun=bool(rerun))

    # Around them

    def _begin(self) -> None:
        self._db = sql.connect(self._path, _BUSY_S)
        if isinstance(self._write(self._join), Problem):
            self._db.close()
            raise sql.unusable(self._path, "it cannot be written")
        try:
            self._owner = Owner(self._path)
        except OSError as error:
            self._db.close()
            raise sql.unusable(self._path, error) from error
        self._open = True

    def _age(self) -> float:
        return self._clock() + self._offset

    def _save_endings(self) -> None:
        for ticket, ending in list(self._unsaved.items()):
            if self._write(partial(self._settle, ticket, ending)) is not None:
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
