"""Keep a ledger of calls in PostgreSQL, which several machines share.

Rules:
- One thread of each process makes all changes on one connection. New calls, and endings, that wait at the same time
  are one statement each, so the time that the network takes is paid once for many calls.
- A running call belongs to its process as long as the process renews its lease, by the clock of the database. A
  process that is taken for dead by mistake loses at most an answer: no other process runs a call that must not run
  twice, and an ending that arrives after another process took the call changes nothing.
- A database that does not answer in time is not asked by calls: new calls are refused at once, and the thread tries
  the database once a second. Meanwhile endings are kept in memory, one for each call that ran when it was lost.
"""
# R8, R11

from __future__ import annotations

import asyncio
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import psycopg

from toolwire.core.ledger import (
    UNAVAILABLE,
    CallEnding,
    CallKey,
    Claim,
    ClaimOutcome,
    LedgerLimits,
    Ticket,
    digest_fingerprint,
)
from toolwire.core.model import Kind, Problem
from toolwire.stores.group_commit import Change, deliver_outcomes
from toolwire.stores.outage_log import OutageLog
from toolwire.stores.postgres import (
    PostgresConnection,
    PostgresCursor,
    PostgresPlace,
    describe_error,
    is_connection_lost,
    migrate_schema,
)

from . import postgres_statements as sql
from . import result_bytes
from .postgres_statements import POSTGRES
from .sql_calls import SqlCalls, row_bytes
from .tables import CALLS
from .usage import LedgerUsage, Room, add_room, sum_rooms

LEASE_S = 3.0
"""How long after its last renewal a process still has its running calls, in seconds of the database's clock."""
SHARED = LedgerLimits()
_RENEW_S = 1.0
_RECONNECT_S = 1.0
_END_S = 5.0
_MAX_BATCH = 256
_MAX_QUEUE = 4_096
_SWEEP_EVERY = 64
_SWEEP_S = 60.0
_SWEEPS_AT_ONCE = 32

_T = TypeVar("_T")
_log = logging.getLogger("toolwire.ledger")


class _Settlement(NamedTuple):
    """How the call of ``ticket`` ended."""

    ticket: Ticket
    ending: CallEnding | None


