"""Store grants, the "always" of users for later calls, in SQLite or PostgreSQL: they outlive the process."""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from toolwire.consent.grant import (
    GRANT_LIFETIME_S,
    MAX_CLOCK_STEP_BACK_S,
    UNASKED,
    Conditions,
    Grant,
    GrantKey,
    add_amount,
    covers_call,
    describe_step_back,
    find_end,
    find_group,
    find_sum,
    is_set_back,
    list_grant_rows,
)
from toolwire.core.condition import read_grant_conditions, write_conditions
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Json
from toolwire.stores.clock import ConfirmedTime
from toolwire.stores.database import Cursor, SharedRows
from toolwire.stores.outage_log import OutageLog

from .tables import GRANTS, open_consent_file

_log = logging.getLogger("toolwire.client")

_STEP_S = 60.0
_ID_BYTES = 4
"""An id has eight digits, and a number where several share their bounds."""
_UNREADABLE = Decimal("Infinity")
_FIND_GRANT = (
    "SELECT 1 FROM grants"
    " WHERE principal = ? AND connection = ? AND origin = ? AND tool = ? AND definition = ?"
    # Neither over, nor given by a clock that was ahead.
    " AND expires_at > ? AND expires_at <= ? AND id NOT IN (SELECT id FROM held_grants WHERE until > ?)"
)
# A table of its own: a reader that knows no bounds must not take such a grant for one without.
_FIND_BOUNDED = (
    "SELECT id, conditions, uses_left FROM bounded_grants"
    " WHERE principal = ? AND connection = ? AND origin = ? AND tool = ? AND definition = ?"
    # SQLite compares a text as larger than any number, so the upper bound excludes a value that is no time.
    " AND expires_at > ? AND expires_at <= ? AND id NOT IN (SELECT id FROM held_grants WHERE until > ?)"
    " ORDER BY uses_left IS NOT NULL, expires_at, id"
)
_SPEND = (
    "UPDATE bounded_grants SET uses_left = uses_left - 1"
    " WHERE id LIKE ? AND expires_at > ? AND (uses_left IS NULL OR uses_left > 0)"
)
_COUNT = (
    "INSERT INTO grant_uses VALUES (?, 0, ?) ON CONFLICT (id) DO NOTHING",
    "UPDATE grant_uses SET last_at = ?, covered = covered + 1 WHERE id = ?",
)
_SET_SUM = "INSERT INTO grant_sums VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET total = excluded.total"
_REVOKE = ("DELETE FROM grants WHERE id = ?", "DELETE FROM bounded_grants WHERE id = ?")
_DELETE_OUTDATED = (
    "DELETE FROM {table} WHERE principal = ? AND connection = ? AND origin = ? AND tool = ? AND definition != ?"
)
# RE-01: nothing is deleted where the clock was set back. What was given before is not used until the clock is again
# where it was; after that, no grant lasts longer than the user agreed to.
_EXTEND_ONLY = (
    "INSERT INTO held_grants SELECT id, ? FROM grants WHERE true ON CONFLICT (id) DO NOTHING",
    "INSERT INTO held_grants SELECT id, ? FROM bounded_grants WHERE true ON CONFLICT (id) DO NOTHING",
)
_DELETE_ENDED = (
    "DELETE FROM grants WHERE expires_at <= ?",
    "DELETE FROM bounded_grants WHERE expires_at <= ?",
    "DELETE FROM held_grants WHERE until <= ?",
)
_FORGET_USES = (
    "DELETE FROM grant_uses WHERE id NOT IN (SELECT id FROM grants) AND id NOT IN (SELECT id FROM bounded_grants)"
)
_FORGET_SUMS = "DELETE FROM grant_sums WHERE id NOT IN (SELECT substr(id, 1, 8) FROM bounded_grants)"
_WRITE_LATEST = "INSERT INTO clock VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET latest = excluded.latest"
_WRITE_GRANT = (
    "INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (principal, connection, origin, tool, definition) DO UPDATE"
    " SET id = excluded.id, given_at = excluded.given_at, expires_at = excluded.expires_at"
)
_WRITE_PIN = (
    "INSERT INTO pins VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (principal, connection, origin, tool) DO UPDATE SET approved = excluded.approved"
)
_FIND_PIN = "SELECT approved FROM pins WHERE principal = ? AND connection = ? AND origin = ? AND tool = ?"


