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

from toolwire.core.check import Check, Deny, Verdict
from toolwire.core.model import Call, Problem
from toolwire.limits import LocalRates, MemoryWindows, RulesByCaller, Windows, build_rate_check
from toolwire.limits.limit_check import build_caller_rate_check

CountCall: TypeAlias = Callable[[Call], Awaitable[Problem | None]]
# A store that hangs takes no more threads than this.
_AT_ONCE = 16


def build_rate_counter(
    windows: Windows, local: LocalRates | None = None, rules: RulesByCaller | None = None
) -> CountCall:
    """Return a function that counts a call and returns a Problem if there were too many.

    A call counts against the limit of its caller by ``rules`` too, and first. One that cannot be counted in ``windows``
    counts in ``local``.
    """
    # XL-066, A-42
    of_tool = build_rate_check(windows, local)
    if rules is None:
        return count_by(windows, of_tool)
    of_caller = build_caller_rate_check(windows, local, rules)

    def check(call: Call) -> Verdict:
        verdict = of_caller(call)
        return verdict if isinstance(verdict, Deny) else of_tool(call)

    return count_by(windows, check)


def count_by(windows: Windows, check: Check) -> CountCall:
    """Return a function that counts a call by ``check``, in a thread if ``windows`` may wait for another process."""
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
