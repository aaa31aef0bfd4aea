"""Define the tables of an SQLite ledger, and open its file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from toolwire.core.errors import DefinitionError
from toolwire.stores.database import create_private_file
from toolwire.stores.write_ahead import write_ahead

_BY_PRINCIPAL = "CREATE INDEX IF NOT EXISTS by_principal ON calls (principal)"
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


def connect_ledger(path: Path, busy_s: float) -> sqlite3.Connection:
    """Return a connection to the ledger at ``path``. A missing file is created, for this user alone.

    A committed change stays in the file if the process is killed. The last changes may be lost if the machine loses
    its power.

    Raises:
        DefinitionError: the file is something else, or cannot be opened.
    """
    try:
        # D-26: it has what callers sent and got. SQLite would create it with the mode of the umask, and gives its other
        # files the mode of this one.
        create_private_file(path)
        db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise build_unusable_error(path, getattr(error, "strerror", None) or error) from error
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
