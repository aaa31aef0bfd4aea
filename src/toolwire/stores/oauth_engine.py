"""How the authorization server's database is opened: SQLite, where each change is alone, or PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.pool import StaticPool

from .tables import METADATA
from .write_ahead import write_ahead

LOOKS = "toolwire_looks"
"""The execution option of a transaction that changes nothing."""
_MAKING = 1_953_460_076


def open_engine(where: str | Path) -> Engine:
    """Return what connects to ``where``, an SQLAlchemy URL or the path of an SQLite file, with every table made."""
    text = str(where)
    url = make_url(text if "://" in text else f"sqlite:///{text}")
    engine = _sqlite(url) if url.get_backend_name() == "sqlite" else create_engine(url, pool_pre_ping=True)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # of many processes that start at once, one makes the tables
            connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
        METADATA.create_all(connection)
    return engine


def in_memory(engine: Engine) -> bool:
    """Return whether all threads share one connection, and so must take turns."""
    return isinstance(engine.pool, StaticPool)


def _sqlite(url: URL) -> Engine:
    memory = url.database in (None, "", ":memory:")
    options: dict[str, Any] = {"poolclass": StaticPool} if memory else {}
    engine = create_engine(url, connect_args={"check_same_thread": False, "timeout": 10}, **options)
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", _begun)
    return engine


def _connected(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own; _begun does
    write_ahead(connection)
    connection.execute("PRAGMA foreign_keys = ON")


def _begun(connection: Connection) -> None:
    looks = connection.get_execution_options().get(LOOKS, False)
    connection.exec_driver_sql("BEGIN" if looks else "BEGIN IMMEDIATE")
