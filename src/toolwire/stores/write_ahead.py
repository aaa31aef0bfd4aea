"""Turn on the write-ahead log of SQLite, so that readers and one writer can use a file at the same time."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

_TRIES: Final = 1_000
_PAUSE_S: Final = 0.01


def write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the log on for the file of ``connection``. Wait up to 10 seconds for other connections.

    Raises:
        sqlite3.Error: the file cannot be used, or other connections never release it.
    """
    # Turning the log on needs exclusive access, and SQLite ignores its timeout for that.
    for tries_left in reversed(range(_TRIES)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if not (tries_left and error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)):
                raise
            time.sleep(_PAUSE_S)
    # NORMAL keeps each commit when a process is killed. Only a loss of power can undo the last ones. FULL would prevent
    # that too, for about a millisecond per commit (docs/decisions/0012).
    connection.execute("PRAGMA synchronous = NORMAL")
