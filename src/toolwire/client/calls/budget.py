"""How often the tools of one connection may still be called, and how often where that costs something. [XL-064]"""

from __future__ import annotations

from typing import NamedTuple

from toolwire.consent.cost_budget import CostBudget, build_budget_denial
from toolwire.core.codec import Codec
from toolwire.core.model import Kind, Problem, Result, Tool, Value
from toolwire.limits import CLIENT_DEFAULTS, NO_DEFAULTS, Throttle
from toolwire.limits.throttle import build_rate_limited

from .session import Session

_LONGEST_PAUSE_S = 86_400.0


class Budget(NamedTuple):
    """The limits of one connection and what is left of them; it goes on counting when the server is looked at again."""

    throttle: Throttle
    costs: CostBudget

    def find_refusal(self, tool: Tool) -> Problem | None:
        """Return why a call could not be sent now, counting nothing, or None."""
        if self.costs.count_remaining(tool) == 0:
            return build_budget_denial(tool)
        wait = self.throttle.wait_s(tool)
        return build_rate_limited(tool, wait) if wait > 0.0 else None

    def take(self, tool: Tool) -> Problem | None:
        """Count a call that is about to be sent, and return None; or why it is not sent."""
        wait = self.throttle.take(tool)
        if wait > 0.0:
            return build_rate_limited(tool, wait)
        return None if self.costs.take_call(tool) else build_budget_denial(tool)

    def record_result(self, tool: Tool, result: Result) -> None:
        """Hold ``tool`` back for as long as the server asked for."""
        if isinstance(result, Value):
            return
        if result.kind in (Kind.RATE_LIMITED, Kind.OVERLOADED) and result.retry_after_ms:
            self.throttle.pause(tool, min(result.retry_after_ms / 1_000, _LONGEST_PAUSE_S))


def build_budget(session: Session, codec: Codec) -> Budget:
    """Return what a new connection of ``session`` that speaks ``codec`` may call."""
    unsaid = CLIENT_DEFAULTS if codec.default_limits else NO_DEFAULTS
    limits = unsaid if session.limits is None else session.limits
    throttle = Throttle(clock=session.clock, wall=session.wall, defaults=limits)
    return Budget(throttle, CostBudget(session.rules.costly_calls))