class StoredGrants:
    """The tools that the user allowed "always", in a file or a database that all processes of this user share.

    While it cannot be read, or after the clock was set back, nothing is granted, so the user is asked. What the user
    allows then holds; earlier grants are used again once the clock is where it was. ``elapsed`` returns seconds that
    never go back.
    """

    # XL-047, XL-048

    def __init__(
        self,
        place: Path | SharedRows,
        *,
        clock: Callable[[], float] | None = None,
        valid_s: float = GRANT_LIFETIME_S,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = open_consent_file(place, GRANTS)
        self._outages = OutageLog(_log, "Permissions can be read again.")
        self._clock = clock or self._database.clock
        self._valid_s = valid_s
        self._passed = ConfirmedTime(elapsed)

    def _read_clock(self) -> tuple[float, float]:
        """Return the time, and the latest time that was stored."""
        now = self._clock()
        rows: Any = self._database.select_rows("SELECT latest FROM clock")
        # The latest time is stored at most once a minute: a write for each check would be slow.
        latest = rows[0][0] if rows else now - 2 * _STEP_S
        self._passed.find(now)
        # RE-01: a leap is not stored before it is confirmed: all grants would wait until the clock is there again.
        if now >= latest + _STEP_S and not self._passed.is_leap(now):
            with self._database.transaction() as cursor:
                cursor.execute(_WRITE_LATEST, (now,))
        return now, latest

    def _now(self) -> float:
        """Return the time, which never goes back.

        Raises:
            ConnectionError: the clock was set back, so it is unknown which grants are over.
        """
        now, latest = self._read_clock()
        if is_set_back(now, latest):
            raise ConnectionError(describe_step_back(now, latest))
        return max(now, latest)  # what has ended does not begin again

    def _note_failure(self, error: Exception) -> bool:
        self._outages.record_failure("Permissions cannot be read, so the user is asked: %s.", error)
        return False

    def has_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant without bounds for ``key`` that is neither revoked nor expired."""
        try:
            now = self._now()
            found = self._database.select_rows(_FIND_GRANT, *key, now, self._find_last_end(now), _find_reached(now))
        except ConnectionError as error:
            return self._note_failure(error)
        self._outages.record_success()
        return bool(found)

    def has_bounded_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant with bounds for ``key``, whatever calls it covers."""
        try:
            now = self._now()
            found = self._database.select_rows(_FIND_BOUNDED, *key, now, self._find_last_end(now), _find_reached(now))
        except ConnectionError as error:
            return self._note_failure(error)
        self._outages.record_success()
        return bool(found)

    def count_use(self, key: GrantKey) -> None:
        """Count a call that the grant without bounds for ``key`` covers. A count that cannot be stored is left out."""
        # QF-03
        try:
            now = self._now()
            with self._database.transaction() as cursor:
                statement = (
                    "SELECT id FROM grants"
                    " WHERE principal = ? AND connection = ? AND origin = ? AND tool = ? AND definition = ?"
                )
                row = cursor.execute(statement, key).fetchone()
                if row is not None:
                    _count_use(cursor, row[0], now)
        except (sqlite3.Error, ConnectionError) as error:
            _log.warning("A call under a permission was not counted: %s.", error)

    def spend(self, key: GrantKey, arguments: Mapping[str, Json]) -> str:
        """Take one use of a grant that covers the call. A grant that does not count its uses is taken first.

        Return its id, or an empty text if there is none. A row that cannot be read covers no call.
        """
        # CC-03: the count is taken in one transaction, which other processes wait for.
        try:
            now = self._now()
            rows: Any = self._database.select_rows(
                _FIND_BOUNDED, *key, now, self._find_last_end(now), _find_reached(now)
            )
            # Conditions are compared before the transaction, so that the write lock is held for a short time only.
            known = {row[0]: _read_conditions(row[1]) for row in rows if _is_count(row[2])}
            fitting = {id_: one for id_, one in known.items() if covers_call(one, arguments)}
            if not fitting:
                return ""
            with self._database.transaction() as cursor:
                for id_, conditions in fitting.items():
                    # QF-03: grants that share their bounds share the number of their uses, and their sum.
                    ids = f"{group}-%" if (group := find_group(id_)) else id_
                    total = _find_total(cursor, id_, conditions)
                    added = add_amount(total, conditions, arguments)
                    if added is not None and cursor.execute(_SPEND, (ids, now)).rowcount:
                        _count_use(cursor, id_, now)
                        _set_total(cursor, id_, total, added)
                        cursor.execute("DELETE FROM bounded_grants WHERE id LIKE ? AND uses_left = 0", (ids,))
                        return str(id_)
        except (sqlite3.Error, ConnectionError) as error:
            self._note_failure(error)
        return ""

    def add(
        self,
        key: GrantKey,
        bounds: GrantBounds | None = None,
        seen: Iterable[str] | None = None,
        others: Sequence[tuple[GrantKey, Iterable[str]]] = (),
    ) -> None:
        """Store a grant that is valid from now on for the lifetime of grants, or within ``bounds``, as one step."""
        now, latest = self._read_clock()
        passed = self._passed.find(now)
        with self._database.transaction() as cursor:
            if is_set_back(now, latest):
                # The user decides now, so this is the time from here on.
                for statement in _EXTEND_ONLY:
                    cursor.execute(statement, (latest,))
                cursor.execute(_WRITE_LATEST, (now,))
            else:
                now = max(now, latest)
                if not self._passed.is_leap(now):
                    cursor.execute(_WRITE_LATEST, (now,))
            # Old rows are deleted where a new one is written, so that no task is needed for it.
            for statement in _DELETE_ENDED:
                cursor.execute(statement, (passed,))
            cursor.execute(_FORGET_USES)
            cursor.execute(_FORGET_SUMS)
            if bounds is not None:
                for id_, each, conditions in list_grant_rows(secrets.token_hex(_ID_BYTES), key, bounds, seen, others):
                    stored_conditions = None if conditions is None else json.dumps(write_conditions(conditions))
                    row = (id_, *each, now, find_end(now, self._valid_s, bounds), stored_conditions, bounds.uses)
                    cursor.execute("INSERT INTO bounded_grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
                return
            cursor.execute(_WRITE_GRANT, (secrets.token_hex(_ID_BYTES), *key, now, now + self._valid_s))

    def _find_last_end(self, now: float) -> float:
        """Return when the last grant ends that could have been given until ``now``."""
        # A row that ends later was not written by this program, so it covers no call.
        return now + self._valid_s + MAX_CLOCK_STEP_BACK_S

    def revoke(self, id_: str) -> bool:
        """Delete the grant. The next call asks again."""
        with self._database.transaction() as cursor:
            return any(cursor.execute(statement, (id_,)).rowcount > 0 for statement in _REVOKE)

    def list_grants(self) -> Sequence[Grant]:
        """Return the valid grants, oldest first."""
        # RE-01: also those that are not used now because the clock was set back, so that they can be revoked.
        now, select = max(self._read_clock()), "SELECT * FROM {} WHERE expires_at > ? AND expires_at <= ?"
        last = self._find_last_end(now)
        plain: Any = self._database.select_rows(select.format("grants"), now, last)
        bounded: Any = self._database.select_rows(select.format("bounded_grants"), now, last)
        found = [Grant(id=row[0], key=GrantKey(*row[1:6]), given_at=row[6], expires_at=row[7]) for row in plain]
        found += [
            Grant(
                id=row[0],
                key=GrantKey(*row[1:6]),
                given_at=row[6],
                expires_at=row[7],
                conditions=_read_conditions(row[8]),
                uses_left=row[9] if _is_count(row[9]) else 0,
                is_bounded=True,
            )
            for row in bounded
        ]
        rows: Any = self._database.select_rows("SELECT id, covered, last_at FROM grant_uses")
        uses = {id_: {"covered": covered, "last_used_at": last_at} for id_, covered, last_at in rows}
        rows = self._database.select_rows("SELECT id, total FROM grant_sums")
        sums = {id_: {"total": _read_total(total)} for id_, total in rows}
        found = [
            replace(one, **uses.get(one.id, {}), **sums.get(find_group(one.id) or one.id, {}))  # type: ignore[arg-type]
            for one in found
        ]
        return sorted(found, key=lambda grant: (grant.given_at, grant.id))

    def revoke_outdated(self, key: GrantKey) -> None:
        """Delete the grants of the same tool and connection for any other definition."""
        with self._database.transaction() as cursor:
            for table in ("grants", "bounded_grants"):
                cursor.execute(_DELETE_OUTDATED.format(table=table), key)

    def pin_definition(self, key: GrantKey, approved: Mapping[str, Json]) -> None:
        """Store the definition that was approved."""
        with self._database.transaction() as cursor:
            cursor.execute(_WRITE_PIN, (*key[:4], json.dumps(approved)))

    def find_pinned(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of this tool that was approved last."""
        rows: Any = self._database.select_rows(_FIND_PIN, *key[:4])
        found: Mapping[str, Json] | None = json.loads(rows[0][0]) if rows else None
        return found

    def list_pinned(self) -> Sequence[tuple[str, str]]:
        """Return the site and the id of each tool of which an approved definition is stored."""
        # FU-55
        rows: Any = self._database.select_rows("SELECT DISTINCT origin, tool FROM pins ORDER BY origin, tool")
        return [(row[0], row[1]) for row in rows if not row[1].endswith(UNASKED)]  # trust is no approval of a call

    def forget(self, site: str) -> int:
        """Delete all grants and approved definitions of ``site``, an origin; return how many."""
        # FU-55
        count = 0
        with self._database.transaction() as cursor:
            for table in ("grants", "bounded_grants", "pins"):
                statement, values = f"DELETE FROM {table} WHERE origin = ?", (site,)  # noqa: S608 - our own names
                count += cursor.execute(statement, values).rowcount
        return count

    def close(self) -> None:
        """Close the file or the connection."""
        self._database.close()


def _read_conditions(text: Any) -> Conditions:
    """Return the conditions in a row. If they cannot be read, there are none, which covers no call."""
    if text is None:
        return None
    try:
        return read_grant_conditions(json.loads(text)) or ()
    except (ValueError, TypeError, RecursionError):
        return ()


def _count_use(cursor: Cursor, id_: str, now: float) -> None:
    for statement, values in zip(_COUNT, ((id_, now), (now, id_)), strict=True):
        cursor.execute(statement, values)


def _find_total(cursor: Cursor, id_: str, conditions: Conditions) -> Decimal:
    """Return what the amounts of the calls add up to that a grant covered; 0 where no condition bounds that."""
    if find_sum(conditions) is None:
        return Decimal(0)
    row = cursor.execute("SELECT total FROM grant_sums WHERE id = ?", (find_group(id_) or id_,)).fetchone()
    return Decimal(0) if row is None else _read_total(row[0])


def _set_total(cursor: Cursor, id_: str, before: Decimal, total: Decimal) -> None:
    if total != before:
        cursor.execute(_SET_SUM, (find_group(id_) or id_, str(total)))


def _read_total(text: Any) -> Decimal:
    """Return a sum in a row. If it cannot be read, it is infinite, so that no further call is covered."""
    try:
        return total if (total := Decimal(text)) >= 0 else _UNREADABLE
    except (ArithmeticError, TypeError, ValueError):
        return _UNREADABLE


def _find_reached(now: float) -> float:
    """Return the end of what is held back no more at ``now``."""
    return now + MAX_CLOCK_STEP_BACK_S


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value > 0)
