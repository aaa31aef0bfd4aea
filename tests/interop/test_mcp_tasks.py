"""Our client on tasks of FastMCP's server: it waits, takes up by id, cancels, and answers what a task asks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.mcp_makers import CACHE, INSTALLED, MISSING, start_python
from toolwire import Kind, LongCallState, Problem, Value, connect_sync
from toolwire.client.connection.handle import SyncHandle

HAS_TASKS = INSTALLED and (CACHE / "fastmcp" / "fastmcp_tasks").exists()

pytestmark = [pytest.mark.requirement("LC-05", "MC-12"), pytest.mark.skipif(not HAS_TASKS, reason=MISSING)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = start_python("task_server.py", "fastmcp")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = process.stdout.readline().strip()
            assert found, "the server does not start"
            yield found
        finally:
            process.kill()


def open_remote(url: str, **options: Any) -> Any:
    return connect_sync(url, approve=lambda _: True, timeout_s=60, **options)


def test_task_is_waited_for_and_taken_up_by_its_id(url: str) -> None:
    with open_remote(url) as remote:
        assert remote.call("build", {"rows": 3}) == Value({"rows": 3})
        handle = remote.start("build", {"rows": 4})
        assert isinstance(handle, SyncHandle), handle
    with open_remote(url) as remote:
        again = remote.handle(handle.id)
        assert again.result() == Value({"rows": 4})
        assert [status.state for status in again] == [LongCallState.ENDED]


def test_failed_and_unknown_tasks_are_problems(url: str) -> None:
    with open_remote(url) as remote:
        failed = remote.call("fail")
        assert isinstance(failed, Problem)
        assert (failed.kind, "No paper." in failed.message) == (Kind.TOOL_FAILED, True)
        unknown = remote.handle("nothing").status()
        assert isinstance(unknown, Problem)
        assert unknown.kind is Kind.NOT_FOUND


def test_task_is_cancelled(url: str) -> None:
    with open_remote(url) as remote:
        handle = remote.start("hang")
        assert isinstance(handle, SyncHandle), handle
        assert not isinstance(handle.cancel(), Problem)
        ended = handle.result()
        assert isinstance(ended, Problem)
        assert ended.kind is Kind.CANCELLED


def test_question_of_a_task_reaches_the_user(url: str) -> None:
    asked: list[str] = []

    def provide(request: Any) -> dict[str, int]:
        asked.append(request.message)
        return {"size": 3}

    with open_remote(url, provide_input=provide) as remote:
        assert remote.call("choose") == Value("size 3")
    assert asked == ["How large?"]
