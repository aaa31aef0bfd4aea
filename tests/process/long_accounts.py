"""The tools of the kill tests of long calls: each writes down that it began, in a file that outlives it."""

from __future__ import annotations

import asyncio
import os

from toolwire import Context, Toolkit

kit = Toolkit("Accounts")


@kit.tool(safe=False, long=True)
async def pay(number: str, context: Context) -> str:
    """Do what must not be done twice."""
    _note("pay", number)
    for part in range(1, 5):
        await context.progress(part / 4)
        await asyncio.sleep(0.1)
    return number


@kit.tool(safe=False, idempotent=True, long=True)
async def put(number: str, context: Context) -> str:
    """Do what may be done twice."""
    _note("put", number)
    for part in range(1, 5):
        await context.progress(part / 4)
        await asyncio.sleep(0.1)
    return number


def _note(tool: str, number: str) -> None:
    file = os.open(os.environ["TOOLWIRE_TEST_RUNS"], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(file, f"{tool} {number}\n".encode())
    finally:
        os.close(file)
