"""A shop whose tools have a limit, and how many calls of one ran at once."""

from __future__ import annotations

import asyncio

from tests.support.wire import HERE, AppTransport
from toolwire import App, RateLimit, Toolkit
from toolwire.core.http import Request, Response, get_header


def kit() -> Toolkit:
    kit = Toolkit("Shop")
    limit = RateLimit(max=30, window="1h")

    @kit.tool(approval="auto", safe=True, rate_limit=limit)
    def look() -> str:
        """Look around."""
        return "tea"

    @kit.tool(approval="auto", destructive=True, rate_limit=limit)
    def empty() -> str:
        """Empty the shop."""
        return "gone"

    @kit.tool(approval="auto", safe=True)
    def free() -> str:
        """Look around as often as you like."""
        return "tea"

    return kit


async def ask(app: App, name: str, calls: int) -> list[Response]:
    """Return the responses to so many calls at once."""
    method = "GET" if name != "empty" else "POST"
    transport = AppTransport(app)
    answers = await asyncio.gather(*(transport.send(Request(method, f"{HERE}/api/{name}")) for _ in range(calls)))
    return [answer for answer in answers if isinstance(answer, Response)]


def count_run(app: App, name: str, calls: int = 50) -> tuple[int, int, int]:
    """Return how many calls ran, how many were over the limit, and how many were refused with a time to come back."""
    answers = asyncio.run(ask(app, name, calls))
    statuses = [answer.status for answer in answers]
    for answer in answers:
        assert answer.status == 200 or get_header(answer.headers, b"retry-after")
    return statuses.count(200), statuses.count(429), statuses.count(503)
