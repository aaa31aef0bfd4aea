"""How many calls that cost something one connection may still make. [XL-073]

Rules:
- What counts is the site's word, ``credits`` or ``paid``: documents say what costs, and never how much.
- A call counts once it is sent; its retries, which run once, are the same call.
"""

from __future__ import annotations

from threading import Lock

from toolwire.core.model import Cost, Problem, Tool

from .consent_check import build_denial

_COSTLY = (Cost.CREDITS, Cost.PAID)


class CostBudget:
    """Counts the costly calls of one connection. ``most`` is None where they are not counted."""

    __slots__ = ("_lock", "_most", "_taken")

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken = 0
        self._lock = Lock()

    def left(self, tool: Tool) -> int | None:
        """Return how many costly calls are left; None for a tool that costs nothing, and where nothing is counted."""
        if self._most is None or tool.cost not in _COSTLY:
            return None
        return self._most - self._taken

    def take(self, tool: Tool) -> bool:
        """Count a call of ``tool`` that is about to be sent, and return True; False where none is left."""
        if self._most is None or tool.cost not in _COSTLY:
            return True
        with self._lock:
            if self._taken >= self._most:
                return False
            self._taken += 1
            return True


def spent(tool: Tool) -> Problem:
    """Return the result of a call that was not made because none of its sort is left."""
    text = f"{tool.name} was not called: this connection has made as many calls that cost something as you allow."
    return build_denial(text, reason="no more calls that cost")
