"""A moving window counts exactly, and no clock locks anybody out."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import Clock
from toolwire.core.errors import DefinitionError
from toolwire.core.model import RateLimit
from toolwire.limits import MemoryWindows, Windows
from toolwire.stores.limits.library_windows import LibraryWindows
from toolwire.stores.limits.open import open_windows
from toolwire.stores.limits.outage import StoreOutage
from toolwire.stores.limits.sqlite_windows import SqliteWindows

THIRTY = RateLimit(max=30, window="1m")


@pytest.fixture
def clock() -> Clock:
    return Clock(10_000.0)


@pytest.fixture(params=["memory", "shared"])
def windows(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Windows]:
    if request.param == "memory":
        yield MemoryWindows(clock)
        return
    shared = SqliteWindows(tmp_path, clock=clock)
    yield shared
    shared.close()


@pytest.mark.requirement("XL-063", "XL-066")
def test_the_window_moves_with_each_call(windows: Windows, clock: Clock) -> None:
    limit = RateLimit(max=2, window="10s")
    assert windows.take("k", limit) == 0.0
    clock.now += 4
    assert windows.take("k", limit) == 0.0
    assert windows.take("k", limit) == 6.0
    assert windows.take("other", limit) == 0.0
    clock.now += 5.75
    assert windows.take("k", limit) == 0.25
    clock.now += 0.25
    assert windows.take("k", limit) == 0.0
    assert windows.take("k", limit) == 4.0


@pytest.mark.requirement("XL-066")
def test_clock_set_back_does_not_block_callers(windows: Windows, clock: Clock) -> None:
    limit = RateLimit(max=1, window="10s")
    assert windows.take("k", limit) == 0.0
    clock.now -= 3_600
    assert windows.take("k", limit) == 0.0
    assert windows.take("k", limit) > 0.0


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5))
def test_window_never_holds_more_calls_than_its_limit(steps: list[float], most: int) -> None:
    clock, limit = Clock(10_000.0), RateLimit(max=most, window="5s")
    windows, taken = MemoryWindows(clock), []
    for step in steps:
        clock.now += step
        left = windows.count_remaining("k", limit)
        wait = windows.take("k", limit)
        assert (wait == 0.0) == (left > 0)
        if wait == 0.0:
            taken.append(clock.now)
    assert all(sum(start <= one < start + 5 for one in taken) <= most for start in taken)


def test_large_limit_is_enforced_in_bounded_memory() -> None:
    clock, limit = Clock(10_000.0), RateLimit(max=50_000, window="1m")
    windows = MemoryWindows(clock)
    assert sum(windows.take("k", limit) == 0.0 for _ in range(50_100)) == 50_000
    assert len(windows._windows["k"].taken) == 1
    clock.now += 59.9
    assert windows.take("k", limit) > 0.0
    clock.now += 0.2
    assert windows.take("k", limit) == 0.0


@pytest.mark.parametrize(("most", "wait_s"), [(1_000, 0.0), (1_001, 0.01)])
def test_limits_up_to_1000_count_each_call_and_larger_ones_count_slices(most: int, wait_s: float) -> None:
    clock, limit = Clock(10_000.0), RateLimit(max=most, window="1m")
    windows = MemoryWindows(clock)
    clock.now += 0.01
    assert [windows.take("k", limit) for _ in range(most)] == [0.0] * most
    clock.now += 60.0
    assert windows.take("k", limit) == pytest.approx(wait_s, abs=1e-6)


def test_the_number_of_keys_is_bounded_and_the_oldest_are_forgotten() -> None:
    windows, once = MemoryWindows(Clock(10_000.0)), RateLimit(max=1, window="1m")
    for number in range(10_050):
        assert windows.take(str(number), once) == 0.0
        assert windows.take("0", once) == 60.0
    assert len(windows._windows) == 10_000
    assert windows.wait("10048", once) == 60.0
    assert windows.wait("1", once) == 0.0


def _at_once(take: Callable[[], float]) -> int:
    with ThreadPoolExecutor(50) as pool:
        return sum(wait == 0.0 for wait in pool.map(lambda _: take(), range(50)))


@pytest.mark.requirement("XL-066")
def test_exactly_30_of_50_threads_pass(windows: Windows) -> None:
    assert _at_once(lambda: windows.take("k", THIRTY)) == 30


@pytest.mark.requirement("XL-066")
def test_exactly_30_of_50_tasks_pass(windows: Windows) -> None:
    async def take() -> float:
        await asyncio.sleep(0)
        return windows.take("k", THIRTY)

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(take() for _ in range(50)))

    assert asyncio.run(all_of_them()).count(0.0) == 30


@pytest.mark.requirement("XL-066")
def test_exactly_30_of_50_calls_in_four_processes_pass(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from toolwire.core.model import RateLimit\n"
        "from toolwire.stores.limits.sqlite_windows import SqliteWindows\n"
        "windows = SqliteWindows(Path(sys.argv[1])); limit = RateLimit(max=30, window='1h')\n"
        "sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.readline()\n"
        "print(sum(windows.take('k', limit) == 0.0 for _ in range(int(sys.argv[2]))))\n"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), str(calls)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for calls in (13, 13, 12, 12)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    passed = 0
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        out, _ = worker.communicate(timeout=30)
        passed += int(out)
    assert passed == 30


@pytest.mark.requirement("XL-066")
def test_library_windows_count_behind_a_url_and_survive_a_clock_set_back() -> None:
    clock = Clock(10_000.0)
    windows = LibraryWindows("memory://", clock=clock)
    assert _at_once(lambda: windows.take("k", THIRTY)) == 30
    assert windows.take("k", THIRTY) > 0.0
    clock.now -= 3_600
    assert windows.take("k", THIRTY) == 0.0


@pytest.mark.requirement("R11")
def test_unreachable_store_allows_no_limited_call_and_logs_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock(10_000.0)
    windows = LibraryWindows("redis://127.0.0.1:1/0", monotonic=clock)
    for seconds in (0.0, 0.4, 0.2):
        clock.now += seconds
        assert windows.take("k", THIRTY) == inf
    lost = "The rate limit store cannot be reached (ConnectionError): tools with a limit do not run until then."
    assert caplog.messages == [lost]


@pytest.mark.requirement("R11")
def test_one_call_at_a_time_asks_a_store_that_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(10_000.0)
    outage = StoreOutage("open", pause_s=0.5, clock=clock)
    assert [outage.may_ask() for _ in range(3)] == [True] * 3
    outage.record_failure("gone")
    clock.now += 0.5
    assert [outage.may_ask() for _ in range(3)] == [True, False, False]
    outage.record_failure("still gone")
    assert not outage.may_ask()
    clock.now += 0.5
    assert [outage.may_ask() for _ in range(3)] == [True, False, False]
    outage.record_success()
    assert [outage.may_ask() for _ in range(3)] == [True] * 3
    assert [message.partition(" (")[0] for message in caplog.messages] == [
        "The rate limit store cannot be reached",
        "The rate limit store can be reached again.",
    ]


@pytest.mark.requirement("R11")
def test_read_only_folder_allows_no_limited_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    windows = SqliteWindows(tmp_path)
    assert windows.take("k", THIRTY) == 0.0
    windows._database._connection.execute("PRAGMA query_only = 1")  # as a disk that is full or read-only
    assert windows.take("k", THIRTY) == inf
    assert "readonly" in caplog.text
    windows._database._connection.execute("PRAGMA query_only = 0")
    assert windows.take("k", THIRTY) == 0.0
    windows.close()


def test_open_windows_chooses_the_store_by_its_setting(tmp_path: Path) -> None:
    assert isinstance(open_windows(""), MemoryWindows)
    shared = open_windows(str(tmp_path))
    assert isinstance(shared, SqliteWindows)
    shared.close()
    assert isinstance(open_windows("memory://"), LibraryWindows)
    with pytest.raises(DefinitionError, match="Cannot store rate limits at this URL: unknown storage"):
        open_windows("nothing://x")
    (tmp_path / "file").touch()
    with pytest.raises(DefinitionError, match="cannot be used"):
        open_windows(str(tmp_path / "file"))


def test_changed_limit_keeps_counting_earlier_calls(clock: Clock) -> None:
    windows = MemoryWindows(clock)
    assert [windows.take("k", RateLimit(max=3, window="1m")) for _ in range(2)] == [0.0, 0.0]
    assert windows.take("k", RateLimit(max=2, window="1m")) == 60.0
    assert windows.take("k", RateLimit(max=3, window="1m")) == 0.0
