"""A list of tasks in a SQLite database, as tools: ``toolwire serve examples/todo.py``.

The database is the file that TODO_DB names, else ``todo.sqlite3`` in the current folder; it is made when the first
tool needs it. Reading runs without asking, writing asks, and deleting asks each time.
"""

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from toolwire import ToolError, Toolkit

Status = Literal["open", "done"]
TaskId = Annotated[int, Field(ge=1, lt=2**53)]
Title = Annotated[str, Field(min_length=1, max_length=200)]
Connect = Callable[[], sqlite3.Connection]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'open',
    due TEXT
)
"""


@dataclass(frozen=True)
class Task:
    """One thing to do."""

    id: int
    title: str
    status: Status
    due: date | None = None


def todo(database: str | Path | None = None) -> Toolkit:
    """Return the tools of the list in the file ``database``; without one, of the file that TODO_DB names."""

    def connect() -> sqlite3.Connection:
        path = database if database is not None else os.environ.get("TODO_DB", "todo.sqlite3")
        return sqlite3.connect(path, timeout=5)

    toolkit = Toolkit("Todo", version="1.0.0", description="A list of tasks.")
    _add_reading(toolkit, connect)
    _add_writing(toolkit, connect)
    return toolkit


def _add_reading(toolkit: Toolkit, connect: Connect) -> None:
    @toolkit.tool(approval="auto", safe=True)
    def list_tasks(status: Status | None = None) -> list[Task]:
        """List the tasks, oldest first.

        Args:
            status: Only the tasks that are open, or only those that are done.
        """
        with _opened(connect) as db:
            rows = db.execute("SELECT * FROM tasks WHERE ? IS NULL OR status = ? ORDER BY id", (status, status))
            return [_task(row) for row in rows]

    @toolkit.tool(approval="auto", safe=True)
    def get_task(task_id: TaskId) -> Task:
        """Get one task.

        Args:
            task_id: The number of the task.
        """
        with _opened(connect) as db:
            return _found(db, task_id)


def _add_writing(toolkit: Toolkit, connect: Connect) -> None:
    @toolkit.tool(approval="per-call", blanket_allowed=True)
    def create_task(title: Title, due: date | None = None) -> Task:
        """Write a new task down.

        Args:
            title: What there is to do.
            due: The last day for it.
        """
        with _opened(connect) as db:
            added = db.execute("INSERT INTO tasks (title, due) VALUES (?, ?)", (title, _written(due)))
            return _found(db, added.lastrowid or 0)

    @toolkit.tool(approval="per-call", blanket_allowed=True, idempotent=True)
    def update_task(
        task_id: TaskId,
        title: Title | None = None,
        status: Status | None = None,
        due: date | None = None,
    ) -> Task:
        """Change a task; what is not given stays as it is.

        Args:
            task_id: The number of the task.
            title: What there is to do.
            status: Whether it is done.
            due: The last day for it.
        """
        with _opened(connect) as db:
            _found(db, task_id)
            new = (title, status, _written(due), task_id)
            db.execute(
                "UPDATE tasks SET title = coalesce(?, title), status = coalesce(?, status), due = coalesce(?, due)"
                " WHERE id = ?",
                new,
            )
            return _found(db, task_id)

    @toolkit.tool(approval="per-call", destructive=True)
    def delete_task(task_id: TaskId) -> None:
        """Delete a task for good.

        Args:
            task_id: The number of the task.
        """
        with _opened(connect) as db:
            _found(db, task_id)
            db.execute("DELETE FROM tasks WHERE id = ?", (task_id,))


@contextmanager
def _opened(connect: Connect) -> Generator[sqlite3.Connection, None, None]:
    """Give a connection of this call's own, in a transaction: tools run in several threads at once."""
    with closing(connect()) as db, db:
        db.execute(_SCHEMA)
        yield db


def _found(db: sqlite3.Connection, number: int) -> Task:
    row = db.execute("SELECT * FROM tasks WHERE id = ?", (number,)).fetchone()
    if row is None:
        hint = "list_tasks shows the tasks there are."
        raise ToolError(f"There is no task {number}.", additional_prompt_content=hint)
    return _task(row)


def _task(row: tuple[int, str, Status, str | None]) -> Task:
    number, title, status, due = row
    return Task(number, title, status, None if due is None else date.fromisoformat(due))


def _written(due: date | None) -> str | None:
    return None if due is None else due.isoformat()


app = todo()
