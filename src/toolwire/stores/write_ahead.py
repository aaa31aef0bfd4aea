"""SQLite's write-ahead log: readers and one writer of a file work at once, in threads and in processes."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

_TRIES: Final = 1_000
_PAUSE_S: Final = 0.01


def write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the log on for the file of ``connection``, where it is off.

    Turning it on needs the file alone, and SQLite does not wait for that, whatever its timeout: so this does, 10 s.

    Raises:
        sqlite3.Error: the file cannot be used, or others never leave it.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if not (tries_left and error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)):
                raise
            time.sleep(_PAUSE_S)
    connection.execute("PRAGMA synchronous = NORMAL")
