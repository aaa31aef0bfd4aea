"""Open an SQLite database that several processes share and that other users of the machine cannot read."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from toolwire.core.errors import DefinitionError

from .schema import VERSIONS_TABLE, Migration, Schema, migrate_tables, read_version

_BUSY_S = 10.0
_WAL_TRIES: Final = 1_000
_WAL_PAUSE_S: Final = 0.01
_HEAD: Final = (1_953_460_076, 1)
"""The application id ("tool") and the version of the head of a file. 1.0.0rc1 opens a ledger with these alone."""
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

    def row_transaction(self) -> AbstractContextManager[Cursor]:
        """Give a cursor in a transaction beside others where the database can: its statements lock rows."""
        ...

    def open_reader(self) -> AbstractContextManager[Cursor]:
        """Give a cursor that only reads."""
        ...

    def select_rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that ``statement`` selects."""
        ...

    def change_row(self, statement: str, *values: object) -> int:
        """Run one ``statement`` that is right without turns, and return how many rows it changed."""
        ...

    def clock(self) -> float:
        """Return the time that all who share the tables have in common, in seconds since 1970."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Database:
    """An SQLite file. Threads share one connection and take turns; processes share the file.

    Each method raises ConnectionError if the file cannot be read or written, as on a full disk.
    """

    def __init__(self, file: Path, schema: Schema) -> None:
        """Make the folder of ``file`` (mode 0700) if it is missing, and open the file; see ``open_file``.

        Raises:
            DefinitionError: the folder or the file cannot be used.
        """
        self._lock = threading.Lock()
        self._name = file.name
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise build_unusable_error(file, error) from error
        opened = open_file(file, schema)
        self._connection = opened.connection
        self.was_empty: bool = opened.was_empty
        """Whether the file had no tables before it was opened here."""
        close_with(self, self._connection)  # users who share it do not know of each other

    def clock(self) -> float:
        """Return the time of this machine, in seconds since 1970."""
        return time.time()

    @contextmanager
    def _take_turn(self) -> Generator[None, None, None]:
        # R13: as with PostgreSQL, so that users of a store need not know which kind it is.
        try:
            with self._lock:
                yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise ConnectionError(f"{self._name} cannot be used: {error}") from error

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Cursor, None, None]:
        """Give a cursor in a transaction without other writers. An exception rolls it back."""
        with self._take_turn():
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

    row_transaction = transaction

    @contextmanager
    def open_reader(self) -> Generator[sqlite3.Cursor, None, None]:
        """Give a cursor that only reads."""
        with self._take_turn():
            yield self._connection.cursor()

    def select_rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that ``statement`` selects."""
        with self._take_turn():
            return self._connection.execute(statement, values).fetchall()

    def change_row(self, statement: str, *values: object) -> int:
        """Run one ``statement``, and return how many rows it changed."""
        with self._take_turn():
            return self._connection.execute(statement, values).rowcount

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


class OpenedFile(NamedTuple):
    """A connection to a file, and whether the file had no tables before."""

    connection: sqlite3.Connection
    was_empty: bool


