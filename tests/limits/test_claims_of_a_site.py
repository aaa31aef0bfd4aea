"""A limit that a site declares never lets more calls through than the user's side does."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire import Problem, RateLimit, Session, Toolkit, asgi, connect_sync
from toolwire.limits import ClientRateLimits
from toolwire.testing.loopback import background

HUGE = RateLimit(max=1_000_000, window="100ms")
LOOP = 75


class Counting:
    """The app of a site; ``calls`` are the requests that ran its tool."""

    def __init__(self) -> None:
        self.calls = 0
        kit = Toolkit("Kit")

        @kit.tool(approval="auto", safe=True, rate_limit=HUGE)
        def look() -> str:
            """Look."""
            self.calls += 1
            return "tea"

        self.app = asgi(kit)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


def look_in_a_loop(protocol: str, limits: ClientRateLimits | None) -> tuple[int, Problem]:
    """Return how many calls of a loop reached the site, and what the last one was told."""
    site = Counting()
    session = Session(limits=limits, clock=lambda: 100.0)
    with (
        background(site) as url,
        connect_sync(url, protocol=protocol, session=session, agree=lambda _: True, retries=0) as remote,
    ):
        last = [remote.call("look") for _ in range(LOOP)][-1]
    assert isinstance(last, Problem)
    return site.calls, last


@pytest.mark.requirement("XL-067", "XL-062")
def test_huge_declared_limit_keeps_the_default_limit() -> None:
    calls, last = look_in_a_loop("openapi", None)
    assert (calls, last.details["rate_limited"]) == (60, True)


@pytest.mark.requirement("XL-067")
@pytest.mark.parametrize("protocol", ["openapi", "otc", "opentool", "mcp"])
def test_huge_declared_limit_keeps_the_limit_of_the_user(protocol: str) -> None:
    calls, last = look_in_a_loop(protocol, ClientRateLimits(tool=RateLimit(max=5, window="1h"), connection=None))
    assert (calls, last.details["rate_limited"]) == (5, True)
    assert last.retry_after_ms == 3_600_000
