"""Databases that several processes open for the first time in the same moment."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from toolwire.stores.database import write_ahead

_OPENS = """
import sys
from pathlib import Path
from toolwire.stores.consent.approvals import Approvals
sys.stdin.readline()
for number in range(40):
    approvals = Approvals(Path(sys.argv[1]) / str(number))
    assert not approvals.list_pending()
    approvals.close()
"""


def test_processes_that_create_a_database_together_all_open_it(tmp_path: Path) -> None:
    line = [sys.executable, "-c", _OPENS, str(tmp_path)]
    processes = [subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert ended == [(b"", 0)] * 4


def test_opening_waits_for_a_database_locked_by_a_writer(tmp_path: Path) -> None:
    writer, late = (sqlite3.connect(tmp_path / "file", timeout=10, isolation_level=None) for _ in range(2))
    writer.execute("BEGIN IMMEDIATE")
    tries: list[str] = []

    def tried(statement: str) -> None:
        tries.append(statement)
        if len(tries) == 2:
            writer.execute("COMMIT")

    late.set_trace_callback(tried)
    write_ahead(late)
    assert len(tries) > 2
    assert late.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    writer.close()
    late.close()


def test_opening_does_not_wait_for_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no database" * 100)
    connection = sqlite3.connect(tmp_path / "file")
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        write_ahead(connection)
    connection.close()