def open_file(file: Path, schema: Schema, *, busy_s: float = _BUSY_S) -> OpenedFile:
    """Open ``file`` and bring its tables to the version of ``schema``.

    A missing file is created. The connection has no isolation level: its user begins
    and ends transactions. It waits ``busy_s`` seconds for other processes.

    Raises:
        DefinitionError: the file cannot be used, has other tables, or has those of a newer toolwire. It is unchanged.
    """
    try:
        # D-26: SQLite would create the file with the mode of the umask, which other users could often read, and gives
        # its other files the mode of this one.
        create_private_file(file)
        # The lock of Database, or the one thread of a GroupCommit, takes the place of the check of the thread.
        connection = sqlite3.connect(
            file, timeout=busy_s, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            is_current = (_find_version(connection, schema, file) or 0) >= schema.version
            # Only now: the log changes the head of the file, which may be that of another program.
            write_ahead(connection)
            return OpenedFile(connection, was_empty=not is_current and _migrate_file(connection, schema, file))
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise build_unusable_error(file, error) from error


def close_with(owner: object, connection: sqlite3.Connection) -> None:
    """Close ``connection``, if it is still open, when nothing refers to ``owner`` any more."""
    # RE-03: not by __del__, because of a circle the collector can end the connection first, which warns since CPython
    # 3.13.
    weakref.finalize(owner, connection.close).atexit = False


def write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the log on for the file of ``connection``. Wait up to 10 seconds for other connections.

    Raises:
        sqlite3.Error: the file cannot be used, or other connections never release it.
    """
    # Turning the log on needs exclusive access, and SQLite ignores its timeout for that.
    for tries_left in reversed(range(_WAL_TRIES)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if not (tries_left and error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)):
                raise
            time.sleep(_WAL_PAUSE_S)
    # NORMAL keeps each commit when a process is killed. Only a loss of power can undo the last ones. FULL would prevent
    # that too, for about a millisecond per commit (docs/decisions/0012).
    connection.execute("PRAGMA synchronous = NORMAL")


def build_unusable_error(file: Path, error: OSError | sqlite3.Error) -> DefinitionError:
    """Return the error that says why ``file`` cannot be used."""
    why = error.strerror if isinstance(error, OSError) else error
    return DefinitionError(f"The database {file} cannot be used: {why}.")


def create_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    """Make the tables of ``schema`` in an empty database, such as one in memory."""
    migrate_tables(connection, schema, "memory", lambda migration: _run(connection, migration))


def _migrate_file(connection: sqlite3.Connection, schema: Schema, file: Path) -> bool:
    """Bring the tables to the version of ``schema``, and return whether there were none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Again under the lock: another process may have made them meanwhile.
        _find_version(connection, schema, file)
        was_empty = not _list_columns(connection)
        create_tables(connection, schema)
        if not schema.is_guest:
            for name, value in zip(("application_id", "user_version"), _HEAD, strict=True):
                connection.execute(f"PRAGMA {name} = {value}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back itself if the disk is full
            connection.execute("ROLLBACK")
        raise
    return was_empty


def _find_version(connection: sqlite3.Connection, schema: Schema, file: Path) -> int | None:
    """Return the version of the tables; None for a new file, or one of a program up to 1.0.0rc1.

    Raises:
        DefinitionError: these are other tables, or those of a newer toolwire.
    """
    head = tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    found = _list_columns(connection)
    if head[0] == _HEAD[0] and head[1] > _HEAD[1]:
        raise DefinitionError(f"{file} was written by a newer version of toolwire. Install that version.")
    if VERSIONS_TABLE in found:
        version = read_version(connection, schema, file)
        if version is None and not schema.is_guest:
            raise _build_other_error(file, schema)
        return version
    if head not in {(0, 0), _HEAD} and not schema.is_guest:
        raise _build_other_error(file, schema)
    if found:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
            create_tables(memory, schema._replace(migrations=()))
            known = _list_columns(memory)
        if not schema.is_guest and not found.keys() <= known.keys():
            raise _build_other_error(file, schema)
        for table, columns in known.items():
            if found.get(table, columns) != columns:
                raise DefinitionError(
                    f"The columns of the table {table} in {file} differ from 1.0.0rc1, so an earlier "
                    "version of toolwire wrote it. Move the file away."
                )
    return None


def _list_columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the names of the columns of each table."""
    rows = connection.execute(
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    )
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    return found


def _build_other_error(file: Path, schema: Schema) -> DefinitionError:
    return DefinitionError(f"The tables in {file} differ from those of {schema.name}. Name another file or folder.")


def _run(connection: sqlite3.Connection, migration: Migration) -> None:
    # Not a script, which would end the transaction.
    for statement in f"{migration.statements};;{migration.sqlite}".split(";;"):
        connection.execute(statement)


def create_private_file(file: Path) -> None:
    """Create ``file`` with mode 0600 if it does not exist."""
    # An existing file must not be opened here. Closing it would release all locks that SQLite holds on it in this
    # process (POSIX), and concurrent writers would damage the file.
    with _CREATE_LOCK, suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
