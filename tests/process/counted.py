"""The tools of the outage tests: one with a limit that is counted elsewhere, one without. Each notes that it ran.

``TOOLWIRE_TEST_RUNS`` is the file; one line a run.
"""

from __future__ import annotations

import os

from toolwire import RateLimit, Toolkit

kit = Toolkit("Shop")


@kit.tool(safe=False, rate_limit=RateLimit(max=1_000_000, window="1h"))
async def pay(number: str) -> str:
    """Do what must not be done twice, and not too often."""
    return _record_run("pay", number)


@kit.tool(safe=False)
async def free(number: str) -> str:
    """Do what must not be done twice."""
    return _record_run("free", number)


def _record_run(tool: str, number: str) -> str:
    file = os.open(os.environ["TOOLWIRE_TEST_RUNS"], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(file, f"{tool} {number}\n".encode())
    finally:
        os.close(file)
    return number
