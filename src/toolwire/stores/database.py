"""A SQLite database that several processes share: opened so that nobody else on the machine can read it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolwire.core.errors import DefinitionError

from .write_ahead import write_ahead

_BUSY_S = 10.0
_CREATE_LOCK = threading.Lock()


class Database:
    """One file of tables. Threads share the connection, one at a time; processes share the file."""

    def __init__(self, file: Path, schema: str) -> None:
        """Open ``file``, making it and its folder (0700) if need be.

        Raises:
            DefinitionError: the folder or the file cannot be used.
        """
        self._lock = threading.Lock()
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create_file(file)
            self._connection = sqlite3.connect(
                file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=32
            )
            write_ahead(self._connection)
            with self.transaction() as cursor:
                for statement in schema.split(";;"):
                    cursor.execute(statement)
        except (OSError, sqlite3.Error) as error:
            raise DefinitionError(f"{file} cannot be used to keep things in: {error}.") from error

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Cursor, None, None]:
        """Give a cursor inside one transaction that no other writer is in; an exception undoes it."""
        with self._lock:
            cursor = self._connection.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite goes back by itself where the disk is full
                    cursor.execute("ROLLBACK")
                raise

    def select_rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Return what ``statement`` selects."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def _create_file(file: Path) -> None:
    """Make ``file`` for its owner alone, where there is none.

    One that is there is not opened: closing it would take back every lock that SQLite holds on it in this process, and
    without them writers spoil the file.
    """
    with _CREATE_LOCK, suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
