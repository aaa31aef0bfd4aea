"""Open an SQLite database that several processes share and that other users of the machine cannot read."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from toolwire.core.errors import DefinitionError

from .write_ahead import write_ahead

_BUSY_S = 10.0
_CREATE_LOCK = threading.Lock()


class Rows(Protocol):
    """What a statement returned."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        ...


class Cursor(Protocol):
    """Runs statements in one transaction."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Run ``statement`` and return its rows; ``?`` stands for each of ``values``."""
        ...


class SharedRows(Protocol):
    """Tables that several processes share: a file of SQLite, or a part of a database of PostgreSQL."""

    def transaction(self) -> AbstractContextManager[Cursor]:
        """Give a cursor in a transaction without other writers. An exception rolls it back."""
        ...

    def select_rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that ``statement`` selects."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Database:
    """An SQLite file. Threads share one connection and take turns; processes share the file."""

    def __init__(self, file: Path, schema: str) -> None:
        """Open ``file``, and create it and its folder (mode 0700) if they do not exist.

        Raises:
            DefinitionError: the folder or the file cannot be used.
        """
        self._lock = threading.Lock()
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite would create the file with the mode of the umask, which other users could often read.
            create_private_file(file)
            # No isolation level: transaction() begins transactions, the driver must not. The lock above takes the place
            # of the check of the thread.
            self._connection = sqlite3.connect(
                file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=32
            )
            # RE-03: users who share it do not know of each other, so it is closed when the last one lets go of it. Not
            # by __del__: of a circle, the collector may end the connection first, which warns since CPython 3.13.
            weakref.finalize(self, self._connection.close).atexit = False
            write_ahead(self._connection)
            with self.transaction() as cursor:
                self.had_tables: bool = cursor.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
                """Whether the file had tables before it was opened here."""
                # Two semicolons separate the statements, because a trigger has single ones in it.
                for statement in schema.split(";;"):
                    cursor.execute(statement)
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise DefinitionError(f"The database {file} cannot be used: {why}.") from error

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Cursor, None, None]:
        """Give a cursor in a transaction without other writers. An exception rolls it back."""
        with self._lock:
            cursor = self._connection.cursor()
            # With a plain BEGIN, two transactions that read before they write could both fail.
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            # Also for an interrupt from the keyboard: a transaction that stays open would lock the file for all
            # processes.
            except BaseException:
                if self._connection.in_transaction:  # SQLite rolls back itself if the disk is full
                    cursor.execute("ROLLBACK")
                raise

    def select_rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Return the rows that ``statement`` selects."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def create_private_file(file: Path) -> None:
    """Create ``file`` with mode 0600 if it does not exist."""
    # An existing file must not be opened here. Closing it would release all locks that SQLite holds on it in this
    # process (POSIX), and concurrent writers would damage the file.
    with _CREATE_LOCK, suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
