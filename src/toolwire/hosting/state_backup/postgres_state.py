"""Back up, check and restore the state in a PostgreSQL database, while servers use it.

Rules:
- All tables are read in one snapshot, so a backup is one moment of the whole state.
- The key that signs one-time tokens is not read, and neither are used tokens and the leases of processes.
- A restore is one transaction, to a database without a state.
"""
# PL-07, docs/decisions/0955

from __future__ import annotations

import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from toolwire.core.errors import DefinitionError
from toolwire.stores.consent.tables import CONSENT
from toolwire.stores.credentials.postgres import CREDENTIALS
from toolwire.stores.ledger.tables import CALLS, LONG_CALLS
from toolwire.stores.limits.tables import RATES
from toolwire.stores.oauth.tables import OAUTH
from toolwire.stores.postgres import (
    MIGRATION_LOCK,
    PostgresConnection,
    PostgresCursor,
    PostgresPlace,
    build_unusable_error,
    migrate_schema,
)
from toolwire.stores.restores import RESTORES, add_restore
from toolwire.stores.schema import VERSIONS_TABLE, Schema, migrate_tables, read_version, write_for_postgres
from toolwire.stores.sessions.tables import SESSIONS

from .archive import BackupHead, check_new_file, read_archive, write_archive
from .void_rows import list_void_statements

KIND: Final = "postgresql"
_PARTS: Final = (CALLS, LONG_CALLS, RATES, CONSENT, CREDENTIALS, SESSIONS, OAUTH, RESTORES)
_NOT_COPIED: Final = frozenset({"toolwire_word_keys", "toolwire_spent_words", "toolwire_owners"})
_CREATED: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_PATIENCE_S: Final = 600.0
_CHUNK: Final = 1 << 20
_COLUMNS: Final = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
    " ORDER BY attnum"
)
_IDENTITIES: Final = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attidentity != '' AND NOT attisdropped"
)
_NUMBER_GAP: Final = 1_000_000
"""A client that has read on must not take a new number for one that it knows."""


def back_up_database(url: str, target: Path) -> BackupHead:
    """Write the state in the database at ``url`` to the new file ``target``, and return what it says of itself.

    Raises:
        DefinitionError: there is no state, or it cannot be read, or ``target`` cannot be written.
    """
    check_new_file(target)
    place = PostgresPlace(url)
    with _open(place) as connection, tempfile.TemporaryDirectory(dir=target.parent, prefix=".toolwire-") as scratch:
        parts = _list_parts(connection, place)
        for schema in parts:
            migrate_schema(place, schema)
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            made_at = _read_time(connection)
            columns: dict[str, list[str]] = {}
            copied: dict[str, Path] = {}
            for table in (one for schema in parts for one in _list_tables(schema)):
                columns[table] = [name for (name,) in connection.execute(_COLUMNS, (table,)).fetchall()]
                copied[table] = Path(scratch, table)
                statement = sql.SQL("COPY {} ({}) TO STDOUT").format(*_name(table, columns[table]))
                with copied[table].open("wb") as file, connection.cursor().copy(statement) as rows:
                    for chunk in rows:
                        file.write(chunk)
        versions = {schema.name: schema.version for schema in parts}
        write_archive(target, copied, kind=KIND, made_at=made_at, parts=versions, columns=columns)
    return read_archive(target, lambda head: check_database_head(head, target))


def restore_database(file: Path, url: str, *, is_current: bool) -> BackupHead:
    """Restore the backup ``file`` to the database at ``url``, and return what it says of itself.

    ``is_current``: nothing has run since the backup was made, so that answers and permissions count.

    Raises:
        DefinitionError: the backup is damaged or of something else, or the database holds a state. Nothing changes.
    """
    place = PostgresPlace(url)
    with tempfile.TemporaryDirectory(prefix="toolwire-") as scratch:
        head = read_archive(file, lambda head: check_database_head(head, file), Path(scratch))
        known = {schema.name: schema for schema in _PARTS}
        parts = [known[name] for name in head.parts]
        with _open(place) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            _refuse_if_used(connection, place)
            for schema in parts:
                earlier = schema.migrations[: head.parts[schema.name] - schema.base_version]
                _migrate(connection, schema._replace(migrations=earlier), place)
                for table in _list_tables(schema):
                    _load(connection, table, head.columns[table], Path(scratch, table))
                _migrate(connection, schema, place)
                for statement in list_void_statements(schema.name, is_current=is_current):
                    PostgresCursor(connection).execute(statement)
            _migrate(connection, RESTORES, place)
            add_restore(PostgresCursor(connection), _read_time(connection), head.made_at, is_current=is_current)
    return head


