"""Check calls on the server against the declared limit of their tool."""
# XL-066

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isinf
from typing import TypeAlias

from toolwire.core.check import ALLOW, Check, Deny, Verdict
from toolwire.core.model import Call, Kind, Problem, RateLimit, Tool

from .caller_rules import RulesByCaller
from .outage import LocalRates
from .throttle import build_rate_limited
from .window import Windows

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
        message=f"The limit of {tool.name} cannot be counted at the moment; the call did not run.",
        can_retry=True,
        retry_after_ms=1_000,
        details={"uncounted": True},
    )
