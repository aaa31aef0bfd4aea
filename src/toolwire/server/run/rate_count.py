"""Count calls against the rate limits of their tools, just before the tool runs.

Rules:
- A result that is replayed from the ledger is not counted. A call that is refused here is not recorded.
- A store outside this process is called in a thread, so that a slow store delays only the calls that use it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import anyio.to_thread

from toolwire.core.check import Deny
from toolwire.core.model import Call, Problem
from toolwire.limits import LocalRates, MemoryWindows, Windows, build_rate_check

CountCall: TypeAlias = Callable[[Call], Awaitable[Problem | None]]
# A store that hangs takes no more threads than this.
_AT_ONCE = 16


def build_rate_counter(windows: Windows, local: LocalRates | None = None) -> CountCall:
    """Return a function that counts a call and returns a Problem if there were too many.

    A call that cannot be counted in ``windows`` counts in ``local``.
    """
    # XL-066, A-42
    check = build_rate_check(windows, local)
    limiters: list[anyio.CapacityLimiter] = []

    async def count(call: Call) -> Problem | None:
        if isinstance(windows, MemoryWindows):
            verdict = check(call)
        else:
            # Made at the first call: an application can be created before its event loop runs.
            if not limiters:
                limiters.append(anyio.CapacityLimiter(_AT_ONCE))
            verdict = await anyio.to_thread.run_sync(check, call, limiter=limiters[0])
        return verdict.problem if isinstance(verdict, Deny) else None

    return count
