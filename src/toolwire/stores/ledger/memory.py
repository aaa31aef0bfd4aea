"""Keep a ledger of calls in memory, for as long as the process lives.

Rules:
- Nothing here waits, and each call costs little, because nearly every call of some protocols has a key.
- A caller who needs room loses the oldest of their own ended calls. A call of another caller is never removed for it,
  because it could then run twice.
- A call is stored as a plain tuple of immutable values. The garbage collector skips such tuples, however many there
  are.
"""
#

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from toolwire.core.ledger import (
    FULL,
    CallEnding,
    CallState,
    Claim,
    ClaimAction,
    ClaimOutcome,
    InFlight,
    LedgerLimits,
    LedgerRow,
    StoredResult,
    Ticket,
    build_conflict,
    compute_excess,
    decide_claim,
    digest_fingerprint,
    make_ticket,
    mark_replayed,
)
from toolwire.core.model import Result, Value

from . import result_bytes

ROW_BYTES = 460
"""The bytes of a row without the caller's id of the call and the answer. Rows share the other texts of their keys."""
IN_MEMORY = LedgerLimits(bytes=64 << 20, answer_bytes=256 << 10)
_CALLER_BYTES = 700
"""The bytes of a caller without their calls."""
_ROWS_A_CALL = 64
_CHECKS_A_CALL = 4
"""How many rows of one caller, and how many callers, one call checks for rows that have expired."""
_SWEEP_S = 60.0
_ROWS_A_SWEEP = 2_048
"""How often results past their time are looked for on a quiet server, and how many leave before others may go on."""
_SPARE_PART = 1_024
"""A full ledger is emptied by this part of its rows at a time."""
_MAX_PLAIN_FINGERPRINT = 64
"""The longest fingerprint that is kept as it is, in bytes. A digest of it would take about as much."""
_SMALL_TEXT = 1_000
_WORD = 1 << 63
_FAILED = CallState.FAILED

_Answer: TypeAlias = bytes | str | int | bool | None
"""A value that cannot change, as it is; any other result as ``result_bytes`` writes it."""
_CallName: TypeAlias = tuple[str, str, str]
"""The parts of a CallKey as a plain tuple."""
_EndedCall: TypeAlias = tuple[bytes, int, int, _Answer, bool, bool, float]
"""A call that has ended: its fingerprint, attempt, size and answer, whether it failed, whether the answer is pinned,
and until when it is kept, in seconds of the ledger's clock."""


class _CallerCalls:
    """The calls of one caller, ``size`` bytes in all. Ended calls stand in the order in which they ended."""

    __slots__ = ("rows", "size")

    def __init__(self) -> None:
        # A dict whose first items are removed takes longer each time to find its first one; an OrderedDict does not.
        self.rows: OrderedDict[_CallName, Ticket | _EndedCall] = OrderedDict()
        self.size = 0


