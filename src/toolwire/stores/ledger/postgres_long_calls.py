"""Keep long calls in PostgreSQL, which several machines share.

Rules:
- One thread of each process makes all changes on one connection, and all that wait go into one transaction.
- A running call belongs to its process as long as the process renews its lease, by the clock of the database.
- A process that connects again begins a new session, so a statement of its lost connection that arrives later changes
  nothing. A claim whose answer was lost is undone: its call has not started.
- A database that does not answer in time is not asked by callers: they are refused at once, and only the renewal of
  the lease, once a second, tries it again.
"""
# LC-03, LC-04, ST-02

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Set
from typing import Any, TypeVar

import psycopg

from toolwire.core.call_status import CallStatus
from toolwire.core.long_call import UNAVAILABLE, CallChange, Lease, LongCallLimits
from toolwire.core.model import Problem
from toolwire.stores.group_commit import GroupCommit
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
from .postgres import LEASE_S, is_lease_held
from .sql_long_calls import SqlLongCalls, StoredLongCalls
from .tables import CALLS, LONG_CALLS

_RECONNECT_S = 1.0
_T = TypeVar("_T")
_log = logging.getLogger("toolwire.ledger")


class _NotReachableError(OSError):
    """The database cannot be asked now."""


class PostgresLongCalls(StoredLongCalls):
    """The long calls in the database at ``url``. Its tables are made or brought to this version when it is opened.

    Raises:
        DefinitionError: the database cannot be used, or its tables are of a newer version.
    """

    def __init__(self, url: str, limits: LongCallLimits | None = None, *, lease_s: float = LEASE_S) -> None:
        self._place = PostgresPlace(url)
        migrate_schema(self._place, CALLS)  # the clock, and the leases of processes
        migrate_schema(self._place, LONG_CALLS)
        self._lease_s = lease_s
        self._owner = secrets.randbits(62) | 1
        self._session = 0
        self._now = self._wall = self._connected_at = 0.0
        self._calls = SqlLongCalls(
            limits or LongCallLimits(),
            now=self._read_now,
            read_wall=self._read_wall,
            is_alive=self._is_alive,
            lock=sql.LOCK,
        )
        self._changes = GroupCommit(
            begin=self._begin_transaction, commit=self._commit, roll_back=self._roll_back, busy_s=0.0
        )
        self._connection: PostgresConnection | None = None
        self._next_try = 0.0
        self._is_lost = False
        self._refusals = OutageLog(_log, f"the long calls in {self._place} take all changes again.")
        self._held: dict[str, int] = {}
        self._claiming: dict[str, int] = {}

    async def begin(self) -> None:
        """Connect, where that has not been done."""
        await self._do(_return_none, tries_again=True)

    async def end(self) -> None:
        """Give the lease up and disconnect. Calls that still run are then as those of a process that died."""
        await self._changes.run_change(self._end_lease, on_refusal=_return_none)
        self._held.clear()

    async def claim(self, call_id: str, asked: Set[str] = frozenset()) -> Lease | Problem | None:
        """Return the right to run the call, or None if it must not run here and now."""
        # A renewal that runs between the commit and the next line must not take the claim for a lost one.
        self._claiming[call_id] = self._claiming.get(call_id, 0) + 1
        try:
            claimed = await super().claim(call_id, asked)
            if isinstance(claimed, Lease):
                self._held[call_id] = claimed.attempt
            return claimed
        finally:
            self._claiming[call_id] -= 1
            if not self._claiming[call_id]:
                del self._claiming[call_id]

    async def change(self, lease: Lease, change: CallChange) -> CallStatus | Problem | None:
        """Record ``change`` and return the status after it; None if the lease is lost."""
        changed = await super().change(lease, change)
        is_over = changed is None or change.result is not None or change.input is not None
        if is_over and not isinstance(changed, Problem) and self._held.get(lease.id) == lease.attempt:
            del self._held[lease.id]
        return changed

    async def renew(self) -> Mapping[str, bool] | Problem:
        """Renew the lease; return the calls that this process runs, and whether they are to be cancelled."""
        known = {**self._held, **dict.fromkeys(self._claiming, -1)}
        return await self._do(lambda: self._renew(known), tries_again=True)

    async def _do(
        self, work: Callable[[], _T], on_abandon: Callable[[Any], None] | None = None, *, tries_again: bool = False
    ) -> _T | Problem:
        # ST-05: no caller waits for a database that hangs.
        if self._is_lost and not tries_again:
            return UNAVAILABLE
        return await super()._do(work, on_abandon)

    def _ask(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except (psycopg.Error, UnicodeEncodeError, ValueError) as error:
            raise _NotReachableError from error

    def _renew(self, known: Mapping[str, int]) -> Mapping[str, bool]:
        """Return the running calls of this process, once those that it does not know of are given back."""
        connection = self._require_connection()
        connection.execute(sql.RENEW_LEASE, (self._lease_s, self._owner, self._session))
        mine = self._calls.find_mine(self._owner)
        for call_id, (attempt, _) in mine.items():
            if call_id not in known:
                self._calls.give_back(Lease(call_id, self._owner, attempt, "", b"", {}))
        return {call_id: asked for call_id, (_, asked) in mine.items() if call_id in known}

    # A transaction

    def _begin_transaction(self) -> None:
        try:
            connection = self._connect_if_due()
            # The clock stands within a transaction. The row of the session stays locked, so that the session cannot end
            # before these changes are committed.
            connection.execute("BEGIN")
            row = connection.execute(sql.LOCK_SESSION, (self._owner, self._session)).fetchone()
            if row is None:
                raise psycopg.OperationalError("this process has lost its lease")
            self._now, self._wall = row
        except psycopg.Error as error:
            self._disconnect(error)
            raise _NotReachableError from None

    def _commit(self) -> None:
        try:
            self._require_connection().execute("COMMIT")
        except psycopg.Error as error:
            self._disconnect(error)
            raise _NotReachableError from None
        self._refusals.record_success()

    def _roll_back(self, error: Exception) -> None:
        connection, cause = self._connection, error.__cause__
        if connection is None:
            return
        if isinstance(cause, psycopg.Error):
            if is_connection_lost(connection, cause):
                self._disconnect(cause)
                return
            text = "a change of long calls in %s was refused: %s."
            self._refusals.record_failure(text, self._place, describe_error(cause))
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error as failure:
            self._disconnect(failure)

    def _connect_if_due(self) -> PostgresConnection:
        if self._connection is not None:
            return self._connection
        if time.monotonic() < self._next_try:
            raise _NotReachableError
        self._next_try = time.monotonic() + _RECONNECT_S
        connection = self._place.connect()
        self._session = secrets.randbits(62)
        # ST-02: from here on, no statement of an earlier connection can change anything.
        [(self._connected_at,)] = connection.execute(
            sql.BEGIN_SESSION, (self._owner, self._session, self._lease_s)
        ).fetchall()
        self._connection = connection
        self._calls.attach(PostgresCursor(connection))
        if self._is_lost:
            self._is_lost = False
            _log.warning("the long calls in %s can be reached again", self._place)
        return connection

    def _disconnect(self, error: psycopg.Error) -> None:
        if not self._is_lost:
            _log.error("the long calls in %s cannot be reached: %s", self._place, describe_error(error))
        self._next_try = time.monotonic() + _RECONNECT_S
        self._is_lost = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _end_lease(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.execute(sql.END_LEASE, (self._owner, self._session))
            self._connection.execute("COMMIT")
        except psycopg.Error as error:
            _log.warning("the long calls in %s could not be left: %s", self._place, describe_error(error))
        self._connection.close()
        self._connection = None
        self._next_try = 0.0
        raise _NotReachableError  # there is nothing left to commit

    def _require_connection(self) -> PostgresConnection:
        if self._connection is None:
            raise _NotReachableError
        return self._connection

    def _read_now(self) -> float:
        return self._now

    def _read_wall(self) -> float:
        return self._wall

    def _is_alive(self, owner: int) -> bool:
        """Return whether process ``owner`` has its lease."""
        if owner == self._owner:
            return True
        return is_lease_held(self._require_connection(), owner, self._now, self._connected_at, self._lease_s)


def _return_none() -> None:
    """Change nothing."""
