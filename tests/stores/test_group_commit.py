"""What tasks share that commit together: each change is made once, whatever moment it comes at."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.stores.group_commit import GroupCommit

pytestmark = pytest.mark.requirement("TE-02", "TE-03")
WITHIN_S = 20.0


class LateQueue:
    """A queue that is found empty, and gets a change before its reader has seen that."""

    def __init__(self, late: Callable[[], None]) -> None:
        self._real: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._late: Callable[[], None] | None = late
        self.put, self.qsize, self.empty = self._real.put, self._real.qsize, self._real.empty
        self.get_nowait = self._real.get_nowait

    def get(self, timeout: float) -> Any:
        if not self._real.empty():
            return self._real.get_nowait()
        late, self._late = self._late, None
        if late is not None:
            late()
            raise queue.Empty
        return self._real.get(timeout=min(timeout, 0.01))


def build(begin: Callable[[], None] = lambda: None) -> GroupCommit:
    return GroupCommit(begin=begin, commit=lambda: None, roll_back=lambda _: None, busy_s=1.0)


def test_a_change_that_comes_while_the_thread_ends_is_made() -> None:
    commits, first, second = build(), threading.Event(), threading.Event()
    commits._queue = LateQueue(lambda: commits.post_change(second.set))  # type: ignore[assignment]
    commits.post_change(first.set)
    assert first.wait(WITHIN_S)
    assert second.wait(WITHIN_S), "nothing woke the thread for it"


def test_a_thread_begins_again_after_it_has_ended() -> None:
    commits = build()
    commits._queue = LateQueue(lambda: None)  # type: ignore[assignment]
    for _ in range(3):
        done = threading.Event()
        commits.post_change(done.set)
        assert done.wait(WITHIN_S)
        ended = [one for one in threading.enumerate() if one.name == "toolwire-ledger"]
        for one in ended:
            one.join(WITHIN_S)
        assert not commits._running


def test_a_task_that_leaves_during_the_commit_abandons_its_outcome_and_one_that_left_before_changes_nothing() -> None:
    begun, go = threading.Event(), threading.Event()

    def begin() -> None:
        begun.set()
        assert go.wait(WITHIN_S)

    commits, made, abandoned = build(begin), list[str](), list[str]()

    def work(name: str) -> Callable[[], str]:
        def make() -> str:
            made.append(name)
            return name

        return make

    async def run() -> None:
        loop = asyncio.get_running_loop()
        held = commits.run_change(work("held"), on_refusal=str, on_abandon=abandoned.append)
        assert await loop.run_in_executor(None, begun.wait, WITHIN_S)
        before = commits.run_change(work("before"), on_refusal=str, on_abandon=abandoned.append)
        last = commits.run_change(work("last"), on_refusal=str)
        before.cancel()
        go.set()
        assert await last == "last"
        assert await held == "held"
        gone: asyncio.Future[str] = commits.run_change(
            lambda: (loop.call_soon_threadsafe(gone.cancel), work("gone")())[1],
            on_refusal=str,
            on_abandon=abandoned.append,
        )
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert await commits.run_change(work("after"), on_refusal=str) == "after"

    asyncio.run(run())
    assert (made, abandoned) == (["held", "last", "gone", "after"], ["gone"])
