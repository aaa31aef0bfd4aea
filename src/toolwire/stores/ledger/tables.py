"""Define the tables of an SQLite ledger, and every statement on them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from toolwire.core.errors import DefinitionError
from toolwire.stores.write_ahead import write_ahead

_HEADER = (1_953_460_076, 1)  # the file's head says whose it is ("tool"), and the version of its tables

_TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE calls (
  number INTEGER PRIMARY KEY,
  principal TEXT NOT NULL, tool TEXT NOT NULL, call_id TEXT NOT NULL,
  fingerprint BLOB NOT NULL, state TEXT NOT NULL, rerun INTEGER NOT NULL, pinned INTEGER NOT NULL,
  owner INTEGER NOT NULL, attempt INTEGER NOT NULL,
  bytes INTEGER NOT NULL, until REAL, answer BLOB,
  UNIQUE (principal, tool, call_id)
) STRICT;
CREATE TABLE held (rows INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
INSERT INTO held VALUES (0, 0);
CREATE TABLE age (boot TEXT NOT NULL, clock REAL NOT NULL, age REAL NOT NULL) STRICT;
PRAGMA application_id = 1953460076;
PRAGMA user_version = 1;
COMMIT;
"""

FIND = (
    "SELECT number, fingerprint, state, owner, pinned, attempt, bytes, until, answer FROM calls"
    " WHERE principal = ? AND tool = ? AND call_id = ?"
)
ADD = "INSERT INTO calls VALUES (NULL, ?, ?, ?, ?, 'running', ?, 0, ?, ?, ?, NULL, NULL)"
ADD_NEW = f"{ADD} ON CONFLICT DO NOTHING"
AGAIN = (
    "UPDATE calls SET number = (SELECT max(number) + 1 FROM calls), state = 'running', rerun = ?, owner = ?,"
    " attempt = ?, until = NULL WHERE number = ?"
)
SETTLE = (
    "UPDATE calls SET state = ?, pinned = ?, answer = ?, bytes = bytes + ?, until = ?"
    " WHERE principal = ? AND tool = ? AND call_id = ? AND owner = ? AND attempt = ? AND until IS NULL"
)
EARLIER = (
    "SELECT number, bytes, answer FROM calls"
    " WHERE principal = ? AND tool = ? AND call_id = ? AND owner = ? AND attempt = ? AND until IS NULL"
)
RESTORE = "UPDATE calls SET state = ?, attempt = attempt - 1, until = ? WHERE number = ?"
INTERRUPT = "UPDATE calls SET state = 'interrupted', pinned = ?, answer = ?, bytes = ?, until = ? WHERE number = ?"
FORGET = (
    "DELETE FROM calls"
    " WHERE principal = ? AND tool = ? AND call_id = ? AND owner = ? AND attempt = ? AND until IS NULL RETURNING bytes"
)
REMOVE = "DELETE FROM calls WHERE number = ?"
OLDEST_OF = (
    "SELECT number, principal, bytes FROM calls WHERE principal = ? AND until IS NOT NULL ORDER BY number LIMIT 1"
)
EXPIRED = (
    "SELECT number, principal, bytes FROM (SELECT number, principal, bytes, until FROM calls ORDER BY number LIMIT 64)"
    " WHERE until <= ?"
)
SHARE = "SELECT count(*), coalesce(sum(bytes), 0) FROM calls WHERE principal = ?"
RUNNING = "SELECT number, principal, tool, call_id, rerun, owner, bytes FROM calls WHERE until IS NULL"
COUNT = "UPDATE held SET rows = rows + ?, bytes = bytes + ? RETURNING rows, bytes"
RECOUNT = "UPDATE held SET (rows, bytes) = (SELECT count(*), coalesce(sum(bytes), 0) FROM calls) RETURNING rows, bytes"
_BY_PRINCIPAL = "CREATE INDEX IF NOT EXISTS by_principal ON calls (principal)"
AGE = "SELECT boot, clock, age FROM age"
FORGET_AGE = "DELETE FROM age"
SAVE_AGE = "INSERT INTO age VALUES (?, ?, ?)"


class LedgerRow(NamedTuple):
    """A row, as ``FIND`` finds it."""

    number: int
    fingerprint: bytes
    state: str
    owner: int
    pinned: int
    attempt: int
    size: int
    until: float | None
    answer: bytes | None


def connect_ledger(path: Path, busy_s: float) -> sqlite3.Connection:
    """Return a connection to the ledger at ``path``, which is made where there is none.

    Each change is in the file before it is answered, and stays when the process is killed; the last of them may be
    lost when the machine loses its power.

    Raises:
        DefinitionError: there is something else, or it cannot be opened.
    """
    try:
        db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise build_unusable_error(path, error) from error
    try:
        write_ahead(db)
        _create_or_check(db, path)
    except sqlite3.Error as error:
        db.close()
        raise build_unusable_error(path, error) from error
    except DefinitionError:
        db.close()
        raise
    return db


def _create_or_check(db: sqlite3.Connection, path: Path) -> None:
    if _read_header(db) == (0, 0) and not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        try:
            db.executescript(_TABLES)
        except sqlite3.OperationalError:  # another process has just made them
            if db.in_transaction:
                db.execute("ROLLBACK")
    if _read_header(db) != _HEADER:
        raise DefinitionError(f"{path} is no ledger of calls of this version: name another file.")
    db.execute(_BY_PRINCIPAL)


def _read_header(db: sqlite3.Connection) -> tuple[int, int]:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return application, version


def build_unusable_error(path: Path, why: object) -> DefinitionError:
    """Return the error that says why the file cannot be used."""
    return DefinitionError(f"{path} cannot be used as the ledger of calls: {why}.")
