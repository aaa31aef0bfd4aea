"""Check calls on the server against the declared limit of their tool.

While the store that several processes share cannot be reached, this process counts alone.
"""
# R11: a lost store stops no call, and lets no caller call without end. XL-066

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isinf
from typing import Final, Literal, TypeAlias, get_args

from toolwire.core.check import ALLOW, Check, Deny, Verdict
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Call, Kind, Problem, RateLimit, Tool

from .caller_rules import RulesByCaller
from .throttle import build_rate_limited
from .window import MemoryWindows, Windows

FindRate: TypeAlias = Callable[[Call], tuple[str, RateLimit] | None]
"""Returns the limit that a call counts against, with the key under which its calls are counted; None for no limit."""


def find_tool_rate(call: Call) -> tuple[str, RateLimit] | None:
    """Return the limit of the tool of ``call``, counted for each caller, OAuth client and tool."""
    limit = call.tool.rate_limit
    return None if limit is None else (f"{call.context.principal}\0{call.context.client_id}\0{call.tool.id}", limit)


def build_rate_check(
    windows: Windows, local: LocalRates | None = None, find_rate: FindRate = find_tool_rate, owner: str = ""
) -> Check:
    """Return a check that refuses a call beyond a limit: that of its tool, or what ``find_rate`` returns.

    It must be the last check, so that calls that another check refuses do not count. Calls that cannot be
    counted in ``windows`` at the moment count in ``local``; without it, a call with a limit does not run then.
    ``owner`` says in a refusal whose limit it is, if it is not the tool's.
    """
    # R11

    def check(call: Call) -> Verdict:
        found = find_rate(call)
        if found is None:
            return ALLOW
        key, limit = found
        wait = windows.take(key, limit)
        if local is not None and isinf(wait):
            wait = local.take(key, limit, call.tool)
        if wait <= 0.0:
            return ALLOW
        if isinf(wait):
            return Deny(build_uncounted(call.tool))
        problem = build_rate_limited(call.tool, wait)
        return Deny(replace(problem, message=f"{owner}; {call.tool.name} was not called.") if owner else problem)

    return check


def build_caller_rate_check(windows: Windows, local: LocalRates | None, rules: RulesByCaller) -> Check:
    """Return a check that refuses a call beyond the limit of its caller, which counts the calls of all tools."""
    # GW-01

    def find_rate(call: Call) -> tuple[str, RateLimit] | None:
        principal = call.context.principal
        limit = rules.find(principal, call.context.group).rate
        return None if limit is None else (f"{principal}\0", limit)

    return build_rate_check(windows, local, find_rate, "You have called as often as your limit here allows")


def build_uncounted(tool: Tool) -> Problem:
    """Return the Problem of a call that did not run because its limit cannot be counted now."""
    return Problem(
        kind=Kind.OVERLOADED,
        message=f"The call did not run: the limit of {tool.name} cannot be counted now.",
        can_retry=True,
        retry_after_ms=1_000,
        details={"uncounted": True},
    )


RatesFail: TypeAlias = Literal["open", "closed-for-destructive", "closed"]
"""What a tool with a rate limit does while its calls cannot be counted in the store.

``open`` counts in each process alone, ``closed`` refuses the call with 503, ``closed-for-destructive`` refuses only
calls of destructive tools.
"""
CONSEQUENCES: Final = {
    "open": "each process counts alone until then",
    "closed-for-destructive": "until then each process counts alone, and destructive tools with a limit do not run",
    "closed": "tools with a limit do not run until then",
}


class LocalRates:
    """The limits of one of ``replicas`` processes, which together allow no more than each limit says.

    A process allows at least one call in a window, so many processes may allow more than a small limit.
    """

    def __init__(self, fail: RatesFail, replicas: int, clock: Callable[[], float]) -> None:
        """Count by ``clock``, which gives seconds and never goes back.

        Raises:
            DefinitionError: ``fail`` is no word of ``RatesFail``, or there are no ``replicas``.
        """
        if fail not in get_args(RatesFail):
            raise DefinitionError(f"rates_fail must be one of {', '.join(get_args(RatesFail))}, not {fail!r}.")
        if replicas < 1:
            raise DefinitionError(f"rates_replicas must be at least 1, not {replicas}.")
        self._fail = fail
        self._replicas = replicas
        self._windows = MemoryWindows(clock)

    def take(self, key: str, limit: RateLimit, tool: Tool) -> float:
        """Count a call of ``tool`` and return 0.0, or the seconds that must pass first; infinite if it may not run."""
        if self._fail == "closed" or (self._fail != "open" and tool.destructive):
            return inf
        return self._windows.take(key, replace(limit, max=max(1, limit.max // self._replicas)))
