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
from typing import TypeAlias, cast

from toolwire.core.ledger import (
    FULL,
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
_Kept: TypeAlias = tuple[bytes, int, int, _Answer, bool, bool, float]
"""A call that has ended: its fingerprint, attempt and size, its answer, whether it failed, whether that is pinned, and
until when it is kept, in seconds of the ledger's clock."""


_Run: TypeAlias = tuple[bytes, int, int, int, _Kept | None]
"""A call that runs: its fingerprint, attempt and size, the number of its ticket, and what was known of it before it
ran again, while nobody knows whether it does."""


class MemoryLedger:
    """Remembers calls of this process. ``clock`` is in seconds and never goes back; the clock on the wall may."""

    def __init__(self, limits: LedgerLimits = IN_MEMORY, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._running: dict[Key, _Run] = {}
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()  # as they ended; a dict looks for its first ever longer
        self._bytes = 0
        self._taken = 0  # numbers the tickets: none is given twice
        self._due = inf  # nothing is to be forgotten before

    def __len__(self) -> int:
        return len(self._running) + len(self._kept)

    async def claim(self, claim: Claim) -> Standing:
        """Return the ticket for a call that may run now, or why it does not."""
        key, fingerprint, _, _ = claim
        if len(fingerprint) > _AS_IT_IS:
            claim = digested(claim)
            fingerprint = claim.fingerprint
        running, kept = self._running, self._kept
        if self._clock() >= self._due:
            self._expire()
        if key in kept or key in running:
            return self._again(claim)
        size = ROW_BYTES + len(key.call_id)
        limits = self._limits
        is_full = self._bytes + size > limits.bytes or len(running) + len(kept) >= limits.rows
        if is_full and not self._room(size):
            return FULL
        self._bytes += size
        self._taken = serial = self._taken + 1
        running[key] = (fingerprint, 1, size, serial, None)
        return ticket_of((key, serial, 1))

    async def settle(self, ticket: Ticket, ending: Ending | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        key, owner, _ = ticket
        run = self._running.get(key)
        if run is None:
            return
        fingerprint, attempt, size, serial, before = run
        if serial != owner:
            return
        del self._running[key]
        until = self._clock() + self._limits.keep_s
        if not self._kept:
            self._due = until
        if ending is not None:
            state, result, pinned = ending
            answer, more = _answer(result, self._limits.answer_bytes)
            if before is not None:
                more += ROW_BYTES + len(key.call_id) - size  # so far it had the room of the run before, with its answer
            if more:
                self._room(more)
                self._bytes += more
            self._kept[key] = (fingerprint, attempt, size + more, answer, state is _FAILED, pinned, until)
        elif before is not None:
            self._kept[key] = (*before[:-1], until)
        else:
            self._bytes -= size

    def _again(self, claim: Claim) -> Standing:
        """Return what a call comes to that has come before."""
        key = claim.key
        run, before = self._running.get(key), self._kept.get(key)
        if run is not None:
            row = Row(run[0], State.RUNNING, owned=True, pinned=False, attempt=run[1])
        else:
            fingerprint, attempt, _, _, failed, pinned, _ = cast("_Kept", before)
            row = Row(fingerprint, State.FAILED if failed else State.DONE, owned=True, pinned=pinned, attempt=attempt)
        match next_step(row, claim):
            case Step.WAIT:
                return InFlight(row.attempt)
            case Step.REFUSE:
                return conflict(key)
            case Step.REPLAY:
                return Stored(_told(cast("_Kept", before)[3]))
            case _:
                return self._take_again(claim, cast("_Kept", before))

    def _take_again(self, claim: Claim, before: _Kept) -> Ticket:
        """Return the ticket for another run of a call that is kept; it takes the room that the call has."""
        del self._kept[claim.key]
        self._taken += 1
        _, attempt, size, *_ = before
        self._running[claim.key] = (claim.fingerprint, attempt + 1, size, self._taken, before)
        return Ticket(claim.key, self._taken, attempt + 1)

    def _room(self, size: int) -> bool:
        """Drop the calls that ended first until there is room for one more of ``size``; say whether there is."""
        limits, running, kept = self._limits, self._running, self._kept
        while self._bytes + size > limits.bytes or len(running) + len(kept) >= limits.rows:
            if not kept:
                return False
            self._bytes -= kept.popitem(last=False)[1][2]
        return True

    def _expire(self) -> None:
        now, kept = self._clock(), self._kept
        while kept and next(iter(kept.values()))[-1] <= now:
            self._bytes -= kept.popitem(last=False)[1][2]
        self._due = next(iter(kept.values()))[-1] if kept else inf


def _answer(result: Result, most: int) -> tuple[_Answer, int]:
    """Return ``result`` so that nobody can change it any more, and about how many bytes that takes."""
    if isinstance(result, Value) and result.notes is None:
        value = result.value
        sort = type(value)
        if (sort is int and -_WORD < value < _WORD) or sort is bool or value is None:
            return value, 0
        if sort is str and len(value) < _SMALL and 4 * len(value) <= most:
            return value, len(value)
    answer = ledger_result.write(result, most)
    return answer, len(answer)


def _told(answer: _Answer) -> Result:
    return ledger_result.read(answer) if isinstance(answer, bytes) else Value(answer, told_again(None))
