"""Run the statements that are written for a file of SQLite in PostgreSQL instead, for several machines.

Rules:
- Writers of one part take turns, as they do with a file, so the same code is right on both.
- No wait for the database is longer than its deadline. After one that was missed, it is not asked for 5 seconds.
- The database tells the time, because machines that share it may disagree about it.
"""
# ST-01, ST-05

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

import psycopg

from .postgres import (
    DEADLINE_S,
    Breaker,
    PostgresConnection,
    PostgresCursor,
    PostgresPlace,
    describe_error,
    is_connection_lost,
    migrate_schema,
    translate,
)
from .schema import Schema

_FRESH_S = 1.0
"""A connection that was used less than this ago is taken to be alive."""
_LOCK = "SELECT pg_advisory_xact_lock(1953460079, %s)"
_TIME = "SELECT extract(epoch FROM clock_timestamp())::double precision"

_OPEN: WeakValueDictionary[tuple[str, str], PostgresRows] = WeakValueDictionary()
_OPEN_LOCK = threading.Lock()


class PostgresRows:
    """One part of the tables of toolwire in the database at a URL. Threads share one connection and take turns.

    Each method raises ConnectionError if the database cannot be asked; nothing is changed then, or it is unknown
    whether the last change was made.
    """

    def __init__(self, url: str, schema: Schema) -> None:
        """Bring the tables to the version of ``schema``.

        Raises:
            DefinitionError: the database cannot be used.
        """
        self._place = PostgresPlace(url)
        migrate_schema(self._place, schema)
        # The writers of one part wait for each other, whatever else toolwire stores in this database.
        self._lock_id = crc32(schema.name.encode()) >> 1
        self._turn = threading.Lock()
        self._breaker = Breaker()
        self._opened: PostgresConnection | None = None
        self._ahead_s: float | None = None
        """By how many seconds the clock of the database is ahead of this machine's monotonic clock."""
        self._used_at = 0.0

    def __str__(self) -> str:
        return f"the database {self._place}"

    def clock(self) -> float:
        """Return the time of the database, in seconds since 1970."""
        # How far the clock of the database is ahead changes slowly, so this waits for the database only once.
        if self._ahead_s is None:
            with self._borrow():
                pass
        return time.monotonic() + (self._ahead_s or 0.0)

    @contextmanager
    def transaction(self) -> Generator[PostgresCursor, None, None]:
        """Give a cursor in a transaction without other writers. An exception rolls it back."""
        with self._borrow() as opened, opened.transaction():
            opened.execute(_LOCK, (self._lock_id,))
            yield PostgresCursor(opened)

    @contextmanager
    def row_transaction(self) -> Generator[PostgresCursor, None, None]:
        """Give a cursor in a transaction beside others: its statements lock rows. An exception rolls it back."""
        with self._borrow() as opened, opened.transaction():
            yield PostgresCursor(opened)

    @contextmanager
    def open_reader(self) -> Generator[PostgresCursor, None, None]:
        """Give a cursor that only reads."""
        with self._borrow() as opened:
            yield PostgresCursor(opened)

    def select_rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that ``statement`` selects."""
        with self._borrow() as opened:
            return opened.execute(translate(statement), values or None).fetchall()

    def change_row(self, statement: str, *values: object) -> int:
        """Run one ``statement`` that is right without turns, and return how many rows it changed."""
        with self._borrow() as opened:
            return opened.execute(translate(statement), values or None).rowcount

    def close(self) -> None:
        """Close the connection; whoever uses it next opens another one."""
        with self._turn:
            self._disconnect()

    @contextmanager
    def _borrow(self) -> Generator[PostgresConnection, None, None]:
        """Give the connection, which works or is a new one."""
        # A thread that waits longer than this waits behind a database that hangs.
        if self._breaker.is_open or not self._turn.acquire(timeout=2 * DEADLINE_S):
            raise ConnectionError(f"{self} does not answer")
        try:
            yield self._prepare()
            self._used_at = time.monotonic()
        except (psycopg.Error, UnicodeError) as error:
            if isinstance(error, psycopg.Error) and (self._opened is None or is_connection_lost(self._opened, error)):
                self._disconnect()
            reason = describe_error(error) if isinstance(error, psycopg.Error) else "a text has half a character"
            raise ConnectionError(f"{self} cannot be used: {reason}") from None
        finally:
            self._turn.release()

    def _prepare(self) -> PostgresConnection:
        opened = self._opened
        if opened is not None and time.monotonic() < self._used_at + _FRESH_S:
            return opened
        # A connection that was idle may be dead, for example because the database was started again. Nothing was asked
        # of it yet, so a new one takes its place unnoticed.
        if opened is not None:
            with suppress(psycopg.Error):
                self._ahead_s = _read_ahead(opened)
                return opened
            self._disconnect()
            if self._breaker.is_open:
                raise psycopg.OperationalError("it does not answer")
        connection = self._place.connect(on_timeout=self._breaker.open)
        # Its users share it and do not know of each other, so it is closed when the last one lets go of it.
        connection.closes_itself = True
        self._ahead_s, self._opened = _read_ahead(connection), connection
        return connection

    def _disconnect(self) -> None:
        if self._opened is not None:
            with suppress(psycopg.Error):
                self._opened.close()
            self._opened = None


def open_postgres_rows(url: str, schema: Schema) -> PostgresRows:
    """Return the tables of ``schema`` at ``url``; all users of one process share one connection.

    Raises:
        DefinitionError: the database cannot be used.
    """
    with _OPEN_LOCK:
        found = _OPEN.get((url, schema.name))
        if found is None:
            found = _OPEN[(url, schema.name)] = PostgresRows(url, schema)
        return found


def _read_ahead(connection: PostgresConnection) -> float:
    """Return by how many seconds the clock of the database is ahead of this machine's monotonic clock."""
    row = connection.execute(_TIME).fetchone()
    if row is None:
        raise psycopg.OperationalError("it did not report its time")
    return float(row[0]) - time.monotonic()
