"""Keep credentials in PostgreSQL, for several machines. Their secrets are encrypted before they come here."""
# ST-01, AC-10

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import psycopg

from toolwire.stores.postgres import PostgresConnection, PostgresPlace, describe_error
from toolwire.stores.postgres_rows import open_postgres_rows
from toolwire.stores.schema import Migration, Schema

from .sealing import CredentialError

# Each call of a caller of a gateway asks for the names of this caller, by bytes: other collations skip signs.
CREDENTIALS = Schema(
    "credentials",
    Migration(
        "CREATE TABLE IF NOT EXISTS credentials (name TEXT PRIMARY KEY, record TEXT NOT NULL)",
        postgres='CREATE INDEX IF NOT EXISTS toolwire_credentials_by_name ON toolwire_credentials (name COLLATE "C")',
    ),
    base_version=2,
)
_LOCK = "SELECT pg_try_advisory_lock(1953460080, %s)"
_LOCK_S = 30.0
_PAUSE_S = 0.05
_LIST = 'SELECT name FROM credentials WHERE name COLLATE "C" >= ? AND name COLLATE "C" < ? ORDER BY name'
_WRITE = "INSERT INTO credentials VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET record = excluded.record"


class PostgresCredentials:
    """The texts of credentials in the database at ``url``."""

    is_shared = True

    def __init__(self, url: str) -> None:
        """Make the table if it is missing.

        Raises:
            DefinitionError: the database cannot be used.
        """
        self._place = PostgresPlace(url)
        self._rows = open_postgres_rows(url, CREDENTIALS)

    def list_names(self, prefix: str = "") -> list[str]:
        """Return the names of all texts whose names begin with ``prefix``."""
        if not prefix:
            return [name for (name,) in self._select("SELECT name FROM credentials ORDER BY name")]
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return [name for (name,) in self._select(_LIST, prefix, end)]

    def read(self, name: str) -> str | None:
        """Return the text under ``name``, or None."""
        found = self._select("SELECT record FROM credentials WHERE name = ?", name)
        return found[0][0] if found else None

    def write(self, name: str, text: str) -> None:
        """Store ``text`` under ``name``, in place of an older one."""
        self._change(_WRITE, name, text)

    def delete(self, name: str) -> None:
        """Delete the text under ``name``."""
        self._change("DELETE FROM credentials WHERE name = ?", name)

    @contextmanager
    def lock(self, name: str) -> Generator[None, None, None]:
        """Hold the lock of ``name`` against all machines, for as long as this process has its connection.

        Raises:
            CredentialError: another process has it for more than 30 seconds, or the database does not answer.
        """
        # A connection of its own: what is done meanwhile, such as a refresh of tokens, takes long.
        try:
            connection = self._place.connect()
        except psycopg.Error as error:
            raise CredentialError(f"{self._rows} cannot be used: {describe_error(error)}.") from None
        with connection:
            self._wait_for_lock(connection, name)
            yield

    def _wait_for_lock(self, connection: PostgresConnection, name: str) -> None:
        until = time.monotonic() + _LOCK_S
        try:
            while connection.execute(_LOCK, (crc32(name.encode()) >> 1,)).fetchone() != (True,):
                if time.monotonic() >= until:
                    raise CredentialError("Another process is renewing this credential and takes too long. Try again.")
                time.sleep(_PAUSE_S)
        except psycopg.Error as error:
            raise CredentialError(f"{self._rows} cannot be used: {describe_error(error)}.") from None

    def _select(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._rows.select_rows(statement, *values)
        except ConnectionError as error:
            raise CredentialError(f"Cannot read credentials: {error}.") from None

    def _change(self, statement: str, *values: object) -> None:
        try:
            self._rows.change_row(statement, *values)
        except ConnectionError as error:
            raise CredentialError(f"Cannot store credentials: {error}.") from None
