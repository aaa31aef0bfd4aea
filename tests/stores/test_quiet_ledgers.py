# ruff: noqa: F811 - fixtures are imported
"""What is over leaves a ledger by time, also while no call arrives."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.postgres import LedgerDatabase, Postgres, shared_postgres  # noqa: F401
from tests.support.waiting import wait_until_async
from toolwire.core.ledger import CallEnding, CallKey, CallState, Claim, LedgerLimits, Ticket
from toolwire.core.model import Value
from toolwire.stores.ledger.memory import IN_MEMORY, MemoryLedger
from toolwire.stores.ledger.postgres import PostgresLedger
from toolwire.stores.ledger.sqlite import SqliteLedger, sweep_all

pytestmark = pytest.mark.requirement("GR-03")
DAY_S = 86_400.0
CALLS = 300
WITHIN_S = 60.0
MAX_IN_A_STEP = 512  # several sweeps of 64 may share a transaction


async def fill(ledger: SqliteLedger | PostgresLedger | MemoryLedger, count: int = CALLS) -> None:
    async def one(number: int) -> None:
        ticket = await ledger.claim(Claim(CallKey("ada", "pay", str(number)), b"f", False))
        assert isinstance(ticket, Ticket)
        await ledger.finish(ticket, CallEnding(CallState.DONE, Value(number), pinned=True))

    await asyncio.gather(*map(one, range(count)))


def test_a_quiet_server_removes_what_is_over_from_a_file(tmp_path: Path) -> None:
    now = [1_000.0]
    ledger = SqliteLedger(tmp_path / "calls.sqlite", clock=lambda: now[0], boot="one")

    def count() -> int:
        found: int = ledger._connection.execute("SELECT count(*) FROM calls").fetchone()[0]
        return found

    async def count_after_the_sweep(expected: int) -> int:
        until = time.monotonic() + WITHIN_S
        while (found := await ledger._changes.run_change(count, on_refusal=int)) != expected:
            assert time.monotonic() < until, found
        return found

    async def use() -> None:
        await fill(ledger)
        sweep_all()
        assert await count_after_the_sweep(CALLS) == CALLS, "none is over"
        now[0] += DAY_S + 1
        sweep_all()
        assert await count_after_the_sweep(0) == 0
        await ledger.end()
        sweep_all()  # a ledger that is closed is left alone

    asyncio.run(use())


def add_ended_calls(path: Path, count: int, until: float) -> None:
    """Write ``count`` calls of many callers that ended, as a server that ran for long left them."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)"
            " INSERT INTO calls (principal, tool, call_id, fingerprint, state, rerun, pinned, owner, attempt, bytes,"
            " until, answer) SELECT 'user ' || i % 1000, 'pay', i, x'00', 'done', 0, 1, 1, 1, 100, ?, x'7b7d' FROM n",
            (count, until),
        )
    connection.close()


def remove_many(path: Path, count: int) -> tuple[int, int, int]:
    """Return the most rows that left in one transaction, the calls made meanwhile, and the rows that are left."""
    now = [1_000.0]

    def build_ledger() -> SqliteLedger:
        return SqliteLedger(path, LedgerLimits(rows=2_000_000), clock=lambda: now[0], boot="one")

    asyncio.run(build_ledger().end())
    add_ended_calls(path, count, until=DAY_S)
    ledger = build_ledger()
    removed: list[int] = []

    def note(statement: str) -> None:
        if statement.startswith("BEGIN"):
            removed.append(0)
        elif statement.startswith("DELETE FROM calls WHERE number") and removed:
            removed[-1] += 1

    async def use() -> tuple[int, int]:
        now[0] += 2 * DAY_S
        ledger._connection.set_trace_callback(note)
        sweep_all()
        made = 0
        while sum(removed) < count:  # each of these calls has its turn between two steps
            ticket = await ledger.claim(Claim(CallKey("eve", "pay", str(made)), b"f", False))
            assert isinstance(ticket, Ticket)
            await ledger.finish(ticket, None)
            made += 1
        (left,) = await ledger._changes.run_change(
            lambda: ledger._connection.execute("SELECT count(*) FROM calls WHERE principal <> 'eve'").fetchone(),
            on_refusal=tuple,
        )
        await ledger.end()
        return made, left

    made, left = asyncio.run(use())
    return max(removed), made, left


def test_old_rows_leave_a_file_in_small_steps_between_the_calls_of_others(tmp_path: Path) -> None:
    most, made, left = remove_many(tmp_path / "calls.sqlite", 10_000)
    assert left == 0
    assert most <= MAX_IN_A_STEP
    assert made >= 10_000 / MAX_IN_A_STEP / 2


@pytest.mark.skipif(not os.environ.get("TOOLWIRE_LONG"), reason="takes minutes; make long runs it")
def test_a_million_old_rows_leave_a_file_in_small_steps_between_the_calls_of_others(tmp_path: Path) -> None:
    most, made, left = remove_many(tmp_path / "calls.sqlite", 1_000_000)
    assert left == 0
    assert most <= MAX_IN_A_STEP
    assert made >= 1_000_000 / MAX_IN_A_STEP / 2


def test_a_quiet_server_removes_what_is_over_from_memory() -> None:
    now = [1_000.0]
    ledger = MemoryLedger(replace(IN_MEMORY, keep_s=0.1), clock=lambda: now[0])

    async def use() -> None:
        await fill(ledger)
        running = await ledger.claim(Claim(CallKey("eve", "pay", "runs"), b"f", False))
        assert len(ledger) == CALLS + 1, "none is over"
        now[0] += 1
        await wait_until_async(lambda: len(ledger) == 1)
        assert isinstance(running, Ticket), "a call that runs stays"

    asyncio.run(use())
    asyncio.run(fill(ledger))  # another event loop, after the one that looked has ended
    assert len(ledger) == CALLS + 1


def test_a_quiet_server_removes_what_is_over_from_a_database(shared_postgres: Postgres) -> None:
    database = LedgerDatabase(shared_postgres)
    ledger = PostgresLedger(database.url, LedgerLimits())

    async def use() -> None:
        await fill(ledger)
        database.pass_time(DAY_S + 1)
        ledger._next_sweep = 0.0  # a minute has passed
        until = time.monotonic() + WITHIN_S
        for number in range(10**9):  # claims that change nothing let the thread renew its lease
            ticket = await ledger.claim(Claim(CallKey("bob", "pay", f"new {number}"), b"f", False))
            assert isinstance(ticket, Ticket)
            await ledger.finish(ticket, None)
            if ledger._next_sweep and not ledger._usage.totals.rows:
                return
            assert time.monotonic() < until

    try:
        asyncio.run(use())
    finally:
        asyncio.run(ledger.end())
        database.close()
