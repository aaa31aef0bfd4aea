"""The store that counts rate limits is killed while calls come: what needs no counting goes on, the rest waits.

``TOOLWIRE_KILLS`` says how often, and the figures are printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.programs import RedisServer, find_free_port
from tests.support.waiting import wait_until_async

from .amounts import report
from .peer import Peer, dial, until

KIT = Path(__file__).with_name("counted.py")
CALLERS = 3
PATIENCE_S = 30.0
SOON_S = 5.0
KILLS = int(os.environ.get("TOOLWIRE_KILLS", "0")) // 50 or 3


class Place(NamedTuple):
    """Where a server listens: all that ``dial`` wants to know."""

    port: int


@dataclass
class Calls:
    """What came back, by tool: answers, and refusals of calls that were sent again."""

    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slowest_s: dict[str, float] = field(default_factory=dict)
    stopping: bool = False


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    store = RedisServer(tmp_path)
    try:
        yield store
    finally:
        store.kill()


@pytest.fixture
def start_place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    started: list[subprocess.Popen[bytes]] = []

    def serve(rates: str, *more: str) -> Place:
        place = Place(find_free_port())
        argv = [sys.executable, "-m", "toolwire", "serve", str(KIT), "--port", str(place.port)]
        argv += ["--ledger", str(tmp_path / "ledger.sqlite"), "--rates", rates, *more]
        env = {**os.environ, "TOOLWIRE_TEST_RUNS": str(tmp_path / "runs.txt")}
        with (tmp_path / "errors.txt").open("wb") as errors:
            started.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=errors, env=env))
        return place

    try:
        yield serve
    finally:
        for process in started:
            process.kill()
            process.wait(PATIENCE_S)


@pytest.mark.requirement("R11")
def test_killed_redis_loses_no_call_and_stops_only_counted_tools(
    redis: RedisServer, start_place: Callable[..., Place], tmp_path: Path
) -> None:
    back: list[float] = []

    async def gone(calls: Calls) -> None:
        """Wait until there was enough of both: refusals of what is counted, answers of all else."""
        refused, free = calls.refused["pay"], calls.answered["free"]
        await until(lambda: calls.refused["pay"] >= refused + CALLERS and calls.answered["free"] >= free + 50)

    async def again(calls: Calls) -> None:
        """Wait until the store answers, and from then on not longer than may be."""
        await until(redis.answers)
        began, paid = time.monotonic(), calls.answered["pay"]
        await until(lambda: calls.answered["pay"] >= paid + 2 * CALLERS, SOON_S)
        back.append(time.monotonic() - began)

    async def story() -> Calls:
        place = start_place(f"redis://127.0.0.1:{redis.port}/0", "--rates-fail", "closed")
        async with run_callers(place) as calls:
            for _ in range(KILLS):
                await until(lambda: calls.answered["pay"] >= 20)
                redis.kill()
                await gone(calls)
                redis.start()
                await again(calls)
            redis.signal(signal.SIGSTOP)  # it hangs, and its connections stay
            await gone(calls)
            redis.signal(signal.SIGCONT)
            await again(calls)
        return calls

    calls = asyncio.run(story())
    ran = Counter((tmp_path / "runs.txt").read_text().splitlines())
    assert calls.refused["free"] == 0
    assert set(ran.values()) == {1}, "none is doubled"
    assert ran.total() == calls.answered.total(), "none is lost"
    assert "Traceback" not in (tmp_path / "errors.txt").read_text()
    figures = {f"slowest_{tool}_s": seconds for tool, seconds in calls.slowest_s.items()}
    answered = {"answered_without_a_limit": calls.answered["free"], "answered_with_one": calls.answered["pay"]}
    report("R11", "kills", kills=KILLS, lost=0, doubled=0, slowest_back_s=max(back), **answered, **figures)


@pytest.mark.requirement("R11")
def test_processes_count_alone_while_redis_is_down(
    redis: RedisServer, start_place: Callable[..., Place], tmp_path: Path
) -> None:
    async def more(calls: Calls) -> None:
        paid = calls.answered["pay"]
        await until(lambda: calls.answered["pay"] >= paid + 20)

    async def story() -> Calls:
        place = start_place(f"redis://127.0.0.1:{redis.port}/0")
        async with run_callers(place) as calls:
            for number in range(KILLS):
                await more(calls)
                redis.kill()
                await more(calls)
                redis.start()
                await until(lambda number=number: said().count("can be reached again") > number)  # type: ignore[misc]  # a default
            await more(calls)
        return calls

    def said() -> str:
        return (tmp_path / "errors.txt").read_text()

    calls = asyncio.run(story())
    ran = Counter((tmp_path / "runs.txt").read_text().splitlines())
    assert calls.refused.total() == 0
    assert set(ran.values()) == {1}, "none is doubled"
    assert ran.total() == calls.answered.total(), "none is lost"
    lost = [line for line in said().splitlines() if "cannot be reached" in line]
    assert len(lost) == KILLS, "each loss is said once"
    assert all(line.endswith("(ConnectionError): each process counts alone until then.") for line in lost)


@contextlib.asynccontextmanager
async def run_callers(place: Place) -> AsyncIterator[Calls]:
    """Keep callers busy meanwhile, each over one connection; afterwards each finishes what it began."""
    calls = Calls()
    await until(lambda: _listens(place.port))
    async with asyncio.TaskGroup() as group:
        for caller in range(CALLERS):
            for tool in ("pay", "free"):
                group.create_task(_caller(place, calls, tool, f"{tool}-{caller}"))
        yield calls
        calls.stopping = True


async def _caller(place: Place, calls: Calls, tool: str, name: str) -> None:
    number = 0
    async with dial(place) as peer:  # type: ignore[arg-type]  # it has a port, and that is all it takes
        while not calls.stopping:
            number += 1
            await _answer(peer, calls, tool, f"{name}-{number}")
            await asyncio.sleep(0.002)  # the machine is for the server, too


async def _answer(peer: Peer, calls: Calls, tool: str, number: str) -> None:
    """Send a call until it is answered, under the one key it has; a refusal says that it did not run."""
    body = {"request": {"tool_id": f"Shop.{tool}", "call_id": number, "input": {"number": number}}}

    async def try_once() -> bool:
        began = time.monotonic()
        answer = await peer.post("/call", body)
        calls.slowest_s[tool] = round(max(calls.slowest_s.get(tool, 0.0), time.monotonic() - began), 2)
        if answer.status == 200:
            assert answer.json["output"] == {"value": number}, answer
            calls.answered[tool] += 1
            return True
        assert (answer.status, answer.headers["retry-after"]) == (503, "1"), answer
        assert "did not run" in answer.json["message"], answer
        calls.refused[tool] += 1
        await asyncio.sleep(0.02)
        return False

    await wait_until_async(try_once, within=PATIENCE_S)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False
