"""The example with a database behind it: what is written there is there, whichever way one asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolwire import Answer, Kind, Problem, SyncRemote, Toolkit, connect_sync
from toolwire.consent import effective_level
from toolwire.hosting.targets.load_code import load_code
from toolwire.hosting.targets.target import FileTarget

APP = Path(__file__).parents[2] / "examples" / "todo.py"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "todo.sqlite3"
    monkeypatch.setenv("TODO_DB", str(path))
    return path


@pytest.fixture
def site(database: Path, serve: Callable[..., str]) -> str:
    return serve(load_code(FileTarget(APP)))


def value(remote: SyncRemote, name: str, **arguments: Any) -> Any:
    result = remote.call(name, arguments)
    assert not isinstance(result, Problem), result
    return result.value


def test_a_task_is_made_changed_and_deleted(site: str, database: Path) -> None:
    with connect_sync(site, approve=lambda _: True) as remote:
        task = value(remote, "create_task", title="Read", due="2027-03-01")
        assert task == {"id": 1, "title": "Read", "status": "open", "due": "2027-03-01"}
        assert value(remote, "update_task", task_id=1, status="done") == {**task, "status": "done"}
        assert value(remote, "get_task", task_id=1)["status"] == "done"
        assert value(remote, "list_tasks", status="open") == []
        with closing(sqlite3.connect(database)) as db:
            assert db.execute("SELECT title, status, due FROM tasks").fetchall() == [("Read", "done", "2027-03-01")]
        assert value(remote, "delete_task", task_id=1) is None
        gone = remote.call("get_task", {"task_id": 1})
        assert isinstance(gone, Problem)
        assert (gone.kind, gone.message) == (Kind.TOOL_FAILED, "There is no task 1.")


def test_only_reading_tools_run_without_a_question() -> None:
    toolkit = load_code(FileTarget(APP))
    assert isinstance(toolkit, Toolkit)
    consent = {tool.name: str(effective_level(tool)) for tool in toolkit.catalog().tools}
    reading = {"list_tasks": "auto", "get_task": "auto"}
    assert consent == {**reading, "create_task": "per-call", "update_task": "per-call", "delete_task": "per-call"}


def test_concurrent_calls_lose_no_task(site: str) -> None:
    with (
        connect_sync(site, approve=lambda _: Answer(allowed=True, always=True)) as remote,
        ThreadPoolExecutor(8) as threads,
    ):
        made = [value(remote, "create_task", title="0")]  # allowed always: the others are not asked about
        made += threads.map(lambda number: value(remote, "create_task", title=f"{number}"), range(1, 24))
        assert {task["id"] for task in made} == set(range(1, 25))
        assert {task["title"] for task in value(remote, "list_tasks")} == {str(number) for number in range(24)}


def test_loading_the_example_makes_no_database(database: Path) -> None:
    load_code(FileTarget(APP))
    assert not database.exists()
