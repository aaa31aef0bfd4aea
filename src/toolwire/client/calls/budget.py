"""Limit how often one connection's tools are called, with a separate limit for tools that cost something.

Rules:
- A tool costs something if its site declares ``credits`` or ``paid``. Documents do not declare how much.
- A call is counted when it is sent. Retries are not counted again.
"""
# XL-064: the user limits what a model can spend. XL-073

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

from toolwire.consent.consent_check import build_denial
from toolwire.core.codec import Codec
from toolwire.core.model import Cost, Kind, Problem, Tool
from toolwire.limits import CLIENT_DEFAULTS, NO_DEFAULTS, Throttle
from toolwire.limits.throttle import build_rate_limited

from .session import Session

# One response must not let a server block a tool for ever.
_MAX_PAUSE_S = 86_400.0


class Budget(NamedTuple):
    """One connection's limits, and how much of them is left. A new fetch of the server does not reset the counts."""

    throttle: Throttle
    costs: CostBudget

    def find_refusal(self, tool: Tool) -> Problem | None:
        """Return why ``tool`` cannot be called now, or None. Nothing is counted."""
        if self.costs.count_remaining(tool) == 0:
            return build_budget_denial(tool)
        wait = self.throttle.wait_s(tool)
        return build_rate_limited(tool, wait, self.throttle.explain_wait(tool)) if wait > 0.0 else None

    def take(self, tool: Tool) -> Problem | None:
        """Count a call that is about to be sent and return None, or return why it must not be sent."""
        # Check the rate limit first, because a call that must wait costs nothing.
        wait = self.throttle.take(tool)
        if wait > 0.0:
            return build_rate_limited(tool, wait, self.throttle.explain_wait(tool))
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


_COSTLY = (Cost.CREDITS, Cost.PAID)


class CostBudget:
    """Counts one connection's costly calls. With ``limit=None``, they are not counted."""

    __slots__ = ("_limit", "_lock", "_used")

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._used = 0
        self._lock = Lock()

    def count_remaining(self, tool: Tool) -> int | None:
        """Return how many costly calls are left, or None if ``tool`` costs nothing or there is no limit."""
        if self._limit is None or tool.cost not in _COSTLY:
            return None
        return self._limit - self._used

    def take_call(self, tool: Tool) -> bool:
        """Count a call of ``tool`` that is about to be sent. Return False if no call is left."""
        if self._limit is None or tool.cost not in _COSTLY:
            return True
        with self._lock:
            if self._used >= self._limit:
                return False
            self._used += 1
            return True


def build_budget_denial(tool: Tool) -> Problem:
    """Return the result of a call that was not sent because no costly call is left."""
    text = f"{tool.name} was not called: this connection has used all the calls with a cost that you allow."
    return build_denial(text, reason="no more calls with a cost")
