"""Workers that are killed while long calls run: no accepted call is lost, and none that must not run twice does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import shared_postgres  # noqa: F401 - the fixture
from tests.process.killed_server import KILLS, Server
from tests.support.waiting import wait_until_async
from toolwire.stores.ledger.postgres import LEASE_S

from .amounts import report
from .peer import Answer, Gone, dial, message, until

KIT = Path(__file__).with_name("long_accounts.py")
CALLERS = 6
PATIENCE_S = 60.0
MAX_SHORT_LIVES = 8


@pytest.fixture(params=["folder", "postgresql"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    state = str(tmp_path / "state")
    if request.param == "postgresql":
        state = request.getfixturevalue("shared_postgres").create_database()
    started = Server(tmp_path, 2, state, KIT)
    started.start()
    try:
        yield started
    finally:
        started.kill()


@pytest.mark.requirement("LC-01", "LC-04", "ST-02")
def test_killed_workers_lose_no_long_call_and_run_none_twice(server: Server) -> None:
    kills = max(4, KILLS // 20)
    stopping = asyncio.Event()
    ends: dict[tuple[str, str], Any] = {}

    async def story() -> None:
        await until(lambda: len(server.workers()) == 2)
        async with asyncio.TaskGroup() as group:
            for caller in range(CALLERS):
                group.create_task(call_often(server, caller, stopping, ends))
            for number in range(kills):
                before = len(read_runs(server))
                await until(lambda before=before: len(read_runs(server)) > before)  # type: ignore[misc]  # a default
                killed = server.workers()[number % 2]
                os.kill(killed, signal.SIGKILL)
                await until(lambda killed=killed: killed not in server.workers())  # type: ignore[misc]  # a default
                await until(lambda: len(server.workers()) == 2)
            before = len(read_runs(server))
            await until(lambda: len(read_runs(server)) > before)
            server.kill()
            server.start()
            stopping.set()

    asyncio.run(story())
    ran = Counter(read_runs(server))
    assert {call for call in ran if call not in ends} == set(), "every accepted call is over"
    states = Counter(reply["state"] for reply in ends.values())
    assert set(states) <= {"ended", "interrupted"}
    assert [call for call, times in ran.items() if call[0] == "pay" and times > 1] == [], "none is doubled"
    assert [call for call, reply in ends.items() if call[0] == "put" and reply["state"] != "ended"] == []
    assert all(reply["result"] == call[1] for call, reply in ends.items() if reply["state"] == "ended")
    assert all(ran[call] for call, reply in ends.items() if reply["state"] == "ended"), "what ended did run"
    assert states["interrupted"] + sum(times > 1 for times in ran.values()) > 0, "a kill met calls that ran"
    assert "Traceback" not in server.errors.read_text()
    report(
        "LC-04",
        "kills",
        kills=kills,
        calls=len(ends),
        lost=0,
        doubled=0,
        interrupted=states["interrupted"],
        run_again=sum(times > 1 for times in ran.values()),
    )


@pytest.mark.requirement("LC-04", "ST-02")
@pytest.mark.parametrize("server", ["postgresql"], indirect=True)
def test_call_is_taken_over_though_no_process_lives_for_a_lease(server: Server) -> None:
    body = {"request": {"tool_id": "Accounts.put", "call_id": "1", "input": {"number": "1"}}}

    async def story() -> None:
        await ask(server, message("POST", "/call", json.dumps(body).encode(), b"prefer: respond-async"))
        await until(lambda: bool(read_runs(server)))
        server.kill()
        for _ in range(MAX_SHORT_LIVES):
            server.start()
            await ask(server, message("GET", "/health", b""))
            with contextlib.suppress(TimeoutError):
                await wait_until_async(lambda: len(read_runs(server)) > 1, within=LEASE_S / 3)
            server.kill()
            if len(read_runs(server)) > 1:
                return
        raise AssertionError("the call waits for a process that lives for a whole lease")

    asyncio.run(story())


async def call_often(server: Server, caller: int, stopping: asyncio.Event, ends: dict[tuple[str, str], Any]) -> None:
    """Make one call after the other, each to its end, until ``stopping``."""
    number = 0
    while not stopping.is_set():
        number += 1
        call = (("pay", "put")[number % 2], f"{caller}-{number}")
        body = {"request": {"tool_id": f"Accounts.{call[0]}", "call_id": call[1], "input": {"number": call[1]}}}
        request = message("POST", "/call", json.dumps(body).encode(), b"prefer: respond-async")
        while True:
            accepted = await ask(server, request)
            if accepted.status == 503 and accepted.json.get("error") == "accepted":
                break
            assert accepted.status in (200, 503), accepted
            if accepted.status == 200:  # its answer was lost, and it is over meanwhile
                break
        address = accepted.headers.get("location", "")
        while address:
            reply = (await ask(server, message("GET", address, b"", b"prefer: wait=5"))).json
            if reply.get("state") in ("ended", "interrupted", "cancelled"):
                ends[call] = reply
                break
        if not address:
            output = accepted.json["output"]
            is_over = "value" in output
            ends[call] = {"state": "ended" if is_over else "interrupted", "result": output.get("value")}


async def ask(server: Server, request: bytes) -> Answer:
    """Send ``request`` until there is an answer to it."""

    async def try_once() -> Answer | None:
        with contextlib.suppress(OSError, Gone, asyncio.IncompleteReadError):
            async with dial(server) as peer:  # type: ignore[arg-type]  # it has a port, and that is all it takes
                return await peer.ask(request)
        await asyncio.sleep(0.02)
        return None

    answer = await wait_until_async(try_once, within=PATIENCE_S)
    assert answer is not None
    return answer


def read_runs(server: Server) -> list[tuple[str, str]]:
    if not server.runs.exists():
        return []
    return [(tool, number) for tool, number in map(str.split, server.runs.read_text().splitlines())]
