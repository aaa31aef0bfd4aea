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
from itertools import count
from math import inf
from typing import TypeAlias

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
        self._most_rows, self._most_bytes = limits.rows, limits.bytes
        self._most_of_answer, self._keep_s = limits.answer_bytes, limits.keep_s
        self._clock = clock
        self._running: dict[Key, _Run] = {}
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()  # as they ended; a dict looks for its first ever longer
        self._bytes = 0
        self._number = count(1).__next__  # of tickets: none is given twice
        self._due = inf  # nothing is to be forgotten before

    def __len__(self) -> int:
        return len(self._running) + len(self._kept)

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
        running, kept = self._running, self._kept
        if key in kept or key in running:
            known = self._again(claim)
            if known is not None:
                return known
        size = ROW_BYTES + len(key.call_id)
        is_full = self._bytes + size > self._most_bytes or len(running) + len(kept) >= self._most_rows
        if is_full and not self._room(size):
            return FULL
        self._bytes += size
        serial = self._number()
        running[key] = (b"%b" % fingerprint, 1, size, serial, None)  # in a place of its own size, as any answer
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
        now = self._clock()
        until = now + self._keep_s
        if now >= self._due:
            self._expire(now)
        if not self._kept:
            self._due = until
        if ending is not None:
            state, result, pinned = ending
            answer, more = _answer(result, self._most_of_answer)
            if before is not None:
                more += ROW_BYTES + len(key.call_id) - size  # so far it had the room of the run before, with its answer
            if more:
                self._room(more)
                self._bytes += more
                size += more
            self._kept[key] = (fingerprint, attempt, size, answer, state is _FAILED, pinned, until)
        elif before is not None:
            self._kept[key] = (*before[:-1], until)
        else:
            self._bytes -= size

    def _again(self, claim: Claim) -> Standing | None:
        """Return what a call comes to that has come before; None where that is forgotten by now."""
        key = claim.key
        run = self._running.get(key)
        if run is not None:
            attempt = run[1]
            same = next_step(Row(run[0], State.RUNNING, owned=True, pinned=False, attempt=attempt), claim) is Step.WAIT
            return InFlight(attempt) if same else conflict(key)
        self._expire(self._clock())
        before = self._kept.get(key)
        if before is None:
            return None
        fingerprint, attempt, size, answer, failed, pinned, _ = before
        state = State.FAILED if failed else State.DONE
        step = next_step(Row(fingerprint, state, owned=True, pinned=pinned, attempt=attempt), claim)
        if step is Step.REFUSE:
            return conflict(key)
        if step is Step.REPLAY:
            return Stored(_told(answer))
        del self._kept[key]
        serial = self._number()
        self._running[key] = (fingerprint, attempt + 1, size, serial, before)  # in the room that the call has
        return Ticket(key, serial, attempt + 1)

    def _room(self, size: int) -> bool:
        """Drop the calls that ended first until there is room for one more of ``size``; say whether there is."""
        running, kept = self._running, self._kept
        while self._bytes + size > self._most_bytes or len(running) + len(kept) >= self._most_rows:
            if not kept:
                return False
            self._bytes -= kept.popitem(last=False)[1][2]
        return True

    def _expire(self, now: float) -> None:
        kept = self._kept
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
    answer = b"%b" % ledger_result.write(result, most)  # what a writer made of its buffer holds kilobytes more
    return answer, len(answer)


def _told(answer: _Answer) -> Result:
    return ledger_result.read(answer) if isinstance(answer, bytes) else Value(answer, told_again(None))
