"""The tasks and the keys of everybody, in SQLite or PostgreSQL.

Rules:
- Every question names whose tasks are meant: no approver is configured for somebody else's.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, Field
from sqlalchemy import (
    Column,
    Date,
    DateTime,
    Engine,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    update,
)

Status: TypeAlias = Literal["todo", "in-progress", "done"]

MAX_TASKS = 1_000
MAX_KEYS = 20

_METADATA = MetaData()
_TASKS = Table(
    "tasks",
    _METADATA,
    Column("id", String(16), primary_key=True),
    Column("owner", String(64), nullable=False, index=True),
    Column("name", String(200), nullable=False),
    Column("description", Text, nullable=False),
    Column("dueDate", Date),
    Column("status", String(16), nullable=False),
    Column("createdAt", DateTime, nullable=False),
)
_KEYS = Table(
    "api_keys",
    _METADATA,
    Column("digest", String(64), primary_key=True),
    Column("owner", String(64), nullable=False, index=True),
    Column("name", String(100), nullable=False),
)


class Task(BaseModel):
    """One thing to do."""

    id: str
    name: str
    description: str = ""
    dueDate: date | None = Field(default=None, description="The last day for it.")  # noqa: N815 - as the API says it
    status: Status = "todo"
    createdAt: AwareDatetime  # noqa: N815 - as the API says it


class TooManyError(Exception):
    """Somebody has as many of something as one person may have."""


class Store:
    """The database at an SQLAlchemy URL. Every method may wait for it: call them in a worker thread."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
        if url.startswith("sqlite"):
            event.listen(self._engine, "connect", _connected)
        _METADATA.create_all(self._engine)

    @property
    def engine(self) -> Engine:
        """What connects to the database."""
        return self._engine

    def tasks(self, owner: str, status: Status | None = None) -> list[Task]:
        """Return somebody's tasks, oldest first."""
        query = select(_TASKS).where(_TASKS.c.owner == owner).order_by(_TASKS.c.createdAt, _TASKS.c.id)
        if status is not None:
            query = query.where(_TASKS.c.status == status)
        with self._engine.connect() as connection:
            return [_task(row) for row in connection.execute(query).mappings()]

    def task(self, owner: str, task_id: str) -> Task | None:
        """Return one of somebody's tasks."""
        query = select(_TASKS).where(_TASKS.c.owner == owner, _TASKS.c.id == task_id)
        with self._engine.connect() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _task(row)

    def add(self, owner: str, values: Mapping[str, Any]) -> Task:
        """Return the new task with these values.

        Raises:
            TooManyError: the person has as many tasks as one may have.
        """
        row = {"id": secrets.token_hex(5), "createdAt": datetime.now(UTC).replace(tzinfo=None), **values}
        count = select(func.count()).select_from(_TASKS).where(_TASKS.c.owner == owner)
        with self._engine.begin() as connection:
            if (connection.scalar(count) or 0) >= MAX_TASKS:
                raise TooManyError(f"You have {MAX_TASKS:,} tasks: delete some first.")
            connection.execute(insert(_TASKS).values(owner=owner, **row))
        return _task(row)

    def change(self, owner: str, task_id: str, values: Mapping[str, Any]) -> Task | None:
        """Change what ``values`` name of one of somebody's tasks, and return it."""
        mine = (_TASKS.c.owner == owner, _TASKS.c.id == task_id)
        with self._engine.begin() as connection:
            if values:
                connection.execute(update(_TASKS).where(*mine).values(**values))
            row = connection.execute(select(_TASKS).where(*mine)).mappings().first()
        return None if row is None else _task(row)

    def delete(self, owner: str, task_id: str) -> bool:
        """Delete one of somebody's tasks; return whether there was one."""
        with self._engine.begin() as connection:
            gone = connection.execute(delete(_TASKS).where(_TASKS.c.owner == owner, _TASKS.c.id == task_id))
        return gone.rowcount > 0

    def keys(self, owner: str) -> list[tuple[str, str]]:
        """Return the handle and the name of each of somebody's keys."""
        query = select(_KEYS.c.digest, _KEYS.c.name).where(_KEYS.c.owner == owner).order_by(_KEYS.c.name)
        with self._engine.connect() as connection:
            return [(row.digest[:16], row.name) for row in connection.execute(query)]

    def add_key(self, owner: str, name: str, key: str) -> None:
        """Keep the digest of a new key.

        Raises:
            TooManyError: the person has as many keys as one may have.
        """
        if len(self.keys(owner)) >= MAX_KEYS:
            raise TooManyError(f"You have {MAX_KEYS} keys: revoke one first.")
        with self._engine.begin() as connection:
            connection.execute(insert(_KEYS).values(digest=_digest(key), owner=owner, name=name))

    def revoke_key(self, owner: str, handle: str) -> None:
        """End one of somebody's keys."""
        with self._engine.begin() as connection:
            connection.execute(delete(_KEYS).where(_KEYS.c.owner == owner, _KEYS.c.digest.startswith(handle)))

    def owner_of(self, key: str) -> str | None:
        """Return whose key it is."""
        with self._engine.connect() as connection:
            return connection.scalar(select(_KEYS.c.owner).where(_KEYS.c.digest == _digest(key)))


def _task(row: Mapping[Any, Any]) -> Task:
    values = {str(name): value for name, value in row.items() if name != "owner"}
    return Task(**{**values, "createdAt": values["createdAt"].replace(tzinfo=UTC)})


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _connected(connection: Any, _: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")
