"""A toolkit with a limited tool, and requests that call it."""

from __future__ import annotations

import asyncio

from tests.support.wire import HERE
from toolwire import RateLimit, Toolkit
from toolwire.core.http import Request

SHOP = '''
from toolwire import RateLimit, Toolkit

kit = Toolkit("Shop")


@kit.tool(approval="auto", safe=True, rate_limit=RateLimit(max=30, window="1h"))
def look() -> str:
    """Look around."""
    return "tea"
'''
"""The file of a program that serves the limited tool."""


def kit() -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto", safe=True, rate_limit=RateLimit(max=30, window="1h"))
    async def look() -> str:
        """Look around."""
        await asyncio.sleep(0)
        return "tea"

    @kit.tool(approval="auto", safe=True)
    def free() -> str:
        """Look around as often as you like."""
        return "tea"

    return kit


def build_call(name: str) -> Request:
    return Request("GET", f"{HERE}/api/{name}")
