# ruff: noqa: F811 - fixtures are imported
"""What is over leaves a ledger by time, also while no call arrives."""

from __future__ import annotations

import asyncio
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
from toolwire.stores.ledger.sqlite import SqliteLedger
from toolwire.stores.ledger.sweeper import sweep_all

pytestmark = pytest.mark.requirement("GR-03")
DAY_S = 86_400.0
CALLS = 300
WITHIN_S = 60.0


async def fill(ledger: SqliteLedger | PostgresLedger | MemoryLedger, count: int = CALLS) -> None:
    async def one(number: int) -> None:
        ticket = await ledger.claim(Claim(CallKey("ada", "pay", str(number)), b"f", False))
        assert isinstance(ticket, Ticket)
        await ledger.settle(ticket, CallEnding(CallState.DONE, Value(number), pinned=True))

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
            await ledger.settle(ticket, None)
            if ledger._next_sweep and not ledger._tally.totals.rows:
                return
            assert time.monotonic() < until

    try:
        asyncio.run(use())
    finally:
        asyncio.run(ledger.end())
        database.close()
