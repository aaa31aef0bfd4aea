"""One file of tables that several connections share, some of them in one process."""

from __future__ import annotations

import gc
import sqlite3
from pathlib import Path

import pytest

from toolwire.stores.database import Database
from toolwire.stores.schema import Migration, Schema

SCHEMA = Schema("words", Migration("CREATE TABLE IF NOT EXISTS words (word TEXT)"))
LOCKS = Path("/proc/locks")


def is_locked(file: Path) -> bool:
    """Return whether this machine knows of a lock on ``file``."""
    number = str(file.stat().st_ino)
    return any(line.split()[5].rpartition(":")[2] == number for line in LOCKS.read_text().splitlines())


@pytest.mark.skipif(not LOCKS.exists(), reason="only Linux says which files are locked")
def test_closing_a_second_connection_keeps_the_file_lock_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "words.sqlite3"
    first = Database(file, SCHEMA)
    assert is_locked(file)
    second = Database(file, SCHEMA)
    assert is_locked(file)
    second.close()
    assert is_locked(file)
    first.close()


def test_new_database_file_is_private_to_its_owner(tmp_path: Path) -> None:
    Database(tmp_path / "new" / "words.sqlite3", SCHEMA).close()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "words.sqlite3").stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("RE-03")
@pytest.mark.parametrize("in_circle", [False, True])
def test_connection_of_a_database_is_closed_when_nothing_holds_it(tmp_path: Path, in_circle: bool) -> None:
    database = Database(tmp_path / "rows.sqlite3", SCHEMA)
    connection = database._connection
    if in_circle:
        holder: list[object] = [database]
        holder.append(holder)
        del holder
    del database
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
