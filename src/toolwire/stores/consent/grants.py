"""Grants that outlive the process, in SQLite."""

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
_SAME_TOOL = "principal = ? AND connection = ? AND origin = ? AND tool = ?"


class StoredGrants:
    """The tools a person allowed "always", in a file that every process of this user sees."""

    # XL-047, XL-048

    def __init__(
        self, folder: Path, *, clock: Callable[[], float] = time.time, valid_s: float = GRANT_LIFETIME_S
    ) -> None:
        self._database = Database(folder / "grants.sqlite3", _SCHEMA)
        self._clock = clock
        self._valid_s = valid_s

    def _now(self) -> float:
        """Return the time, after forgetting every grant where the clock was set back."""
        now = self._clock()
        rows: Any = self._database.select_rows("SELECT latest FROM clock")
        latest = rows[0][0] if rows else now - 2 * _STEP_S
        if latest - MAX_CLOCK_STEP_BACK_S <= now < latest + _STEP_S:
            return now
        with self._database.transaction() as cursor:
            if now < latest:
                cursor.execute("DELETE FROM grants")
            cursor.execute("INSERT OR REPLACE INTO clock VALUES (1, ?)", (now,))
        return now

    def has_grant(self, key: GrantKey) -> bool:
        """Return whether a grant of this key was added, and neither revoked nor expired."""
        found = self._database.select_rows(
            f"SELECT 1 FROM grants WHERE {_SAME_TOOL} AND definition = ? AND expires_at > ?",  # noqa: S608 - a constant
            *key,
            self._now(),
        )
        return bool(found)

    def add(self, key: GrantKey) -> None:
        """Remember the grant, for as long as grants hold from now on."""
        now = self._now()
        with self._database.transaction() as cursor:
            cursor.execute("DELETE FROM grants WHERE expires_at <= ?", (now,))
            cursor.execute(
                "INSERT OR REPLACE INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (secrets.token_hex(4), *key, now, now + self._valid_s),
            )

    def revoke(self, id_: str) -> bool:
        """Forget the grant; the next call asks again."""
        with self._database.transaction() as cursor:
            return cursor.execute("DELETE FROM grants WHERE id = ?", (id_,)).rowcount > 0

    def list_grants(self) -> Sequence[Grant]:
        """Return the grants that hold, oldest first."""
        rows: Any = self._database.select_rows(
            "SELECT * FROM grants WHERE expires_at > ? ORDER BY given_at, id", self._now()
        )
        return [Grant(id=row[0], key=GrantKey(*row[1:6]), given_at=row[6], expires_at=row[7]) for row in rows]

    def revoke_outdated(self, key: GrantKey) -> None:
        """Forget every grant of the same tool and connection with another definition."""
        with self._database.transaction() as cursor:
            cursor.execute(f"DELETE FROM grants WHERE {_SAME_TOOL} AND definition != ?", key)  # noqa: S608 - a constant

    def pin_definition(self, key: GrantKey, approved: Mapping[str, Json]) -> None:
        """Remember the definition that was approved."""
        with self._database.transaction() as cursor:
            cursor.execute("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?)", (*key[:4], json.dumps(approved)))

    def find_pinned(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of this tool that was approved last."""
        rows: Any = self._database.select_rows(f"SELECT approved FROM pins WHERE {_SAME_TOOL}", *key[:4])  # noqa: S608 - likewise
        found: Mapping[str, Json] | None = json.loads(rows[0][0]) if rows else None
        return found

    def close(self) -> None:
        """Close the file."""
        self._database.close()