class MemoryLedger:
    """Remembers the calls of this process. ``clock`` is in seconds and never goes back, unlike the time of day.

    A call that runs is stored as its ticket. The ticket's owner has the call's name, fingerprint and size, and the row
    of the run before, if there was one.
    """

    def __init__(self, limits: LedgerLimits = IN_MEMORY, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_rows, self._max_bytes = limits.rows, limits.bytes
        # While at most three quarters are taken, every caller has room by the rule of compute_excess(), so it is
        # not computed.
        self._free_rows, self._free_bytes = limits.rows * 3 // 4, limits.bytes * 3 // 4
        self._spare_rows = limits.rows // _SPARE_PART
        self._max_answer_bytes, self._store_use_s = limits.answer_bytes, limits.keep_s
        self._clock = clock
        self._by_caller: OrderedDict[str, _CallerCalls] = OrderedDict()
        self._rows = 0
        self._bytes = 0
        self._sweeping: asyncio.AbstractEventLoop | None = None  # the event loop that will call _sweep()

    def __len__(self) -> int:
        return self._rows

    @property
    def size(self) -> int:
        """How many bytes the calls in it take."""
        return self._bytes

    async def claim(self, claim: Claim) -> ClaimOutcome:
        """Return the ticket for a call that may run now, or why it does not."""
        # R8: nothing below awaits, so no other task can claim the same key between the look and the new row.
        key, fingerprint, _, _ = claim
        if len(fingerprint) > _MAX_PLAIN_FINGERPRINT:
            claim = digest_fingerprint(claim)
            fingerprint = claim[1]
        # A plain tuple: the garbage collector skips those, but not a NamedTuple.
        name = key[:]
        caller_calls = self._by_caller.get(name[0])
        if caller_calls is None:
            caller_calls = _CallerCalls()
        elif name in caller_calls.rows:
            known = self._claim_again(caller_calls, name, claim)
            if known is not None:
                return known
        size = _row_bytes(name)
        if (self._bytes + size > self._free_bytes or self._rows >= self._free_rows) and not self._make_room(
            caller_calls, size, 1
        ):
            return FULL
        if not caller_calls.rows:
            self._add_caller(name[0], caller_calls)
        self._rows += 1
        self._bytes += size
        caller_calls.size += size
        own = b"%b" % fingerprint  # a copy of its own size, as of an answer: see _write_answer()
        ticket = caller_calls.rows[name] = make_ticket((key, (name, own, size, None), 1))
        return ticket

    async def finish(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        _, (name, fingerprint, size, before), attempt = ticket
        caller_calls = self._by_caller.get(name[0])
        # A second ending of one ticket changes nothing, not even if another run has the key meanwhile.
        if caller_calls is None or caller_calls.rows.get(name) is not ticket:
            return
        rows, now = caller_calls.rows, self._clock()
        until = now + self._store_use_s
        if ending is not None:
            state, result, pinned = ending
            answer, more = _write_answer(result, self._max_answer_bytes)
            if before is not None:
                more += _row_bytes(name) - size  # until now it used the room of the earlier run and its answer
            if more:
                if self._bytes + more > self._free_bytes:
                    self._make_room(caller_calls, more, 0)
                self._bytes += more
                caller_calls.size += more
                size += more
            rows[name] = (fingerprint, attempt, size, answer, state is _FAILED, pinned, until)
        elif before is not None:
            rows[name] = (*before[:-1], until)
        else:
            self._remove(caller_calls, name, size)
            return
        # The oldest ending stays first, so that expired calls are found without a search.
        rows.move_to_end(name)
        self._expire_next(now)
        if self._sweeping is None or self._sweeping.is_closed():
            self._plan_sweep(min(_SWEEP_S, self._store_use_s))

    def _claim_again(self, caller_calls: _CallerCalls, name: _CallName, claim: Claim) -> ClaimOutcome | None:
        """Return the outcome for a key that has a row, or None if that row has expired."""
        before = caller_calls.rows[name]
        if isinstance(before, Ticket):
            run = LedgerRow(before.owner[1], CallState.RUNNING, owned=True, pinned=False, attempt=before.attempt)
            return (
                InFlight(before.attempt) if decide_claim(run, claim) is ClaimAction.WAIT else build_conflict(claim.key)
            )
        fingerprint, attempt, size, answer, failed, pinned, until = before
        if until <= self._clock():
            self._remove(caller_calls, name, size)
            return None
        state = CallState.FAILED if failed else CallState.DONE
        step = decide_claim(LedgerRow(fingerprint, state, owned=True, pinned=pinned, attempt=attempt), claim)
        if step is ClaimAction.REFUSE:
            return build_conflict(claim.key)
        if step is ClaimAction.REPLAY:
            return StoredResult(_read_answer(answer))
        ticket = Ticket(claim.key, (name, fingerprint, size, before), attempt + 1)  # in the room that the call has
        caller_calls.rows[name] = ticket
        return ticket

    def _make_room(self, caller_calls: _CallerCalls, size: int, rows: int) -> bool:
        """Remove the caller's oldest ended calls until ``size`` and ``rows`` fit; return whether they do."""
        now = self._clock()
        for _ in range(min(_CHECKS_A_CALL, len(self._by_caller))):
            self._expire_next(now)
        known, running = caller_calls.rows, 0
        while excess := self._count_excess(caller_calls, size, rows):
            if running >= len(known):
                return False
            # A full ledger is the usual state of a busy server. So some more are removed than are in excess, and most
            # calls remove none.
            for _ in range(min(excess + self._spare_rows, len(known) - running)):
                name = next(iter(known))
                row = known[name]
                if isinstance(row, Ticket):  # it still runs, and only ended calls are removed
                    known.move_to_end(name)
                    running += 1
                else:
                    self._remove(caller_calls, name, row[2])
        return True

    def _count_excess(self, caller_calls: _CallerCalls, size: int, rows: int) -> int:
        """Return how many calls the caller must lose before it may have more room; 0 if it may have that now."""
        excess = compute_excess(len(caller_calls.rows), rows, self._rows, self._max_rows)
        # How many calls hold the bytes in excess is known only after they have been removed, one by one.
        return excess or int(compute_excess(caller_calls.size, size, self._bytes, self._max_bytes) > 0)

    def _expire_next(self, now: float) -> None:
        """Remove a few expired calls of one caller; the next time, those of the next caller."""
        if not self._by_caller:
            return
        principal = next(iter(self._by_caller))
        self._by_caller.move_to_end(principal)
        caller_calls = self._by_caller[principal]
        for _ in range(min(_ROWS_A_CALL, len(caller_calls.rows))):
            name, row = next(iter(caller_calls.rows.items()))
            if isinstance(row, Ticket):
                caller_calls.rows.move_to_end(name)
            elif row[-1] > now:
                return
            else:
                self._remove(caller_calls, name, row[2])

    def _plan_sweep(self, after_s: float) -> None:
        # GR-03: what is over leaves a quiet server too, on the event loop that uses this ledger
        self._sweeping = asyncio.get_running_loop()
        self._sweeping.call_later(after_s, self._sweep)

    def _sweep(self) -> None:
        """Remove expired calls, and look again after a minute, or at once if there may be more."""
        self._sweeping = None
        now, left = self._clock(), self._rows
        for _ in range(min(_ROWS_A_SWEEP // _ROWS_A_CALL, len(self._by_caller))):
            self._expire_next(now)
        if self._rows:
            self._plan_sweep(0.0 if self._rows < left else min(_SWEEP_S, self._store_use_s))

    def _add_caller(self, principal: str, caller_calls: _CallerCalls) -> None:
        if self._by_caller.setdefault(principal, caller_calls) is caller_calls:
            self._bytes += _CALLER_BYTES

    def _remove(self, caller_calls: _CallerCalls, name: _CallName, size: int) -> None:
        del caller_calls.rows[name]
        self._rows -= 1
        self._bytes -= size
        caller_calls.size -= size
        if not caller_calls.rows:
            del self._by_caller[name[0]]
            self._bytes -= _CALLER_BYTES


def _row_bytes(name: _CallName) -> int:
    return ROW_BYTES + _text_bytes(name[2])


def _text_bytes(text: str) -> int:
    """Return about how many bytes the characters of ``text`` take."""
    return len(text) if text.isascii() else 4 * len(text)


def _write_answer(result: Result, most: int) -> tuple[_Answer, int]:
    """Return ``result`` in an immutable form, and about how many bytes that takes."""
    if isinstance(result, Value) and result.notes is None:
        value = result.value
        sort = type(value)
        if (sort is int and -_WORD < value < _WORD) or sort is bool or value is None:
            return value, 0
        if sort is str and len(value) < _SMALL_TEXT and 4 * len(value) <= most:
            return value, _text_bytes(value)
    # A copy: the bytes of the JSON writer keep the rest of its buffer, which is kilobytes (docs/decisions/0012).
    answer = b"%b" % result_bytes.write_result(result, most)
    return answer, len(answer)


def _read_answer(answer: _Answer) -> Result:
    return result_bytes.read_result(answer) if isinstance(answer, bytes) else Value(answer, mark_replayed(None))
