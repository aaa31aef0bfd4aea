"""A ledger of calls that lives as long as its process.

Rules:
- Nothing here waits, and what is done for each call is little: most calls of some protocols come with a key.
- What is kept of a call is a plain tuple of what cannot change: the garbage collector does not look at such twice,
  however many there are.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import TypeAlias

from toolwire.core.ledger import (
    FULL,
    Claim,
    Ending,
    InFlight,
    LedgerLimits,
    Row,
    Standing,
    State,
    Step,
    Stored,
    Ticket,
    conflict,
    digested,
    next_step,
    ticket_of,
    told_again,
)
from toolwire.core.model import Result, Value

from . import ledger_result

ROW_BYTES = 460
"""What a row takes besides its caller's id and its answer, in bytes; the names in its key are not its own."""
IN_MEMORY = LedgerLimits(bytes=64 << 20)
_AS_IT_IS = 64
"""How long a fingerprint may be to be kept as it is, in bytes; a digest of it would take about as much."""
_SMALL = 1_000
_WORD = 1 << 63
_FAILED = State.FAILED

_Answer: TypeAlias = bytes | str | int | bool | None
"""A value that cannot change, as it is; of any other result what ``ledger_result`` writes."""
_Name: TypeAlias = tuple[str, str, str]
"""What a Key holds, as a plain tuple: its slice."""
_Kept: TypeAlias = tuple[bytes, int, int, _Answer, bool, bool, float]
"""A call that has ended: its fingerprint, attempt and size, its answer, whether it failed, whether that is pinned, and
until when it is kept, in seconds of the ledger's clock."""


class MemoryLedger:
    """Remembers calls of this process. ``clock`` is in seconds and never goes back; the clock on the wall may.

    A call that runs is in here as its ticket, whose owner is the call's name, fingerprint and size, and what was known
    of it before it ran again, while nobody knows whether it does.
    """

    def __init__(self, limits: LedgerLimits = IN_MEMORY, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_rows, self._most_bytes = limits.rows, limits.bytes
        self._most_of_answer, self._keep_s = limits.answer_bytes, limits.keep_s
        self._clock = clock
        self._rows: OrderedDict[_Name, Ticket | _Kept] = OrderedDict()  # a dict looks for its first ever longer
        self._bytes = 0
        self._due = inf  # nothing is to be forgotten before

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size(self) -> int:
        """How many bytes the calls in it take."""
        return self._bytes

    async def claim(self, claim: Claim) -> Standing:
        """Return the ticket for a call that may run now, or why it does not."""
        key, fingerprint, _, _ = claim
        if len(fingerprint) > _AS_IT_IS:
            claim = digested(claim)
            fingerprint = claim[1]
        rows, name = self._rows, key[:]
        if name in rows:
            known = self._again(name, claim)
            if known is not None:
                return known
        size = _own_bytes(name)
        if (self._bytes + size > self._most_bytes or len(rows) >= self._most_rows) and not self._room(size, rows=1):
            return FULL
        self._bytes += size
        own = b"%b" % fingerprint  # in a place of its own size, as any answer
        ticket = rows[name] = ticket_of((key, (name, own, size, None), 1))
        return ticket

    async def settle(self, ticket: Ticket, ending: Ending | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        _, (name, fingerprint, size, before), attempt = ticket
        rows = self._rows
        if rows.get(name) is not ticket:
            return
        now = self._clock()
        until = now + self._keep_s
        if now >= self._due:
            self._expire(now)
        if self._due == inf:
            self._due = until
        if ending is not None:
            state, result, pinned = ending
            answer, more = _answer(result, self._most_of_answer)
            if before is not None:
                more += _own_bytes(name) - size  # so far it had the room of the run before, with its answer
            if more:
                if self._bytes + more > self._most_bytes:
                    self._room(more)
                self._bytes += more
                size += more
            rows[name] = (fingerprint, attempt, size, answer, state is _FAILED, pinned, until)
        elif before is not None:
            rows[name] = (*before[:-1], until)
        else:
            del rows[name]
            self._bytes -= size
            return
        rows.move_to_end(name)

    def _again(self, name: _Name, claim: Claim) -> Standing | None:
        """Return what a call comes to that has come before; None where that is forgotten by now."""
        self._expire(self._clock())
        before = self._rows.get(name)
        if before is None:
            return None
        if isinstance(before, Ticket):
            run = Row(before.owner[1], State.RUNNING, owned=True, pinned=False, attempt=before.attempt)
            return InFlight(before.attempt) if next_step(run, claim) is Step.WAIT else conflict(claim.key)
        fingerprint, attempt, size, answer, failed, pinned, _ = before
        state = State.FAILED if failed else State.DONE
        step = next_step(Row(fingerprint, state, owned=True, pinned=pinned, attempt=attempt), claim)
        if step is Step.REFUSE:
            return conflict(claim.key)
        if step is Step.REPLAY:
            return Stored(_told(answer))
        ticket = Ticket(claim.key, (name, fingerprint, size, before), attempt + 1)  # in the room that the call has
        self._rows[name] = ticket
        return ticket

    def _room(self, size: int, *, rows: int = 0) -> bool:
        """Drop the calls that ended first until there is room for ``size`` more and ``rows``; say whether there is.

        Once it is at it, it makes room for the next calls too: a thousandth of all there is.
        """
        known, running = self._rows, 0
        most_bytes, most_rows = self._most_bytes - size, self._most_rows - rows
        few_bytes, few_rows = most_bytes - self._most_bytes // 1_000, most_rows - self._most_rows // 1_000
        while (self._bytes > few_bytes or len(known) > few_rows) and running < len(known):
            name, row = known.popitem(last=False)
            if isinstance(row, Ticket):  # it has not ended, so it is none of the first to go
                known[name] = row
                running += 1
            else:
                self._bytes -= row[2]
        return self._bytes <= most_bytes and len(known) <= most_rows

    def _expire(self, now: float) -> None:
        rows, running = self._rows, 0
        self._due = inf
        while running < len(rows):
            name, row = next(iter(rows.items()))
            if isinstance(row, Ticket):
                rows.move_to_end(name)
                running += 1
            elif row[-1] > now:
                self._due = row[-1]
                return
            else:
                del rows[name]
                self._bytes -= row[2]


def _own_bytes(name: _Name) -> int:
    return ROW_BYTES + _bytes(name[2])


def _bytes(text: str) -> int:
    """Return about how many bytes ``text`` takes besides what every text does."""
    return len(text) if text.isascii() else 4 * len(text)


def _answer(result: Result, most: int) -> tuple[_Answer, int]:
    """Return ``result`` so that nobody can change it any more, and about how many bytes that takes."""
    if isinstance(result, Value) and result.notes is None:
        value = result.value
        sort = type(value)
        if (sort is int and -_WORD < value < _WORD) or sort is bool or value is None:
            return value, 0
        if sort is str and len(value) < _SMALL and 4 * len(value) <= most:
            return value, _bytes(value)
    answer = b"%b" % ledger_result.write(result, most)  # what a writer made of its buffer holds kilobytes more
    return answer, len(answer)


def _told(answer: _Answer) -> Result:
    return ledger_result.read(answer) if isinstance(answer, bytes) else Value(answer, told_again(None))
