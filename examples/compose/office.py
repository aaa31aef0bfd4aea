"""A tool that takes long, for the servers and the worker of compose.yaml."""

import asyncio

from toolwire import Toolkit

kit = Toolkit("Office")


@kit.tool(long=True, approval="auto", safe=False, idempotent=True)
async def count(to: int) -> int:
    """Count, one number each tenth of a second."""
    for _ in range(to):
        await asyncio.sleep(0.1)
    return to
