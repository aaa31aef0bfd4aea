"""Connect to the database of the authorization server: SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.pool import StaticPool

from toolwire.stores.database import create_private_file
from toolwire.stores.paths import is_postgres_url
from toolwire.stores.write_ahead import write_ahead

from .tables import METADATA

READ_ONLY = "toolwire_looks"
"""The execution option of a transaction that only reads."""
UNAVAILABLE = (OperationalError, InterfaceError, NoConnectionError)
"""The errors of a database that cannot be reached, closes the connection, or has no free connection."""
_CREATE_LOCK_ID = 1_953_460_076
_CONNECT_S = 5
_WAIT_S = 5.0


def open_engine(where: str | Path) -> tuple[Engine, Callable[[], bool]]:
    """Return an engine for ``where``, an SQLAlchemy URL or the path of an SQLite file, and create missing tables.

    With it comes a function that returns whether the database hangs and must not be asked now.

    Raises:
        DefinitionError: the tables of PostgreSQL cannot be made, or are of a newer toolwire.
    """
    text = str(where)
    url = make_url(text if "://" in text else f"sqlite:///{text}")
    if is_postgres_url(text):
        from .postgres_engine import PostgresConnector  # only the extra brings its driver

        connector = PostgresConnector(url.set(drivername="postgresql+psycopg"))
        return connector.engine, lambda: connector.breaker.is_open
    engine = _open_sqlite(url) if url.get_backend_name() == "sqlite" else _open_server(url)
    _create_tables(engine)
    return engine, lambda: False


def _create_tables(engine: Engine) -> None:
    with engine.begin() as connection:
        # PostgreSQL by another driver than psycopg has no versions of its tables. Of several processes that start at
        # once, only one may create them.
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_CREATE_LOCK_ID)))
        METADATA.create_all(connection)


def is_in_memory(engine: Engine) -> bool:
    """Return whether all threads share one connection, so that they must take turns."""
    return isinstance(engine.pool, StaticPool)


def _open_server(url: URL) -> Engine:
    """Return an engine for a database server, with short timeouts: it may go away and come back."""
    # R11
    ours = url.drivername == "postgresql+psycopg2"
    patience = {"connect_timeout": _CONNECT_S} if ours and "connect_timeout" not in url.query else {}
    # pool_pre_ping: after a restart of the database, the connections in the pool are dead.
    return create_engine(url, pool_pre_ping=True, pool_timeout=_WAIT_S, connect_args=patience)


def _open_sqlite(url: URL) -> Engine:
    memory = url.database in (None, "", ":memory:")
    # Each connection to a database in memory has its own, empty one, so there must be only one connection.
    options: dict[str, Any] = {"poolclass": StaticPool} if memory else {}
    if not memory and url.database is not None:
        # SQLite would create the file with the mode of the umask, which other users could often read.
        with suppress(OSError):  # the engine says what is wrong with the path
            create_private_file(Path(url.database))
    engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": 10}, **options)
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin_transaction)
    return engine


def _prepare_connection(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions; _begin_transaction does
    write_ahead(connection)
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_transaction(connection: Connection) -> None:
    looks = connection.get_execution_options().get(READ_ONLY, False)
    # A transaction that changes what it has read takes the write lock at once: two that wait until their first change
    # could both fail. One that only reads needs no lock, and waits for no writer.
    connection.exec_driver_sql("BEGIN" if looks else "BEGIN IMMEDIATE")
