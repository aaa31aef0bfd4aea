"""Limit the number of calls that cost something in one connection.

Rules:
- A tool costs something if its site declares ``credits`` or ``paid``. Documents do not declare how much.
- A call counts when it is sent. Its retries are the same call.
"""
# XL-073

from __future__ import annotations

from threading import Lock

from toolwire.core.model import Cost, Problem, Tool

from .consent_check import build_denial

_COSTLY = (Cost.CREDITS, Cost.PAID)


class CostBudget:
    """Counts the costly calls of one connection. With ``limit`` None they are not counted."""

    __slots__ = ("_limit", "_lock", "_used")

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._used = 0
        self._lock = Lock()

    def count_remaining(self, tool: Tool) -> int | None:
        """Return how many costly calls are left; None if ``tool`` costs nothing or there is no limit."""
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
    text = f"{tool.name} was not called: this connection has made all the calls that you allow to cost something."
    return build_denial(text, reason="no more calls that cost")
