"""The tools of the tests with several machines: each writes down that it ran, in a file that outlives its machine.

``TOOLWIRE_TEST_RUNS`` is the file; one line a run, written at once, so that a kill leaves a line or none.
"""

from __future__ import annotations

import asyncio
import os

from toolwire import Context, Toolkit

kit = Toolkit("Accounts")


@kit.tool(safe=False)
async def pay(number: str) -> str:
    """Do what must not be done twice: a moment before, the deed, and a moment after."""
    await asyncio.sleep(0.01)
    _record_run("pay", number)
    await asyncio.sleep(0.01)
    return number


@kit.tool(safe=False, idempotent=True)
async def put(number: str) -> str:
    """Do what may be done twice."""
    await asyncio.sleep(0.01)
    _record_run("put", number)
    await asyncio.sleep(0.01)
    return number


@kit.tool(safe=False, long=True)
async def pay_slowly(number: str, context: Context) -> str:
    """Do what must not be done twice, and takes longer than its caller stays."""
    _record_run("pay_slowly", number)
    return await _work(number, context)


@kit.tool(safe=False, idempotent=True, long=True)
async def put_slowly(number: str, context: Context) -> str:
    """Do what may be done twice, and takes longer than its caller stays."""
    _record_run("put_slowly", number)
    return await _work(number, context)


@kit.tool(safe=True)
async def look(number: str) -> str:
    """Do what is recorded in no database."""
    return number


async def _work(number: str, context: Context) -> str:
    for part in range(1, 5):
        await context.progress(part / 4)
        await asyncio.sleep(0.1)
    return number


def _record_run(tool: str, number: str) -> None:
    file = os.open(os.environ["TOOLWIRE_TEST_RUNS"], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(file, f"{tool} {number}\n".encode())
    finally:
        os.close(file)
