"""The upstream that is code in the process of the gateway."""

from __future__ import annotations

import asyncio
import os

from toolwire import Toolkit

desk = Toolkit("Desk")


@desk.tool(safe=True, approval="auto")
async def tell_process(seconds: float = 0) -> int:
    """Wait, and say which process ran the call."""
    await asyncio.sleep(seconds)
    return os.getpid()


@desk.tool(approval="per-call")
def publish(title: str) -> str:
    """Publish a page."""
    return f"{title} is published"
