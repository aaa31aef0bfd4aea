"""Check calls on the server against the declared limit of their tool."""
# XL-066

from __future__ import annotations

from math import isinf

from toolwire.core.check import ALLOW, Check, Deny, Verdict
from toolwire.core.model import Call, Kind, Problem, Tool

from .outage import LocalRates
from .throttle import build_rate_limited
from .window import Windows


def build_rate_check(windows: Windows, local: LocalRates | None = None) -> Check:
    """Return a check that refuses a call beyond its tool's limit, counted for each caller, OAuth client and tool.

    It must be the last check, so that calls that another check refuses do not count. Calls that cannot be
    counted in ``windows`` at the moment count in ``local``; without it, a tool with a limit does not run then.
    """
    # R11

    def check(call: Call) -> Verdict:
        limit = call.tool.rate_limit
        if limit is None:
            return ALLOW
        key = f"{call.context.principal}\0{call.context.client_id}\0{call.tool.id}"
        wait = windows.take(key, limit)
        if local is not None and isinf(wait):
            wait = local.take(key, call.tool)
        if wait <= 0.0:
            return ALLOW
        return Deny(build_uncounted(call.tool) if isinf(wait) else build_rate_limited(call.tool, wait))

    return check


def build_uncounted(tool: Tool) -> Problem:
    """Return the Problem of a call that did not run because its limit cannot be counted now."""
    return Problem(
        kind=Kind.OVERLOADED,
        message=f"The limit of {tool.name} cannot be counted at the moment; the call did not run.",
        can_retry=True,
        retry_after_ms=1_000,
        details={"uncounted": True},
    )
