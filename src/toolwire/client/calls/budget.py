"""Limit how often the tools of one connection are called, and how often those that cost something."""

# XL-064: the user bounds what a model can spend.

from __future__ import annotations

from typing import NamedTuple

from toolwire.consent.cost_budget import CostBudget, build_budget_denial
from toolwire.core.codec import Codec
from toolwire.core.model import Kind, Problem, Tool
from toolwire.limits import CLIENT_DEFAULTS, NO_DEFAULTS, Throttle
from toolwire.limits.throttle import build_rate_limited

from .session import Session

# A server must not stop a tool for ever with one response.
_MAX_PAUSE_S = 86_400.0


class Budget(NamedTuple):
    """The limits of one connection and what remains of them. The counts go on when the server is fetched again."""

    throttle: Throttle
    costs: CostBudget

    def find_refusal(self, tool: Tool) -> Problem | None:
        """Return why ``tool`` cannot be called now, or None. Nothing is counted."""
        if self.costs.count_remaining(tool) == 0:
            return build_budget_denial(tool)
        wait = self.throttle.wait_s(tool)
        return build_rate_limited(tool, wait) if wait > 0.0 else None

    def take(self, tool: Tool) -> Problem | None:
        """Count a call that is about to be sent and return None, or return why it must not be sent."""
        # The throttle first: a call that must wait has not cost anything.
        wait = self.throttle.take(tool)
        if wait > 0.0:
            return build_rate_limited(tool, wait)
        return None if tool.cost is None or self.costs.take_call(tool) else build_budget_denial(tool)

    def record_problem(self, tool: Tool, problem: Problem) -> None:
        """Pause ``tool`` for as long as the server asked for, at most a day."""
        if problem.kind in (Kind.RATE_LIMITED, Kind.OVERLOADED) and problem.retry_after_ms:
            self.throttle.pause(tool, min(problem.retry_after_ms / 1_000, _MAX_PAUSE_S))


def build_budget(session: Session, codec: Codec) -> Budget:
    """Return the budget of a new connection of ``session`` that uses ``codec``."""
    defaults = CLIENT_DEFAULTS if codec.default_limits else NO_DEFAULTS
    limits = defaults if session.limits is None else session.limits
    throttle = Throttle(clock=session.clock, wall=session.wall, defaults=limits)
    return Budget(throttle, CostBudget(session.rules.costly_calls))
