"""A ledger of calls that lives as long as its process.

Rules:
- Nothing here waits, and what is done for each call is little: most calls of some protocols come with a key.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

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
    next_step,
    ticket_of,
    told_again,
)
from toolwire.core.model import Result, Value

from . import ledger_result

ROW_BYTES = 400
"""What a row takes besides its texts, in bytes."""
IN_MEMORY = LedgerLimits(bytes=64 << 20)
_SMALL = 1_000
_WORD = 1 << 63


@dataclass(slots=True)
class _Row:
    """A call that runs or has ended; ``until`` is when it is forgotten, in seconds of the ledger's clock.

    ``before`` is what was known of it before it was run again, while nobody knows whether it does.
    """

    fingerprint: bytes
    attempt: int
    size: int
    serial: int
    state: State = State.RUNNING
    pinned: bool = False
    answer: bytes | Value = b""
    until: float = inf
    before: _Row | None = None


class MemoryLedger:
    """Remembers calls of this process. ``clock`` is in seconds and never goes back; the clock on the wall may."""

    def __init__(self, limits: LedgerLimits = IN_MEMORY, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._running: dict[Key, _Row] = {}
        self._kept: OrderedDict[Key, _Row] = OrderedDict()  # as they ended; a dict looks for its first ever longer
        self._bytes = 0
        self._taken = 0  # numbers the tickets: none is given twice
        self._due = inf  # nothing is to be forgotten before

    def __len__(self) -> int:
        return len(self._running) + len(self._kept)

    async def claim(self, claim: Claim) -> Standing:
        """Return the ticket for a call that may run now, or why it does not."""
        key = claim.key
        if self._clock() >= self._due:
            self._expire()
        row = self._running.get(key) or self._kept.get(key)
        if row is None:
            return self._take(claim)
        match next_step(Row(row.fingerprint, row.state, True, row.pinned, row.attempt), claim):
            case Step.WAIT:
                return InFlight(row.attempt)
            case Step.REFUSE:
                return conflict(key)
            case Step.REPLAY:
                return Stored(_told(row.answer))
            case _:
                return self._take_again(claim, row)

    async def settle(self, ticket: Ticket, ending: Ending | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        key = ticket.key
        row = self._running.get(key)
        if row is None or row.serial != ticket.owner:
            return
        del self._running[key]
        self._bytes -= row.size
        if ending is None:
            if row.before is not None:
                self._keep(key, row.before)
            return
        if row.before is not None:
            row.before, row.size = None, _row_bytes(key)
        row.state, result, row.pinned = ending
        row.answer, size = _kept(result, self._limits.answer_bytes)
        row.size += size
        self._keep(key, row)

    def _keep(self, key: Key, row: _Row) -> None:
        row.until = until = self._clock() + self._limits.keep_s
        self._make_room(row.size)
        self._bytes += row.size
        self._kept[key] = row
        self._due = min(self._due, until)

    def _take(self, claim: Claim) -> Standing:
        key, fingerprint, _, _ = claim
        size = _row_bytes(key)
        if not self._make_room(size):
            return FULL
        self._bytes += size
        self._taken = serial = self._taken + 1
        self._running[key] = _Row(fingerprint, 1, size, serial)
        return ticket_of((key, serial, 1))

    def _take_again(self, claim: Claim, before: _Row) -> Ticket:
        """Return the ticket for another run of a call that is kept; it takes the room that the call has."""
        del self._kept[claim.key]
        self._taken += 1
        row = _Row(claim.fingerprint, before.attempt + 1, before.size, self._taken, before=before)
        self._running[claim.key] = row
        return Ticket(claim.key, self._taken, row.attempt)

    def _make_room(self, size: int) -> bool:
        """Drop the calls that ended first until there is room for one more of ``size``; say whether there is."""
        limits = self._limits
        while len(self._running) + len(self._kept) >= limits.rows or self._bytes + size > limits.bytes:
            if not self._kept:
                return False
            self._bytes -= self._kept.popitem(last=False)[1].size
        return True

    def _expire(self) -> None:
        now = self._clock()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self._bytes -= self._kept.popitem(last=False)[1].size
        self._due = next(iter(self._kept.values())).until if self._kept else inf


def _row_bytes(key: Key) -> int:
    principal, tool, call_id = key
    return ROW_BYTES + len(principal) + len(tool) + len(call_id)


def _kept(result: Result, most: int) -> tuple[bytes | Value, int]:
    """Return ``result`` so that nobody can change it any more, and about how many bytes that takes."""
    if isinstance(result, Value) and result.notes is None:
        value = result.value
        if value is None or type(value) is bool or (type(value) is int and -_WORD < value < _WORD):
            return result, 0
        if type(value) is str and len(value) < _SMALL and 4 * len(value) <= most:
            return result, len(value)
    answer = ledger_result.write(result, most)
    return answer, len(answer)


def _told(answer: bytes | Value) -> Result:
    return Value(answer.value, told_again(None)) if isinstance(answer, Value) else ledger_result.read(answer)
