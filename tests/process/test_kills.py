# ruff: noqa: F811 - fixtures are imported
"""Servers that are killed while they work: no call is lost, and none that must not run twice does.

``TOOLWIRE_KILLS`` says how often (``make kills``: a thousand times, about twenty minutes); the figures are printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Postgres, postgres, shared_postgres, wait_until_answering  # noqa: F401 - the fixtures
from tests.process.killed_server import KILLS, PATIENCE_S, SOON_S, Server
from tests.support.waiting import wait_until_async

from .amounts import report
from .peer import Gone, dial, until

CALLERS = 8

Call = tuple[str, str]
Said = tuple[bool, str]
_ALL_ANSWERED = 8


@dataclass
class Calls:
    """What was asked and what was answered, by tool and number, as the callers saw it."""

    asked: set[Call] = field(default_factory=set)
    answers: dict[Call, Said] = field(default_factory=dict)
    again: int = 0
    stopping: bool = False

    def interrupted(self) -> set[Call]:
        return {call for call, reply in self.answers.items() if reply == (False, "interrupted")}


@pytest.fixture(params=["folder", "postgresql"])
def start_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[int], Server]]:
    started: list[Server] = []
    state = str(tmp_path / "state")
    if request.param == "postgresql":
        state = request.getfixturevalue("shared_postgres").create_database()

    def serve(workers: int) -> Server:
        started.append(Server(tmp_path, workers, state))
        started[-1].start()
        return started[-1]

    try:
        yield serve
    finally:
        for server in started:
            server.kill()


@pytest.mark.requirement("R2", "OTC-019", "ST-02")
def test_killed_workers_lose_no_call_and_run_none_twice(start_server: Callable[[int], Server]) -> None:
    async def story() -> None:
        server = start_server(2)
        kills = KILLS or (6 if server.is_leased else 20)  # a lease takes seconds to run out
        async with run_callers(server) as calls:
            for number in range(kills):
                await until(lambda: len(server.workers()) == 2)
                await wait_for_answers(calls, 2 * CALLERS)
                if server.is_leased and number % _ALL_ANSWERED == 0:
                    # A new worker takes up calls of dead ones only after the time of a lease. On a busy machine, none
                    # lives that long here while other calls end, so the kills wait now and then.
                    accepted = calls.asked - set(calls.answers)
                    await until(lambda accepted=accepted: accepted <= set(calls.answers))  # type: ignore[misc]  # a default
                killed = server.workers()[number % 2]
                os.kill(killed, signal.SIGKILL)
                await until(lambda killed=killed: killed not in server.workers())  # type: ignore[misc]  # a default
                if number % 100 == 99:
                    print(f"\n{number + 1} kills, {len(calls.answers)} calls answered", end="", flush=True)
        report_kills("R2 PostgreSQL" if server.is_leased else "R2", kills, calls, check(calls, server))

    asyncio.run(story())


@pytest.mark.requirement("R3", "ST-02")
def test_killed_single_process_answers_every_call_soon_after_restart(start_server: Callable[[int], Server]) -> None:
    kills, back = max(5, KILLS // 10), list[float]()

    async def story() -> None:
        server = start_server(1)
        async with run_callers(server) as calls:
            for _ in range(kills):
                await wait_for_answers(calls, 2 * CALLERS)
                server.kill()
                accepted = calls.asked - set(calls.answers)
                began = time.monotonic()
                server.start()
                await until(lambda accepted=accepted: accepted <= set(calls.answers))  # type: ignore[misc]  # a default
                back.append(time.monotonic() - began)
        report_kills(
            "R3 PostgreSQL" if server.is_leased else "R3", kills, calls, check(calls, server), slowest_back_s=max(back)
        )
        assert not KILLS or max(back) <= SOON_S

    asyncio.run(story())


@pytest.mark.requirement("R11", "ST-05")
def test_killed_database_loses_no_call_and_runs_none_twice(tmp_path: Path, postgres: Postgres) -> None:
    wait_until_answering(postgres)
    server = Server(tmp_path, 2, postgres.create_database())
    kills, back = KILLS // 50 or 3, list[float]()

    async def story() -> None:
        async with run_callers(server) as calls:
            for _ in range(kills):
                await wait_for_answers(calls, 2 * CALLERS)
                postgres.kill()
                before = calls.again
                await until(lambda before=before: calls.again >= before + CALLERS)  # type: ignore[misc]  # a default
                postgres.start()
                await until(postgres.answers)
                began = time.monotonic()
                await wait_for_answers(calls, 2 * CALLERS)
                back.append(time.monotonic() - began)
        report_kills("R11", kills, calls, check(calls, server), slowest_back_s=max(back))
        assert not KILLS or max(back) <= SOON_S

    server.start()
    try:
        asyncio.run(story())
    finally:
        server.kill()
    assert "Traceback" not in server.errors.read_text()


@pytest.mark.requirement("R11", "ST-05")
def test_worker_that_dies_while_the_database_is_away_comes_back_with_it(tmp_path: Path, postgres: Postgres) -> None:
    wait_until_answering(postgres)
    server = Server(tmp_path, 2, postgres.create_database())

    async def story() -> None:
        async with run_callers(server) as calls:
            await wait_for_answers(calls, 2 * CALLERS)
            killed, other = await wait_for_workers(server)
            postgres.kill()
            os.kill(killed, signal.SIGKILL)
            await until(lambda: "cannot be used" in server.errors.read_text())  # a new worker could not start
            async with dial(server) as peer:  # type: ignore[arg-type]  # it has a port, and that is all it takes
                assert (await peer.get("/health")).status == 200
            assert other in server.workers()
            postgres.start()
            await until(postgres.answers)
            await wait_for_answers(calls, 2 * CALLERS)
            await until(lambda: len(server.workers()) == 2)
        check(calls, server)

    server.start()
    try:
        asyncio.run(story())
    finally:
        server.kill()


def check(calls: Calls, server: Server) -> Counter[Call]:
    """Return how often each call ran, having looked that this fits what was answered."""
    ran = Counter(tuple(line.split()) for line in server.runs.read_text().splitlines())
    assert calls.asked == set(calls.answers), "every call has its answer"
    interrupted = calls.interrupted()
    assert {call for call in interrupted if call[0] != "pay"} == set(), "what may run again always ends well"
    assert [call for call, times in ran.items() if times > 1 and call[0] == "pay"] == [], "none is doubled"
    assert {call for call in calls.asked - interrupted if not ran[call]} == set(), "what ended well did run"
    assert {call for call in calls.asked - interrupted if calls.answers[call] != (True, call[1])} == set()
    return ran  # type: ignore[return-value]  # two words a line


def report_kills(requirement: str, kills: int, calls: Calls, ran: Counter[Call], **more: float) -> None:
    """Report what came of it: what is lost and doubled was looked for before."""
    interrupted = calls.interrupted()
    report(
        requirement,
        "kills",
        kills=kills,
        calls=len(calls.asked),
        sent_again=calls.again,
        lost=0,
        doubled=0,
        interrupted=len(interrupted),
        interrupted_that_had_run=sum(call in ran for call in interrupted),
        repeated_that_may_be=sum(times > 1 for times in ran.values()),
        **more,
    )


@contextlib.asynccontextmanager
async def run_callers(server: Server) -> AsyncIterator[Calls]:
    """Keep callers busy meanwhile; afterwards each finishes what it began."""
    calls = Calls()
    async with asyncio.TaskGroup() as group:
        for caller in range(CALLERS):
            group.create_task(_caller(server, calls, caller))
        yield calls
        calls.stopping = True


async def _caller(server: Server, calls: Calls, caller: int) -> None:
    number = 0
    while not calls.stopping:
        number += 1
        call = (("pay", "put")[number % 2], f"{caller}-{number}")
        calls.asked.add(call)
        copies = 2 if number % 8 < 2 else 1  # some come twice at the same time
        first, *others = await asyncio.gather(*(_answer(server, calls, call) for _ in range(copies)))
        assert others in ([], [first])
        calls.answers[call] = first


async def _answer(server: Server, calls: Calls, call: Call) -> Said:
    """Send ``call`` until there is an answer to it, under the one key it has."""
    tool, number = call
    body = {"request": {"tool_id": f"Accounts.{tool}", "call_id": number, "input": {"number": number}}}

    async def try_once() -> Said | None:
        with contextlib.suppress(OSError, Gone, asyncio.IncompleteReadError):
            async with dial(server) as peer:  # type: ignore[arg-type]  # it has a port, and that is all it takes
                answer = await peer.post("/call", body)
            assert answer.status in (200, 503), answer
            if answer.status == 200:
                return _read_outcome(answer.json)
        calls.again += 1
        await asyncio.sleep(0.02)
        return None

    reply = await wait_until_async(try_once, within=PATIENCE_S)
    assert reply is not None
    return reply


def _read_outcome(body: Any) -> Said:
    match body:
        case {"success": True, "output": {"value": str(value)}}:
            return True, value
        case {"success": False, "output": {"error": {"details": {"interrupted": True}, "can_retry": False}}}:
            return False, "interrupted"
        case _:
            return False, json.dumps(body)


async def wait_for_answers(calls: Calls, more: int) -> None:
    """Wait until there are so many more answers."""
    wanted = len(calls.answers) + more
    await until(lambda: len(calls.answers) >= wanted)


async def wait_for_workers(server: Server) -> list[int]:
    """Return both workers, once each has answered: a process that still starts does not serve."""
    body = {"request": {"tool_id": "Accounts.whose", "input": {}}}
    workers: set[int] = set()

    async def find_both() -> bool:
        with contextlib.suppress(OSError, Gone):
            async with dial(server) as peer:  # type: ignore[arg-type]  # it has a port, and that is all it takes
                workers.add((await peer.post("/call", body)).json["output"]["value"])
        return len(workers) == 2

    await wait_until_async(find_both, within=PATIENCE_S)
    return sorted(workers)
