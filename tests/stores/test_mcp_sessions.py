# ruff: noqa: F811 - fixtures are imported
"""The rows of MCP sessions that several processes share, in SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture
from toolwire.core.errors import DefinitionError
from toolwire.stores.sessions.session_rows import (
    MAX_UPDATES,
    NoticePosition,
    SessionBounds,
    SessionRows,
    StoredSession,
    open_sessions,
)

pytestmark = pytest.mark.requirement("ST-01", "MC-10")

BOUNDS = SessionBounds(most=1_000, most_each=50, idle_s=1_800, longest_s=86_400)
Open = Callable[..., SessionRows]


@pytest.fixture(params=["folder", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "deep" / "sessions.sqlite3")
    url: str = request.getfixturevalue("shared_postgres").create_database()
    return url


@pytest.fixture
def open_rows(place: str) -> Open:
    def open_(**bounds: float) -> SessionRows:
        rows = open_sessions(place, BOUNDS._replace(**bounds))
        assert rows is not None
        return rows

    return open_


def build(owner: str = "ann", share: str = "ann") -> StoredSession:
    return StoredSession(owner, share, '{"elicitation":{}}', "info", {}, NoticePosition({"toolsListChanged": "d"}, 0))


def test_a_session_is_read_as_it_was_stored_and_its_changes_too(open_rows: Open) -> None:
    rows, others = open_rows(), open_rows()
    assert rows.find(b"k") is None
    assert rows.open(b"k", build())
    assert others.find(b"k") == build()
    others.set_level(b"k", "debug")
    rows.add_updates(["notes://a"])
    assert rows.watch(b"k", "notes://a", most=2)
    assert others.watch(b"k", "notes://ü", most=2)
    assert not rows.watch(b"k", "notes://c", most=2)
    assert rows.watch(b"k", "notes://a", most=2)
    others.unwatch(b"k", "notes://ü")
    found = rows.find(b"k")
    assert found is not None
    assert (found.log_level, found.watched) == ("debug", {"notes://a": 1})
    message = NoticePosition({"toolsListChanged": "e"}, 7)
    assert rows.store({b"k": message, b"gone": None}, [b"k", b"gone"]) == {b"k"}
    found = others.find(b"k")
    assert found is not None
    assert found.notified == message
    assert others.end(b"k")
    assert not rows.end(b"k")
    assert rows.find(b"k") is None


def test_sessions_are_bounded_for_a_caller_and_in_all_and_end_where_they_run(open_rows: Open) -> None:
    rows = open_rows(most=4, most_each=2)
    assert [rows.open(key, build(share="bob")) for key in (b"1", b"2", b"3")] == [True] * 3
    assert rows.find(b"1") is None, "the one that bob has not used for longest"
    assert rows.find(b"3") is not None
    assert [(one.session, one.kind, one.node) for one in rows.read_messages(0, "node")] == [(b"1", "end", "")]
    assert [rows.open(key, build(share=str(key))) for key in (b"4", b"5")] == [True, True]
    assert not rows.open(b"6", build(share="carl")), "all are in use"
    assert rows.open(b"7", build(share="bob")), "bob may end an own one"


@pytest.mark.parametrize("bounds", [{"idle_s": -1.0}, {"longest_s": -1.0}])
def test_a_session_that_is_too_old_is_gone_and_makes_room(open_rows: Open, bounds: dict[str, float]) -> None:
    rows = open_rows(most=1, **bounds)
    assert rows.open(b"1", build())
    assert rows.find(b"1") is None
    assert rows.open(b"2", build(share="bob"))
    assert rows.store({}, [b"1"]) == set()


def test_no_more_sessions_are_opened_at_once_than_there_may_be(open_rows: Open) -> None:
    opened: list[bool] = []

    def work(number: int) -> None:
        opened.extend(rows.open(f"{number}-{one}".encode(), build(share=f"{number}-{one}")) for one in range(5))

    rows = open_rows(most=7)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert (len(opened), sum(opened)) == (20, 7)


def test_messages_come_in_their_order_to_their_reader_alone(open_rows: Open) -> None:
    rows, others = open_rows(), open_rows()
    first = rows.send(b"k", "a", "answer", "n", b"\x00\xff")
    last = others.send(b"k", "", "cancel", body=b"7")
    assert 0 < first < last
    assert rows.find_last_message() == last
    assert [(one.kind, one.name, one.body) for one in others.read_messages(0, "a")] == [
        ("answer", "n", b"\x00\xff"),
        ("cancel", "", b"7"),
    ]
    assert [one.kind for one in others.read_messages(0, "b")] == ["cancel"]
    assert rows.read_messages(last, "a") == []
    rows.delete_messages("a", last)
    assert [one.kind for one in rows.read_messages(0, "a")] == ["cancel"], "others have not read that"


def test_messages_that_wait_are_bounded_for_each_session(open_rows: Open) -> None:
    rows = open_rows()
    sent = [rows.send(b"k", "a", "answer", body=b"x") for _ in range(101)]
    assert (all(sent[:100]), sent[100]) == (True, 0)
    assert rows.send(b"k", "a", "event", body=b"x"), "events are held back by their sender"
    large = [rows.send(b"other", "a", "answer", body=b"x" * 200_000) for _ in range(3)]
    assert (all(large[:2]), large[2]) == (True, 0)


def test_the_last_change_of_each_of_many_resources_is_known(open_rows: Open) -> None:
    rows = open_rows()
    rows.add_updates([f"notes://{number}" for number in range(MAX_UPDATES)])
    rows.add_updates(["notes://3", "notes://new"])
    updates = dict(rows.find_updates(0))
    assert len(updates) <= MAX_UPDATES
    assert updates["notes://3"] == MAX_UPDATES + 1
    assert rows.find_updates(MAX_UPDATES + 1) == [("notes://new", MAX_UPDATES + 2)]


def test_a_process_hears_of_the_changes_of_others_and_not_of_its_own(open_rows: Open) -> None:
    rows, others = open_rows(), open_rows()
    assert rows.find_position() == 0
    assert rows.add_updates(["notes://a"]) == ([], 1)
    others.add_updates(["notes://a", " toolsListChanged"])
    assert rows.add_updates(["notes://a", "notes://b"], 1) == ([("notes://a", 2), (" toolsListChanged", 3)], 5)
    assert rows.find_updates(5) == []
    assert others.find_updates(3) == [("notes://a", 4), ("notes://b", 5)]
    assert others.find_position() == 5


@pytest.mark.requirement("ST-04")
def test_tables_of_a_newer_version_that_this_one_works_with_are_used_and_others_refused(
    shared_postgres: Postgres,
) -> None:
    url = shared_postgres.create_database()
    open_sessions(url, BOUNDS)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE toolwire_sessions ADD COLUMN extra text")
        connection.execute("UPDATE toolwire_schema SET version = 9 WHERE part = 'sessions'")
    rows = open_sessions(f"{url}&application_name=again", BOUNDS)
    assert rows is not None
    assert rows.open(b"k", build())
    assert rows.find(b"k") == build()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE toolwire_schema SET works_with = 9 WHERE part = 'sessions'")
    with pytest.raises(DefinitionError, match=", but this toolwire supports versions up to"):
        open_sessions(f"{url}&application_name=third", BOUNDS)


def test_a_file_that_is_no_database_is_refused_and_one_that_breaks_is_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "sessions.sqlite3"
    file.write_bytes(b"no database" * 100)
    with pytest.raises(DefinitionError, match="cannot be used"):
        open_sessions(str(file), BOUNDS)
    rows = open_sessions(str(tmp_path / "good.sqlite3"), BOUNDS)
    assert rows is not None
    with sqlite3.connect(tmp_path / "good.sqlite3") as connection:
        connection.execute("DROP TABLE sessions")
    connection.close()
    with pytest.raises(ConnectionError, match=r"good\.sqlite3 cannot be used"):
        rows.find(b"k")
    rows.close()
    assert open_sessions("", BOUNDS) is None
