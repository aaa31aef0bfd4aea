"""Claim and settle the calls of a ledger in a database, one by one.

Rules:
- Each public method runs inside one transaction, which the caller begins and ends.
- The caller that rolls a transaction back also corrects the tally.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolwire.core.ledger import (
    FULL,
    CallEnding,
    CallKey,
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
    build_interrupted,
    decide_claim,
    get_state,
)
from toolwire.stores.database import Cursor

from . import result_bytes
from .statements import LedgerStatements, StoredCall
from .usage import NOTHING, LedgerUsage, Room, sum_rooms

ROW_BYTES = 400
"""The bytes of a row and its index without its texts."""
_SWEEP_EVERY = 64
_MAX_REMOVED = 64
"""After how many rows a call removes no more, so that no call pays for many."""
_SPARE_PART = 1_024
"""A full ledger is emptied by this part of its rows at a time."""


class SqlCalls:
    """The calls of one ledger, on the connection that ``attach`` got.

    ``new_calls`` is the number of new calls that this object recorded. ``now`` reads the clock of the ledger, and
    ``is_alive`` returns whether the owner with a number still lives. ``after_sweep`` runs in the transaction of each
    sweep.
    """

    def __init__(
        self,
        statements: LedgerStatements,
        limits: LedgerLimits,
        usage: LedgerUsage,
        *,
        now: Callable[[], float],
        is_alive: Callable[[int], bool],
        after_sweep: Callable[[], None] | None = None,
    ) -> None:
        self.new_calls: int = 0
        self._sql = statements
        self._limits = limits
        self._usage = usage
        self._now = now
        self._is_alive = is_alive
        self._after_sweep = after_sweep
        self._connection: Cursor

    def attach(self, connection: Cursor) -> None:
        """Work on ``connection`` from now on."""
        self._connection = connection

    def recount(self) -> None:
        """Count the rows of the ledger, and store the count for all processes."""
        self._usage.recount(self._connection)

    def interrupt_orphans(self, owners: set[int]) -> None:
        """Mark the running calls whose owner is not in ``owners`` as interrupted."""
        for number, principal, tool, call_id, rerun, owner, size in self._connection.execute(
            self._sql.find_running
        ).fetchall():
            if owner not in owners:
                self._interrupt(number, CallKey(principal, tool, call_id), size, rerun=bool(rerun))

    def claim(self, claim: Claim, owner: int) -> ClaimOutcome:
        """Return the ticket of ``owner`` for a call that may run now, or why it does not."""
        found = self._find(claim.key)
        match decide_claim(None if found is None else self._row(found, owner), claim):
            case ClaimAction.WAIT if found is not None:
                return InFlight(found.attempt)
            case ClaimAction.REFUSE:
                return build_conflict(claim.key)
            case ClaimAction.REPLAY if found is not None:
                return StoredResult(result_bytes.read_result(found.answer or b""))
            case ClaimAction.INTERRUPT if found is not None:
                answer = self._interrupt(found.number, claim.key, found.size, rerun=False)
                return StoredResult(result_bytes.read_result(answer))
            case _:
                return self._start_call(claim, found, owner)

    def finish(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        # ST-02: the statements name owner and attempt, so an owner whose call another one took changes nothing.
        mine, earlier, principal = (*ticket.key, ticket.owner, ticket.attempt), 0, ticket.key.principal
        if ticket.attempt > 1:
            found = self._connection.execute(self._sql.find_earlier, mine).fetchone()
            if found is None or ending is None:
                return None if found is None else self._restore(ticket.key, *found)
            earlier = len(found[2] or b"")
        elif ending is None:
            gone = self._connection.execute(self._sql.forget, mine).fetchall()
            return self._usage.add(principal, Room(-len(gone), -sum(size for (size,) in gone)))
        answer = result_bytes.write_result(ending.result, self._limits.answer_bytes)
        more = len(answer) - earlier
        values = (ending.state.value, ending.pinned, answer, more, self._now() + self._limits.keep_s, *mine)
        self.make_room({principal: Room(0, more)})  # before this call ends: only ended calls are removed for room
        if self._connection.execute(self._sql.finish, values).rowcount:
            self._usage.add(principal, Room(0, more))
        return None

    def make_room(self, needs: Mapping[str, Room]) -> bool:
        """Remove the oldest ended calls of callers that have no room for what they need; return whether all have it.

        Only a few are removed at once, so a lowered limit is reached in steps. Until then it is enough to remove more
        than is added.
        """
        of_all = sum_rooms(needs.values())
        if self._usage.has_ample_room(of_all, self._limits):
            return True
        has_room = True
        for principal, own in needs.items():
            has_room = self._make_room_of(principal, own, of_all) and has_room
        return has_room

    def _make_room_of(self, principal: str, own: Room, of_all: Room) -> bool:
        removed, removed_size, at_once = 0, 0, max(_MAX_REMOVED, own.rows)
        while removed < at_once:
            excess = self._usage.count_excess(self._connection, principal, own, of_all, self._limits)
            if excess == NOTHING:
                return True
            # A full ledger is the usual state of a busy server. So some more are removed than are in excess, and most
            # calls remove none.
            most = min(max(excess.rows, 1), at_once) + self._limits.rows // _SPARE_PART
            gone = self._connection.execute(self._sql.remove_oldest, (principal, most)).fetchall()
            if not gone:
                return False
            gone_size = sum(size for (size,) in gone)
            self._usage.add(principal, Room(-len(gone), -gone_size))
            removed, removed_size = removed + len(gone), removed_size + gone_size
        return removed_size >= own.size

    def sweep(self) -> int:
        """Remove the oldest expired calls, and exchange the counts with the other processes.

        Return how many were removed: at most 64.
        """
        found = self._connection.execute(self._sql.find_expired, (self._now(),)).fetchall()
        for expired in found:
            self._remove(*expired)
        self._usage.exchange_counts(self._connection)
        if self._after_sweep is not None:
            self._after_sweep()
        return len(found)

    def count_new(self, calls: int) -> bool:
        """Count new calls that were recorded elsewhere, and return whether a sweep is due."""
        before = self.new_calls
        self.new_calls += calls
        return before // _SWEEP_EVERY != self.new_calls // _SWEEP_EVERY

    def _find(self, key: CallKey) -> StoredCall | None:
        values = self._connection.execute(self._sql.find, key).fetchone()
        if values is None:
            return None
        found = StoredCall(*values)
        if found.until is not None and found.until <= self._now():
            self._remove(found.number, key.principal, found.size)
            return None
        return found

    def _row(self, found: StoredCall, owner: int) -> LedgerRow:
        owned = found.until is None and (found.owner == owner or self._is_alive(found.owner))
        return LedgerRow(found.fingerprint, CallState(found.state), owned, bool(found.pinned), found.attempt)

    def _start_call(self, claim: Claim, found: StoredCall | None, owner: int) -> ClaimOutcome:
        if found is not None:
            return self._restart_call(claim, found, owner)
        if self.count_new(1):
            self.sweep()
        key, fingerprint, rerun, _ = claim
        size = row_bytes(key)
        if not self.make_room({key.principal: Room(1, size)}):
            return FULL
        if not self._connection.execute(self._sql.add, (*key, fingerprint, rerun, False, owner, 1, size)).rowcount:
            return InFlight(1)  # another process has just recorded this key; its caller waits and claims again
        self._usage.add(key.principal, Room(1, size))
        return Ticket(key, owner, 1)

    def _restart_call(self, claim: Claim, found: StoredCall, owner: int) -> Ticket:
        """Return the ticket for another run of a call. The answer of the last run stays until this one has ended."""
        attempt = found.attempt + 1
        self._connection.execute(self._sql.restart, (claim.can_rerun, owner, attempt, found.number))
        return Ticket(claim.key, owner, attempt)

    def _restore(self, key: CallKey, number: int, size: int, answer: bytes | None) -> None:
        """Restore the row as it was before a run that did not happen."""
        if answer is None:  # the owner of the first run died without an answer
            self._interrupt(number, key, size, rerun=True)
            answer = b""
        state = get_state(result_bytes.read_result(answer)) if answer else CallState.INTERRUPTED
        self._connection.execute(self._sql.restore, (state.value, self._now() + self._limits.keep_s, number))

    def _remove(self, number: int, principal: str, size: int) -> None:
        self._connection.execute(self._sql.remove, (number,))
        self._usage.add(principal, Room(-1, -size))

    def _interrupt(self, number: int, key: CallKey, size: int, *, rerun: bool) -> bytes:
        """Mark a call as interrupted: it is unknown whether it did its work. Return the answer to it."""
        answer = result_bytes.write_result(build_interrupted(key), self._limits.answer_bytes)
        until = self._now() + self._limits.keep_s
        self._connection.execute(self._sql.interrupt, (not rerun, answer, size + len(answer), until, number))
        self._usage.add(key.principal, Room(0, len(answer)))
        return answer


def row_bytes(key: CallKey) -> int:
    """Return what the row of a new call takes, in bytes."""
    return ROW_BYTES + len(key.principal) + len(key.tool) + len(key.call_id)
