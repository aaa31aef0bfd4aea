"""Read the long calls of all callers from the file or the database of a ledger, for an operator.

Reading changes nothing. To cancel a call is what its caller could ask for too: the process that runs it ends it.
"""
# CO-02, LC-03

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from toolwire.core.call_status import CallStatus, LongCallState
from toolwire.stores.paths import is_postgres_url

if TYPE_CHECKING:  # only the extra brings its driver
    from toolwire.stores.postgres_rows import PostgresRows

_LIST = (
    "SELECT principal, id, tool, state, progress, message, created, updated, cancel_asked FROM long_calls"
    " ORDER BY number DESC LIMIT ?"
)
# A call that waits for its user is in no process: it goes back to where it was accepted, and ends there unrun.
_CANCELLED = (
    "UPDATE long_calls SET cancel_asked = 1, revision = revision + 1, input = NULL, until = NULL,"
    " state = CASE state WHEN 'waiting' THEN 'accepted' ELSE state END WHERE (until IS NULL OR state = 'waiting')"
)
_CANCEL = f"{_CANCELLED} AND id = ?"
_CANCEL_ALL = f"{_CANCELLED} AND principal = ?"
# A server without tools for long calls has not made their table.
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'long_calls'"
_IS_IN_DATABASE = "SELECT to_regclass('toolwire_long_calls') IS NOT NULL"
_BUSY_S = 2.0


class CallerCall(NamedTuple):
    """A long call, and the caller whose it is."""

    principal: str
    status: CallStatus


class CallOverview:
    """The long calls at ``where``: an SQLite file, which need not exist, or the URL of a PostgreSQL.

    Each method raises OSError (ConnectionError is one) if they cannot be read.
    """

    def __init__(self, where: Path | str) -> None:
        self._where = where
        self._rows: PostgresRows | None = None

    def list_recent(self, limit: int) -> Sequence[CallerCall]:
        """Return at most ``limit`` calls of all callers, the newest first."""
        return [_build_call(row) for row in self._select(limit)]

    def ask_cancel(self, call_id: str) -> bool:
        """Ask to cancel a call, and return whether there is one that is not over."""
        return self._change(_CANCEL, call_id) > 0

    def ask_cancel_all(self, principal: str) -> int:
        """Ask to cancel all calls of a caller that are not over, and return how many there are."""
        return self._change(_CANCEL_ALL, principal)

    def _change(self, statement: str, value: str) -> int:
        """Return how many calls ``statement`` changed."""
        if (rows := self._open_rows()) is not None:
            return rows.change_row(statement, value) if _has_calls(rows) else 0
        if not Path(self._where).exists():
            return 0
        try:
            with closing(sqlite3.connect(self._where, timeout=_BUSY_S)) as connection, connection:
                is_there = connection.execute(_IS_THERE).fetchone() is not None
                return connection.execute(statement, (value,)).rowcount if is_there else 0
        except sqlite3.Error as error:
            raise OSError(f"{self._where} cannot be written: {error}") from error

    def _select(self, limit: int) -> list[Any]:
        if (rows := self._open_rows()) is not None:
            return list(rows.select_rows(_LIST, limit)) if _has_calls(rows) else []
        if not Path(self._where).exists():
            return []
        address = f"file:{quote(str(Path(self._where).absolute()))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as connection:
                is_there = connection.execute(_IS_THERE).fetchone()
                return connection.execute(_LIST, (limit,)).fetchall() if is_there else []
        except sqlite3.Error as error:
            raise OSError(f"{self._where} cannot be read: {error}") from error

    def _open_rows(self) -> PostgresRows | None:
        if self._rows is None and isinstance(self._where, str) and is_postgres_url(self._where):
            from toolwire.stores.postgres_rows import open_rows  # only the extra brings its driver

            self._rows = open_rows(self._where, "overview", ())
        return self._rows


def _has_calls(rows: PostgresRows) -> bool:
    return bool(rows.select_rows(_IS_IN_DATABASE)[0][0])


def _build_call(row: Sequence[Any]) -> CallerCall:
    principal, call_id, tool, state, progress, message, created, updated, cancel_asked = row
    status = CallStatus(
        id=call_id,
        tool=tool,
        state=LongCallState(state),
        progress=progress,
        message=message,
        created_at=created,
        updated_at=updated,
        cancel_asked=bool(cancel_asked),
    )
    return CallerCall(principal, status)
