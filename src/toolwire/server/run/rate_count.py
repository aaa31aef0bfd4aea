"""Counting a call against its tool's limit: the last thing before the tool runs.

Rules:
- What is told again from the ledger is not counted, and what is refused here is not recorded. [XL-066, A-42]
- Counting that leaves this process does so in a thread: a store that is slow holds up nobody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import anyio.to_thread

from toolwire.core.check import Deny
from toolwire.core.model import Call, Problem
from toolwire.limits import MemoryWindows, Windows, build_rate_check

CountCall: TypeAlias = Callable[[Call], Awaitable[Problem | None]]
_AT_ONCE = 16


def build_rate_counter(windows: Windows) -> CountCall:
    """Return what counts a call in ``windows``, and says why it does not run now if it was called too often."""
    check = build_rate_check(windows)
    limiters: list[anyio.CapacityLimiter] = []

    async def count(call: Call) -> Problem | None:
        if isinstance(windows, MemoryWindows):
            verdict = check(call)
        else:
            if not limiters:
                limiters.append(anyio.CapacityLimiter(_AT_ONCE))
            verdict = await anyio.to_thread.run_sync(check, call, limiter=limiters[0])
        return verdict.problem if isinstance(verdict, Deny) else None

    return count
