"""Store grants in SQLite, so that they outlive the process."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolwire.consent.grant import GRANT_LIFETIME_S, MAX_CLOCK_STEP_BACK_S, Grant, GrantKey
from toolwire.core.model import Json
from toolwire.stores.database import Database

from .private_folder import check_folder

GRANTS_FILE = "grants.sqlite3"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS grants (
  id TEXT PRIMARY KEY, principal TEXT NOT NULL, connection TEXT NOT NULL, origin TEXT NOT NULL, tool TEXT NOT NULL,
  definition TEXT NOT NULL, given_at REAL NOT NULL, expires_at REAL NOT NULL,
  UNIQUE (principal, connection, origin, tool, definition));;
CREATE TABLE IF NOT EXISTS pins (
  principal TEXT NOT NULL, connection TEXT NOT NULL, origin TEXT NOT NULL, tool TEXT NOT NULL, approved TEXT NOT NULL,
  PRIMARY KEY (principal, connection, origin, tool));;
CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), latest REAL NOT NULL)
"""
_STEP_S = 60.0
_FIND_GRANT = (
    "SELECT 1 FROM grants"
    " WHERE principal = ? AND connection = ? AND origin = ? AND tool = ? AND definition = ? AND expires_at > ?"
)
_DELETE_OUTDATED = (
    "DELETE FROM grants WHERE principal = ? AND connection = ? AND origin = ? AND tool = ? AND definition != ?"
)
_FIND_PIN = "SELECT approved FROM pins WHERE principal = ? AND connection = ? AND origin = ? AND tool = ?"


class StoredGrants:
    """The tools that the user allowed "always", in a file that all processes of this user share."""

    # XL-047, XL-048

    def __init__(
        self, folder: Path, *, clock: Callable[[], float] = time.time, valid_s: float = GRANT_LIFETIME_S
    ) -> None:
        check_folder(folder, GRANTS_FILE)
        self._database = Database(folder / GRANTS_FILE, _SCHEMA)
        self._clock = clock
        self._valid_s = valid_s

    def _now(self) -> float:
        """Return the time. If the clock was set back, first delete all grants."""
        now = self._clock()
        rows: Any = self._database.select_rows("SELECT latest FROM clock")
        # The latest time is stored at most once a minute: a write for each check would be slow.
        latest = rows[0][0] if rows else now - 2 * _STEP_S
        if latest - MAX_CLOCK_STEP_BACK_S <= now < latest + _STEP_S:
            return now
        with self._database.transaction() as cursor:
            # The clock was set back: how old each grant is cannot be known any more.
            if now < latest:
                cursor.execute("DELETE FROM grants")
            cursor.execute("INSERT OR REPLACE INTO clock VALUES (1, ?)", (now,))
        return now

    def has_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant for ``key`` that is neither revoked nor expired."""
        found = self._database.select_rows(
            _FIND_GRANT,
            *key,
            self._now(),
        )
        return bool(found)

    def add(self, key: GrantKey) -> None:
        """Store a grant that is valid from now on for the lifetime of grants."""
        now = self._now()
        with self._database.transaction() as cursor:
            # Old rows are deleted where a new one is written, so that no task is needed for it.
            cursor.execute("DELETE FROM grants WHERE expires_at <= ?", (now,))
            cursor.execute(
                "INSERT OR REPLACE INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (secrets.token_hex(4), *key, now, now + self._valid_s),
            )

    def revoke(self, id_: str) -> bool:
        """Delete the grant. The next call asks again."""
        with self._database.transaction() as cursor:
            return cursor.execute("DELETE FROM grants WHERE id = ?", (id_,)).rowcount > 0

    def list_grants(self) -> Sequence[Grant]:
        """Return the valid grants, oldest first."""
        rows: Any = self._database.select_rows(
            "SELECT * FROM grants WHERE expires_at > ? ORDER BY given_at, id", self._now()
        )
        return [Grant(id=row[0], key=GrantKey(*row[1:6]), given_at=row[6], expires_at=row[7]) for row in rows]

    def revoke_outdated(self, key: GrantKey) -> None:
        """Delete the grants of the same tool and connection for any other definition."""
        with self._database.transaction() as cursor:
            cursor.execute(_DELETE_OUTDATED, key)

    def pin_definition(self, key: GrantKey, approved: Mapping[str, Json]) -> None:
        """Store the definition that was approved."""
        with self._database.transaction() as cursor:
            cursor.execute("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?)", (*key[:4], json.dumps(approved)))

    def find_pinned(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of this tool that was approved last."""
        rows: Any = self._database.select_rows(_FIND_PIN, *key[:4])
        found: Mapping[str, Json] | None = json.loads(rows[0][0]) if rows else None
        return found

    def close(self) -> None:
        """Close the file."""
        self._database.close()