class PostgresLedger:
    """The ledger in the database at ``url``. Its tables are made or brought to this version when it is opened.

    Raises:
        DefinitionError: the database cannot be used, or its tables are of a newer version.
    """

    def __init__(self, url: str, limits: LedgerLimits = SHARED, *, lease_s: float = LEASE_S) -> None:
        self._place = PostgresPlace(url)
        migrate_schema(self._place, CALLS)
        self._limits = limits
        self._lease_s = lease_s
        # Random, so that no two processes have the same number, and 62 bits, which fit a signed column of 64.
        self._owner = secrets.randbits(62)
        self._session = 0
        self._usage = LedgerUsage(POSTGRES)
        self._calls = SqlCalls(POSTGRES, limits, self._usage, now=self._read_now, is_alive=self._is_alive)
        self._queue: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: PostgresConnection | None = None
        self._connected_at = 0.0
        self._now = 0.0
        self._is_lost = False
        self._refusals = OutageLog(_log, f"the ledger in {self._place} takes all calls again.")
        self._is_counted = False
        self._next_try = self._next_renewal = self._next_sweep = 0.0
        self._new_calls = 0
        self._live: set[Ticket] = set()
        self._unsaved: dict[Ticket, CallEnding | None] = {}

    async def begin(self) -> None:
        """Connect, where that has not been done."""
        self._start()

    async def end(self) -> None:
        """Give the lease up and disconnect. Calls that still run are then as those of a process that died."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(thread.join, _END_S)

    async def claim(self, claim: Claim) -> ClaimOutcome:
        """Return the ticket for a call that may run now, or why it does not."""
        # ST-05: refused at once. A call in the queue would wait for a database that does not answer.
        if self._is_lost or self._queue.qsize() >= _MAX_QUEUE:
            return UNAVAILABLE
        return await self._submit(digest_fingerprint(claim), _refuse, self._give_back)

    async def finish(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it."""
        work = _Settlement(ticket, ending)
        if self._is_lost:
            return self._store_unsaved(work)
        return await self._submit(work, lambda: self._store_unsaved(work), _ignore_outcome)

    async def _submit(self, work: Any, on_refusal: Callable[[], _T], on_abandon: Callable[[_T], None]) -> _T:
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue.put(Change(work, on_refusal, on_abandon, future))
        if self._thread is None:
            self._start()
        return await future

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="toolwire-ledger", daemon=True)
                self._thread.start()

    def _give_back(self, outcome: ClaimOutcome) -> None:
        """Forget a call whose caller left before the call could run."""
        if isinstance(outcome, Ticket):
            self._queue.put(Change(_Settlement(outcome, None), _return_none, _ignore_outcome))

    def _store_unsaved(self, work: _Settlement) -> None:
        # The first ending holds, as in the database.
        self._unsaved.setdefault(work.ticket, work.ending)

    # What the thread does

    def _work(self) -> None:
        while True:
            changes, is_ending = self._take_changes()
            try:
                self._connect_if_due()
                if self._connection is not None:
                    wanted, changes = changes, []
                    self._make_changes(self._connection, wanted)
            except Exception as error:  # noqa: BLE001 - whatever it is, the calls that wait are answered
                self._disconnect(error)
            deliver_outcomes([(change, change.on_refusal()) for change in changes])
            if is_ending:
                return self._finish()

    def _take_changes(self) -> tuple[list[Change], bool]:
        """Return the changes that wait, and whether the thread is to end; wait until the lease must be renewed."""
        due = self._next_try if self._connection is None else self._next_renewal
        taken: list[Change] = []
        try:
            change = self._queue.get(timeout=max(due - time.monotonic(), 0.001))
            while change is not None:
                taken.append(change)
                if len(taken) >= _MAX_BATCH:
                    return taken, False
                change = self._queue.get_nowait()
        except queue.Empty:
            return taken, False
        return taken, True

    def _connect_if_due(self) -> None:
        if self._connection is not None:
            if time.monotonic() >= self._next_renewal:
                self._renew_lease(self._connection)
            return
        if time.monotonic() < self._next_try:
            return
        self._next_try = time.monotonic() + _RECONNECT_S
        connection = self._place.connect()
        self._connection = connection
        self._session = secrets.randbits(62)
        # ST-02: from here on, no statement of an earlier connection can change anything.
        [(self._connected_at,)] = connection.execute(
            sql.BEGIN_SESSION, (self._owner, self._session, self._lease_s)
        ).fetchall()
        self._next_renewal = time.monotonic() + _RENEW_S
        self._calls.attach(PostgresCursor(connection))
        if not self._is_counted:
            self._in_transaction(connection, self._calls.recount)
            self._is_counted = True
        self._forget_unknown(connection)
        self._save_endings(connection)
        if self._is_lost:
            self._is_lost = False
            _log.warning("the ledger in %s can be reached again", self._place)

    def _disconnect(self, error: Exception) -> None:
        if not self._is_lost:
            self._is_lost = True
            why = describe_error(error) if isinstance(error, psycopg.Error) else repr(error)
            _log.error("the ledger in %s cannot be reached: %s", self._place, why)
        self._next_try = time.monotonic() + _RECONNECT_S
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _finish(self) -> None:
        """Give the lease up, if that is possible."""
        if self._connection is None:
            return
        try:
            self._in_transaction(self._connection, self._calls.sweep)
            self._connection.execute(sql.END_LEASE, (self._owner, self._session))
        except psycopg.Error as error:
            _log.warning("the ledger in %s could not be left: %s", self._place, describe_error(error))
        self._connection.close()
        self._connection = None
        self._live.clear()

    def _renew_lease(self, connection: PostgresConnection) -> None:
        self._next_renewal = time.monotonic() + _RENEW_S
        values = (self._lease_s, self._owner, self._session)
        if not connection.execute(sql.RENEW_LEASE, values).rowcount:
            raise psycopg.OperationalError("this process has lost its lease")
        self._save_endings(connection)
        if time.monotonic() >= self._next_sweep:
            self._sweep_expired(connection)

    def _sweep_expired(self, connection: PostgresConnection) -> None:
        """Remove calls whose time is over, also on a server without new calls; a few at a time, so that none waits."""
        # GR-03
        self._next_sweep = time.monotonic() + _SWEEP_S
        for _ in range(_SWEEPS_AT_ONCE):
            if not self._in_transaction(connection, lambda: self._sweep(connection)):
                return
        self._next_sweep = 0.0  # there are more: at the next renewal of the lease

    def _forget_unknown(self, connection: PostgresConnection) -> None:
        """Forget calls that were recorded although the answer was lost with the connection: they did not run."""
        for principal, tool, call_id, attempt in connection.execute(sql.FIND_OWN, (self._owner,)).fetchall():
            ticket = Ticket(CallKey(principal, tool, call_id), self._owner, attempt)
            if ticket not in self._live:
                self._finish_alone(connection, _Settlement(ticket, None))

    def _save_endings(self, connection: PostgresConnection) -> None:
        for ticket, ending in list(self._unsaved.items()):
            self._finish_alone(connection, _Settlement(ticket, ending))
            self._unsaved.pop(ticket, None)

    def _make_changes(self, connection: PostgresConnection, changes: Sequence[Change]) -> None:
        """Make ``changes`` and deliver their outcomes. Changes that a lost connection did not make are refused."""
        wanted = [change for change in changes if change.future is None or not change.future.cancelled()]
        endings = [change for change in wanted if isinstance(change.work, _Settlement)]
        claims = [change for change in wanted if not isinstance(change.work, _Settlement)]
        # Endings first, so that a claim of the same key finds the result.
        for some, make in ((endings, self._finish_all), (claims, self._claim_all)):
            try:
                if self._connection is None:
                    outcomes: Sequence[Any] = [change.on_refusal() for change in some]
                else:
                    outcomes = make(connection, [change.work for change in some])
            except Exception as error:  # noqa: BLE001 - whatever it is, the calls that wait are answered
                self._disconnect(error)  # before the outcomes: a caller that repeats at once is then refused at once
                outcomes = [change.on_refusal() for change in some]
            deliver_outcomes(list(zip(some, outcomes, strict=True)))

    def _claim_all(self, connection: PostgresConnection, claims: Sequence[Claim]) -> list[ClaimOutcome]:
        if not claims:
            return []
        won = self._add_new(connection, claims)
        outcomes: list[ClaimOutcome] = []
        for claim in claims:
            ticket = won.pop(claim.key, None)
            outcome = self._claim_alone(connection, claim) if ticket is None else ticket
            outcomes.append(outcome)
        # Only here: if the connection was lost above, all claims are refused, and _forget_unknown() deletes their rows.
        self._live.update(outcome for outcome in outcomes if isinstance(outcome, Ticket))
        return outcomes

    def _add_new(self, connection: PostgresConnection, claims: Sequence[Claim]) -> dict[CallKey, Ticket]:
        """Return the tickets for the calls among ``claims`` that are new, by one statement."""
        self._new_calls += len(claims)
        sizes = [row_bytes(claim.key) for claim in claims]
        if self._new_calls >= _SWEEP_EVERY:
            self._new_calls = 0
            self._in_transaction(connection, lambda: self._sweep(connection))
        needs: dict[str, Room] = {}
        for claim, size in zip(claims, sizes, strict=True):
            add_room(needs, claim.key.principal, 1, size)
        if not self._make_room(connection, needs):
            return {}
        # In the order of the keys: two processes that add the same calls in different orders would deadlock.
        rows = sorted(
            (*claim.key, claim.fingerprint, claim.can_rerun, size) for claim, size in zip(claims, sizes, strict=True)
        )
        values = (self._owner, self._session, self._owner, *map(list, zip(*rows, strict=True)))
        try:
            added = connection.execute(sql.ADD_ALL, values).fetchall()
        except (psycopg.Error, ValueError) as error:  # one of them cannot be stored; each is tried alone
            self._raise_if_lost(connection, error)
            return {}
        self._refusals.record_success()
        tickets = {}
        for names in added:
            key = CallKey(*names)
            tickets[key] = Ticket(key, self._owner, 1)
            self._usage.add(key.principal, Room(1, row_bytes(key)))
        return tickets

    def _claim_alone(self, connection: PostgresConnection, claim: Claim) -> ClaimOutcome:
        try:
            outcome = self._in_transaction(connection, lambda: self._calls.claim(claim, self._owner))
        except (psycopg.DataError, UnicodeEncodeError):
            return _NOT_STORABLE
        except psycopg.Error as error:
            self._raise_if_lost(connection, error)
            self._refusals.record_failure("the call record in %s failed: %s.", self._place, describe_error(error))
            return UNAVAILABLE
        self._refusals.record_success()
        return outcome

    def _finish_all(self, connection: PostgresConnection, endings: Sequence[_Settlement]) -> list[None]:
        plain = [
            (work.ticket, work.ending, result_bytes.write_result(work.ending.result, self._limits.answer_bytes))
            for work in endings
            if work.ending is not None and work.ticket.attempt == 1
        ]
        needs: dict[str, Room] = {}
        for ticket, _, answer in plain:
            add_room(needs, ticket.key.principal, 0, len(answer))
        is_ample = bool(plain)
        if is_ample:
            self._make_room(connection, needs)
            rows = [
                (*ticket.key, ticket.attempt, ending.state.value, ending.pinned, answer)
                for ticket, ending, answer in plain
            ]
            columns = map(list, zip(*rows, strict=True))
            values = (self._owner, self._session, self._limits.keep_s, *columns, self._owner)
            try:
                connection.execute(sql.FINISH_ALL, values)
            except psycopg.Error as error:
                self._raise_if_lost(connection, error)
                is_ample = False
        if is_ample:
            self._usage.add_all(needs)
        for work in endings:
            if is_ample and work.ending is not None and work.ticket.attempt == 1:
                self._live.discard(work.ticket)
                continue
            try:
                self._finish_alone(connection, work)
            except psycopg.Error as error:
                self._raise_if_lost(connection, error)
                self._store_unsaved(work)
        return [None] * len(endings)

    def _make_room(self, connection: PostgresConnection, needs: Mapping[str, Room]) -> bool:
        """Return whether each caller has room for what it needs; if not, their oldest ended calls are removed first."""
        if self._usage.has_ample_room(sum_rooms(needs.values()), self._limits):
            return True
        try:
            return self._in_transaction(connection, lambda: self._calls.make_room(needs))
        except psycopg.Error as error:  # others have locked the rows; each call is tried alone
            self._raise_if_lost(connection, error)
            return False

    def _finish_alone(self, connection: PostgresConnection, work: _Settlement) -> None:
        self._in_transaction(connection, lambda: self._calls.finish(*work))
        self._live.discard(work.ticket)

    def _in_transaction(self, connection: PostgresConnection, work: Callable[[], _T]) -> _T:
        """Return what ``work`` returns, once it is committed in this session."""
        counted = self._usage.totals
        connection.execute("BEGIN")
        try:
            # ST-02: the row of the session stays locked, so that the session cannot end before this change is
            # committed.
            row = connection.execute(sql.LOCK_SESSION, (self._owner, self._session)).fetchone()
            if row is None:
                raise psycopg.OperationalError("this process has lost its lease")
            self._now = row[0]
            outcome = work()
            connection.execute("COMMIT")
        except BaseException as error:
            # The rows that were counted in this transaction are not there after all.
            self._usage.totals = counted
            self._usage.forget_callers()
            if isinstance(error, psycopg.Error) and is_connection_lost(connection, error):
                raise
            connection.execute("ROLLBACK")
            raise
        return outcome

    def _sweep(self, connection: PostgresConnection) -> int:
        removed = self._calls.sweep()
        connection.execute(sql.FORGET_OWNERS, (self._now - self._limits.keep_s,))
        return removed

    def _raise_if_lost(self, connection: PostgresConnection, error: Exception) -> None:
        if isinstance(error, psycopg.Error) and is_connection_lost(connection, error):
            raise error

    def _read_now(self) -> float:
        return self._now

    def _is_alive(self, owner: int) -> bool:
        """Return whether process ``owner`` has its lease."""
        if self._connection is None:
            return True
        return is_lease_held(self._connection, owner, self._now, self._connected_at, self._lease_s)


def is_lease_held(connection: PostgresConnection, owner: int, now: float, connected_at: float, lease_s: float) -> bool:
    """Return whether process ``owner`` has its lease, for a process that connected at ``connected_at``.

    Leases may have ended while the database itself stood still. So a process whose lease had ended when this one
    connected gets the time of one more lease to renew it. That is kept in the row of the owner with the other sign: it
    passes too if no process lives for so long.
    """
    found = dict(connection.execute(sql.FIND_LEASES, (owner, -owner)).fetchall())
    until, more = found.get(owner), found.get(-owner, 0.0)
    if until is None or now < until or until > connected_at or now >= connected_at + lease_s:
        return until is not None and now < until
    if more <= until:  # nobody has granted it since the last renewal
        connection.execute(sql.BEGIN_SESSION, (-owner, 0, lease_s))
        return True
    return bool(now < more)


def _refuse() -> ClaimOutcome:
    return UNAVAILABLE


def _return_none() -> None:
    """Return nothing for a change that no task waits for."""


def _ignore_outcome(_: object) -> None:
    """Ignore an outcome that no task waits for."""


_NOT_STORABLE = Problem(
    kind=Kind.MALFORMED,
    message="The call did not run: its ID contains a character that PostgreSQL cannot store.",
)
