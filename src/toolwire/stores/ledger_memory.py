"""A ledger of calls that lives as long as its process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

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
)

from . import ledger_result

ROW_BYTES = 400
"""What a row takes besides its texts, in bytes."""
IN_MEMORY = LedgerLimits(bytes=64 << 20)


@dataclass(slots=True)
class _Kept:
    """An ended call: its answer as bytes, and until when it is kept, in seconds of the ledger's clock."""

    claim: Claim
    ending: Ending
    attempt: int
    answer: bytes
    until: float


class MemoryLedger:
    """Remembers calls of this process. ``clock`` is in seconds and never goes back; the clock on the wall may."""

    def __init__(self, limits: LedgerLimits = IN_MEMORY, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._running: dict[Key, tuple[Claim, int]] = {}
        self._kept: dict[Key, _Kept] = {}  # in the order in which they ended
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._running) + len(self._kept)

    async def claim(self, claim: Claim) -> Standing:
        """Return the ticket for a call that may run now, or why it does not."""
        key = claim.key
        self._expire()
        kept = self._kept.get(key)
        match next_step(self._row(key, kept), claim):
            case Step.WAIT:
                return InFlight(self._running[key][1])
            case Step.REFUSE:
                return conflict(key)
            case Step.REPLAY if kept is not None:
                return Stored(ledger_result.read(kept.answer))
            case _:
                return self._take(claim, 1 if kept is None else kept.attempt + 1)

    async def settle(self, ticket: Ticket, ending: Ending | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets it."""
        key = ticket.key
        claim, attempt = self._running.get(key, (None, 0))
        if claim is None or attempt != ticket.attempt:
            return
        del self._running[key]
        self._bytes -= _size(key)
        if ending is None:
            return
        answer = ledger_result.write(ending.result, self._limits.answer_bytes)
        self._make_room(len(answer) + _size(key))
        self._bytes += len(answer) + _size(key)
        self._kept[key] = _Kept(claim, ending, attempt, answer, self._clock() + self._limits.keep_s)

    def _row(self, key: Key, kept: _Kept | None) -> Row | None:
        if kept is not None:
            return Row(kept.claim.fingerprint, kept.ending.state, True, kept.ending.pinned, kept.attempt)
        if key not in self._running:
            return None
        claim, attempt = self._running[key]
        return Row(claim.fingerprint, State.RUNNING, True, False, attempt)

    def _take(self, claim: Claim, attempt: int) -> Standing:
        key = claim.key
        if key in self._kept:
            self._drop(key)
        if not self._make_room(_size(key)):
            return FULL
        self._bytes += _size(key)
        self._running[key] = (claim, attempt)
        return Ticket(key, 0, attempt)

    def _make_room(self, size: int) -> bool:
        """Drop the calls that ended first until there is room for one more of ``size``; say whether there is."""
        limits = self._limits
        while len(self) >= limits.rows or self._bytes + size > limits.bytes:
            if not self._kept:
                return False
            self._drop(next(iter(self._kept)))
        return True

    def _expire(self) -> None:
        now = self._clock()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        self._bytes -= len(self._kept.pop(key).answer) + _size(key)


def _size(key: Key) -> int:
    return ROW_BYTES + len(key.principal) + len(key.tool) + len(key.call_id)
