"""Record new calls, or settle first runs, many by one statement of SQLite.

A statement runs without Python's lock and commits itself. So the file is locked for as long as SQLite works on it, and
not while this thread waits for its turn among the threads of its process: several processes can share a file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

_COLUMNS: Final = "principal, tool, call_id, fingerprint, rerun, owner, bytes"
_MINE: Final = (
    "calls.principal = v.column1 AND calls.tool = v.column2 AND calls.call_id = v.column3"
    " AND calls.owner = v.column4 AND calls.attempt = 1"
)


def add_calls(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Record running calls, if all of them are new; otherwise none. Return whether they were.

    A row is principal, tool, id, fingerprint, whether the call may run again, owner and bytes.
    """
    try:
        db.execute(*_bind(_write_add, rows))
    except sqlite3.IntegrityError:
        return False
    return True


def finish_calls(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[bool]:
    """Store the endings of first runs. Return for each whether its row was still running.

    A row is principal, tool, id, owner, state, whether it is pinned, answer, its bytes, and until when it is kept.
    """
    if db.execute(*_bind(_write_finish, rows)).rowcount == len(rows):
        return [True] * len(rows)
    # Another process has taken one, or it was settled before. Those of this statement have its time and answer.
    return [db.execute(_FIND_FINISHED, (*row[:4], row[8], row[6])).fetchone() is not None for row in rows]


_FIND_FINISHED: Final = (
    "SELECT 1 FROM calls WHERE principal = ? AND tool = ? AND call_id = ? AND owner = ? AND attempt = 1"
    " AND until = ? AND answer = ?"
)


def _bind(write: Any, rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    """Return the statement for ``rows``, and its values. Rows of NULL fill it up to a power of two.

    So there are few statements, and SQLite prepares each only once.
    """
    width, places = len(rows[0]), 1 << (len(rows) - 1).bit_length()
    values = [value for row in rows for value in row]
    values += [None] * (width * (places - len(rows)))
    return write(width, places), values


@lru_cache
def _write_add(width: int, places: int) -> str:
    return (
        f"INSERT INTO calls ({_COLUMNS}, state, pinned, attempt) SELECT v.*, 'running', 0, 1"
        f" FROM ({_write_values(width, places)}) AS v WHERE v.column1 IS NOT NULL"
    )


@lru_cache
def _write_finish(width: int, places: int) -> str:
    return (
        "UPDATE calls SET state = v.column5, pinned = v.column6, answer = v.column7, bytes = bytes + v.column8,"
        f" until = v.column9 FROM ({_write_values(width, places)}) AS v WHERE {_MINE} AND calls.until IS NULL"
    )


def _write_values(width: int, places: int) -> str:
    marks = ", ".join("?" * width)
    return "VALUES " + ", ".join([f"({marks})"] * places)
