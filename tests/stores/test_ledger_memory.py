"""The ledger in memory takes the room that it says it takes."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from toolwire.core.ledger import CallEnding, CallKey, CallState, Claim, LedgerLimits, Ticket
from toolwire.core.model import Kind, Problem, Value
from toolwire.stores.ledger.memory import MemoryLedger

ROWS = 20_000
MEASURED = f"""
import asyncio
from pathlib import Path
from toolwire.core.model import Call, Tool, Value
from toolwire.core.toolbox import ignore_progress
from toolwire.server.run.idempotency import IdempotencyRunner
from toolwire.stores.ledger.memory import MemoryLedger

TOOL = Tool(name="pay", toolkit="Kit")

def resident():
    pages = Path("/proc/self/statm").read_text().split()
    return 4_096 * (int(pages[1]) - int(pages[2]))

async def fill():
    ledger = MemoryLedger()
    once = IdempotencyRunner(ledger, ledger, wait_s=1.0)

    async def pay(call, notify):
        return Value({{"paid": call.arguments["to"], "number": 1}})

    async def calls(first, rows):
        for number in range(first, first + rows):
            await once.run(Call(TOOL, {{"to": "ada"}}, key=f"key-{{number}}"), ignore_progress, pay)

    await calls(0, 2_000)
    before, said = resident(), ledger.size
    await calls(2_000, {ROWS})
    assert len(ledger) == 2_000 + {ROWS}
    print((resident() - before) / (ledger.size - said))

asyncio.run(fill())
"""


@pytest.mark.requirement("D-34")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_ledger_size_estimate_matches_its_real_memory() -> None:
    ran = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True, timeout=60)
    assert 0.5 < float(ran.stdout) < 1.5


@pytest.mark.requirement("D-34")
def test_answer_that_does_not_fit_makes_room_among_ended_calls() -> None:
    async def fill() -> list[int]:
        ledger = MemoryLedger(LedgerLimits(bytes=100_000))
        sizes = []
        for number, answer in enumerate([*["a" * 1_000] * 50, "b" * 50_000]):
            ticket = await ledger.claim(Claim(CallKey("ada", "pay", str(number)), b"pay 1", can_rerun=False))
            assert isinstance(ticket, Ticket)
            await ledger.finish(ticket, CallEnding(CallState.DONE, Value(answer), pinned=True))
            sizes.append(ledger.size)
        return sizes

    *before, last = asyncio.run(fill())
    assert 50_000 < before[-1] < 100_000
    assert 50_000 < last <= 100_000


@pytest.mark.requirement("D-34", "A-42")
def test_rerun_call_uses_the_size_of_its_last_ending() -> None:
    later = CallEnding(
        CallState.FAILED, Problem(kind=Kind.TOOL_FAILED, message="Later." * 50, can_retry=True), pinned=False
    )
    done = CallEnding(CallState.DONE, Value(["paid"]), pinned=True)

    async def size_after(*endings: CallEnding | None) -> int:
        ledger = MemoryLedger()
        for ending in endings:
            ticket = await ledger.claim(Claim(CallKey("ada", "pay", "k"), b"pay 1", can_rerun=False))
            assert isinstance(ticket, Ticket)
            await ledger.finish(ticket, ending)
        return ledger.size

    async def sizes() -> None:
        words = [CallEnding(CallState.DONE, Value(letter * 900), pinned=True) for letter in ("a", "\U0001f600")]
        assert await size_after(words[1]) - await size_after(words[0]) == 3 * 900
        assert await size_after(None) == 0
        assert await size_after(later) == await size_after(later, later, None)
        assert await size_after(done) == await size_after(later, later, done)
        assert await size_after(done) < await size_after(later)

    asyncio.run(sizes())
