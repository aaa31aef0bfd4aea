"""What one change costs does not grow with what is stored: SQLite counts the steps of its statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from toolwire.consent.grant import GrantKey
from toolwire.stores.consent.grants import StoredGrants
from toolwire.stores.database import Database
from toolwire.stores.sessions.session_rows import NoticePosition, SessionBounds, SessionRows, StoredSession
from toolwire.stores.sessions.tables import SESSIONS

pytestmark = pytest.mark.requirement("GR-06")
MANY = 4_000


def count_steps(database: Database, work: Callable[[], object]) -> int:
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    database._connection.set_progress_handler(step, 1)
    work()
    database._connection.set_progress_handler(None, 0)
    return steps[0]


def test_a_permission_is_added_beside_many_as_beside_few(tmp_path: Path) -> None:
    key = GrantKey("me", "a", "https://a.example", "note", "d")
    with closing(StoredGrants(tmp_path)) as grants:
        database = grants._database
        assert isinstance(database, Database)
        few = count_steps(database, lambda: grants.add(key))
        with database.transaction() as cursor:
            for number in range(MANY):
                row = (str(number), *key._replace(tool=str(number)), 1.0, 9e9)
                cursor.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                bounded = (*row, None, 5)
                cursor.execute("INSERT INTO bounded_grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", bounded)
        assert count_steps(database, lambda: grants.add(key)) < 3 * few
        assert count_steps(database, lambda: grants.has_bounded_grant(key)) < 3 * few


def test_a_session_is_opened_beside_many_as_beside_few(tmp_path: Path) -> None:
    database = Database(tmp_path / "sessions.sqlite3", SESSIONS)
    rows = SessionRows(database, SessionBounds(most=10 * MANY, most_each=5, idle_s=60, longest_s=600), lambda: 1e9)
    session = StoredSession("ann", "ann", "{}", "info", {}, NoticePosition({}, 0))
    few = count_steps(database, lambda: rows.open(b"first", session))
    with database.transaction() as cursor:
        for number in range(MANY):
            row = (b"%d" % number, "o", f"s{number}", "{}", "info", "{}", "[{}, 0]", 1e9, 1e9)
            cursor.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        assert cursor.execute("SELECT rows FROM session_total").fetchone() == (MANY + 1,)
    assert count_steps(database, lambda: rows.open(b"next", session._replace(quota_key="bob"))) < 3 * few
    assert rows.end(b"next")
    assert database.select_rows("SELECT rows FROM session_total") == [(MANY + 1,)]
    rows.close()


def test_files_of_an_earlier_version_get_the_indexes_and_the_count(tmp_path: Path) -> None:
    tables = SESSIONS.base.statements.partition("CREATE INDEX IF NOT EXISTS sessions_by_begin")[0]
    with closing(sqlite3.connect(tmp_path / "sessions.sqlite3")) as cursor, cursor:
        cursor.executescript(tables.replace(";;", ";"))
        for number in range(3):
            row = (b"%d" % number, "o", "s", "{}", "info", "{}", "[{}, 0]", 1e9, 1e9)
            cursor.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    for _ in range(2):
        with closing(Database(tmp_path / "sessions.sqlite3", SESSIONS)) as database:
            assert database.select_rows("SELECT rows FROM session_total") == [(3,)]