def check_database_head(head: BackupHead, file: Path) -> None:
    """Check that ``head`` is that of a backup ``file`` which can be restored to a database.

    Raises:
        DefinitionError: it is of a folder, or of a newer toolwire.
        ValueError: tables are missing, or are not those of a state.
    """
    if head.kind != KIND:
        raise DefinitionError(f"{file} is a backup of a folder, not of a PostgreSQL database. Name a folder.")
    known = {schema.name: schema for schema in _PARTS}
    tables: set[str] = set()
    for name, version in head.parts.items():
        if name not in known or version > known[name].version:
            raise DefinitionError(f"{file} was made by a newer toolwire ({head.toolwire}). Install that version.")
        if version < known[name].base_version:
            raise ValueError(name)
        tables.update(_list_tables(known[name]))
    if set(head.files) != tables or set(head.columns) != tables or not all(head.columns.values()):
        raise ValueError("other tables")


def check_database(url: str) -> list[str]:
    """Return the names of the tables of the state in the database at ``url``, all of which can be read.

    Raises:
        DefinitionError: there is no state, or it cannot be read or is that of a newer toolwire.
    """
    place = PostgresPlace(url)
    with _open(place) as connection:
        tables = [table for schema in _list_parts(connection, place) for table in _list_tables(schema)]
        for table in tables:  # every row and every long value, which a count alone would not read
            connection.execute(sql.SQL("SELECT max(length(t::text)) FROM {} t").format(sql.Identifier(table)))
    return tables


@contextmanager
def _open(place: PostgresPlace) -> Generator[PostgresConnection]:
    try:
        with place.connect(_PATIENCE_S) as connection:
            yield connection
    except psycopg.Error as error:
        raise build_unusable_error(place, error) from None


def _list_parts(connection: PostgresConnection, place: PostgresPlace) -> list[Schema]:
    """Return the parts of the state in a database.

    Raises:
        DefinitionError: there are none, or one is of a newer toolwire.
    """
    if connection.execute("SELECT to_regclass(%s)", (VERSIONS_TABLE,)).fetchone() == (None,):
        raise DefinitionError(f"The database {place} contains no state. Name the one that the server uses as --state.")
    cursor = PostgresCursor(connection)
    return [schema for schema in _PARTS if read_version(cursor, schema, place) is not None]


def _list_tables(schema: Schema) -> list[str]:
    """Return the names of the tables of ``schema`` that a backup holds."""
    text = "".join(map(write_for_postgres, (schema.base, *schema.migrations)))
    return [name for name in dict.fromkeys(_CREATED.findall(text)) if name not in _NOT_COPIED]


def _refuse_if_used(connection: PostgresConnection, place: PostgresPlace) -> None:
    names = [VERSIONS_TABLE, *(table for schema in _PARTS for table in _list_tables(schema))]
    statement = "SELECT name FROM unnest(%s::text[]) name WHERE to_regclass(name) IS NOT NULL"
    if connection.execute(statement, (names,)).fetchone() is not None:
        raise DefinitionError(f"The database {place} already contains a state. Name an empty database.")


def _migrate(connection: PostgresConnection, schema: Schema, place: PostgresPlace) -> None:
    cursor = PostgresCursor(connection)
    migrate_tables(cursor, schema, place, lambda one: connection.execute(write_for_postgres(one).encode()))


def _load(connection: PostgresConnection, table: str, columns: list[str], file: Path) -> None:
    """Fill ``table`` with the rows in ``file``, in place of those that it was made with."""
    named, listed = _name(table, columns)
    # A log that nobody may change is filled here, and rows that are counted come with their count.
    connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(named))
    connection.execute(sql.SQL("DELETE FROM {}").format(named))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(named, listed)
    with file.open("rb") as content, connection.cursor().copy(statement) as rows:
        while chunk := content.read(_CHUNK):
            rows.write(chunk)
    connection.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(named))
    for (column,) in connection.execute(_IDENTITIES, (table,)).fetchall():
        connection.execute(
            sql.SQL("SELECT setval(pg_get_serial_sequence(%s, %s), coalesce(max({}), 0) + %s) FROM {}").format(
                sql.Identifier(column), named
            ),
            (table, column, _NUMBER_GAP),
        )


def _name(table: str, columns: list[str]) -> tuple[sql.Identifier, sql.Composed]:
    return sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))


def _read_time(connection: PostgresConnection) -> float:
    row: Any = connection.execute("SELECT extract(epoch FROM clock_timestamp())::double precision").fetchone()
    return float(row[0])
