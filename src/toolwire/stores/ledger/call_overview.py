"""Read the long calls of all callers from the file or the database of a ledger, for an operator.

Reading changes nothing. To cancel a call is what its caller could ask for too: the process that runs it ends it.
"""
# CO-02, LC-03

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolwire.core.call_status import CallStatus, LongCallState
from toolwire.stores.open_rows import open_overview
from toolwire.stores.paths import is_postgres_url

from .tables import CALLS_FILE, LONG_CALLS

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
        self._schema = LONG_CALLS if is_postgres_url(str(where)) else CALLS_FILE

    def list_recent(self, limit: int) -> Sequence[CallerCall]:
        """Return at most ``limit`` calls of all callers, the newest first."""
        with open_overview(self._where, self._schema) as rows:
            return [] if rows is None else [_build_call(row) for row in rows.select_rows(_LIST, limit)]

    def ask_cancel(self, call_id: str) -> bool:
        """Ask to cancel a call, and return whether there is one that is not over."""
        return self._change(_CANCEL, call_id) > 0

    def ask_cancel_all(self, principal: str) -> int:
        """Ask to cancel all calls of a caller that are not over, and return how many there are."""
        return self._change(_CANCEL_ALL, principal)

    def _change(self, statement: str, value: str) -> int:
        """Return how many calls ``statement`` changed."""
        with open_overview(self._where, self._schema) as rows:
            return 0 if rows is None else rows.change_row(statement, value)


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
