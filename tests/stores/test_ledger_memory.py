"""The ledger in memory takes the room that it says it takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROWS = 20_000
MEASURED = f"""
import asyncio
from pathlib import Path
from toolwire.core.model import Call, Tool, Value
from toolwire.core.toolbox import unheard
from toolwire.server.idempotency import Once
from toolwire.stores.ledger_memory import MemoryLedger

TOOL = Tool(name="pay", toolkit="Kit")

def resident():
    pages = Path("/proc/self/statm").read_text().split()
    return 4_096 * (int(pages[1]) - int(pages[2]))

async def fill():
    ledger = MemoryLedger()
    once = Once(ledger, ledger, wait_s=1.0)

    async def pay(call, notify):
        return Value({{"paid": call.arguments["to"], "number": 1}})

    async def calls(first, rows):
        for number in range(first, first + rows):
            await once.run(Call(TOOL, {{"to": "ada"}}, key=f"key-{{number}}"), unheard, pay)

    await calls(0, 2_000)
    before, said = resident(), ledger.size
    await calls(2_000, {ROWS})
    assert len(ledger) == 2_000 + {ROWS}
    print((resident() - before) / (ledger.size - said))

asyncio.run(fill())
"""


@pytest.mark.requirement("D-34")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_ledger_in_memory_holds_is_what_it_takes() -> None:
    ran = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True, timeout=60)
    assert 0.5 < float(ran.stdout) < 1.5
