"""The tools of the kill tests: each writes down that it ran, in a file that outlives it, and counts what it finds.

``TOOLWIRE_TEST_RUNS`` is the file; one line a run, written at once, so that a kill leaves a line or none.
"""

from __future__ import annotations

import asyncio
import os

from toolwire import Toolkit

kit = Toolkit("Accounts")


@kit.tool(safe=False)
async def pay(number: str) -> str:
    """Do what must not be done twice: a moment before, the deed, and a moment after."""
    await asyncio.sleep(0.01)
    _note("pay", number)
    await asyncio.sleep(0.01)
    return number


@kit.tool(safe=False, idempotent=True)
async def put(number: str) -> str:
    """Do what may be done twice."""
    await asyncio.sleep(0.01)
    _note("put", number)
    await asyncio.sleep(0.01)
    return number


@kit.tool(safe=True)
async def whose() -> int:
    """Return the number of the process that answers."""
    return os.getpid()


def _note(tool: str, number: str) -> None:
    file = os.open(os.environ["TOOLWIRE_TEST_RUNS"], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(file, f"{tool} {number}\n".encode())
    finally:
        os.close(file)
