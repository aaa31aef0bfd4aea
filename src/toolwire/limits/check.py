"""The declared limit of a tool as a check of the server: the same declaration that clients throttle by. [XL-066]"""

from __future__ import annotations

from toolwire.core.check import ALLOW, Check, Deny, Verdict
from toolwire.core.model import Call

from .throttle import rate_limited
from .window import Windows


def rate_check(windows: Windows) -> Check:
    """Return a check that refuses a call beyond its tool's limit, counted for each caller and tool.

    It must be the last one: what another check refuses does not count. Tools without a limit cost one look.
    """

    def check(call: Call) -> Verdict:
        limit = call.tool.rate_limit
        if limit is None:
            return ALLOW
        wait = windows.take(f"{call.context.principal}\0{call.tool.id}", limit)
        return ALLOW if wait <= 0.0 else Deny(rate_limited(call.tool, wait))

    return check
