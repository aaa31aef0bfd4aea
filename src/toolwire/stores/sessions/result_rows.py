"""Keep long results where several processes find them, for the models that read them in parts."""
# QF-10, ST-01

from __future__ import annotations

from typing import Any

from toolwire.stores.database import SharedRows
from toolwire.stores.open_rows import open_rows

from .session_rows import name_errors
from .tables import SESSIONS


class ResultRows:
    """The results in one file or database: those of the last ``kept_s`` seconds, and at most ``most_bytes`` of them."""

    def __init__(self, rows: SharedRows, *, kept_s: float, most_bytes: int) -> None:
        self._rows, self._kept_s, self._most_bytes = rows, kept_s, most_bytes

    def keep(self, key: bytes, body: bytes) -> None:
        """Keep ``body`` under ``key``; the oldest go if there is no more room."""
        with name_errors(), self._rows.transaction() as cursor:
            now = self._rows.clock()
            cursor.execute("DELETE FROM kept_results WHERE kept_at < ?", (now - self._kept_s,))
            cursor.execute("INSERT INTO kept_results VALUES (?, ?, ?, ?)", (key, body, len(body), now))
            rows: list[Any] = cursor.execute("SELECT key, size FROM kept_results ORDER BY kept_at DESC").fetchall()
            total = 0
            for one, size in rows:
                total += size
                if total > self._most_bytes:
                    cursor.execute("DELETE FROM kept_results WHERE key = ?", (bytes(one),))

    def find(self, key: bytes) -> bytes | None:
        """Return what is under ``key``, or None."""
        statement = "SELECT body FROM kept_results WHERE key = ? AND kept_at >= ?"
        with name_errors():
            rows: list[Any] = self._rows.select_rows(statement, key, self._rows.clock() - self._kept_s)
        return bytes(rows[0][0]) if rows else None


def open_results(place: str, *, kept_s: float, most_bytes: int) -> ResultRows:
    """Return the results in the file or database ``place``.

    Raises:
        DefinitionError: it cannot be used.
    """
    return ResultRows(open_rows(place, SESSIONS), kept_s=kept_s, most_bytes=most_bytes)
