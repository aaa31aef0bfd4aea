"""Limit how often the user is asked. After three denials of a tool there are no more questions about it."""
# XL-054, D-19: a user who is flooded with questions allows a call by mistake.

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_MAX_DENIALS = 3
# Nobody reads and answers a question this fast.
_READING_S = 0.25
_WINDOW_S = 60.0
_MAX_TOOLS = 10_000


class PromptLimit:
    """Counts denials and questions of one session, and allows ``limit`` questions a minute, at least 1.

    ``clock`` returns seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float], *, limit: int = 10) -> None:
        self._clock = clock
        self._limit = max(limit, 1)
        self._denials: dict[str, int] = {}
        self._prompt_times: deque[float] = deque(maxlen=self._limit)

    def is_blocked(self, tool: str) -> bool:
        """Return whether the user denied ``tool`` so often that they are not asked again."""
        return self._denials.get(tool, 0) >= _MAX_DENIALS

    def record_denial(self, tool: str) -> None:
        """Count a denial of ``tool``."""
        if tool in self._denials or len(self._denials) < _MAX_TOOLS:
            self._denials[tool] = self._denials.get(tool, 0) + 1

    def end_prompt(self, took_s: float) -> None:
        """Uncount a question that was answered after ``took_s`` seconds, if nobody can have read it in that time."""
        if took_s < _READING_S and self._prompt_times:
            self._prompt_times.pop()

    def reserve_prompt(self) -> float:
        """Count a question and return 0, or return how many seconds must pass before the next question."""
        now = self._clock()
        if len(self._prompt_times) == self._limit and now - self._prompt_times[0] < _WINDOW_S:
            return self._prompt_times[0] + _WINDOW_S - now
        self._prompt_times.append(now)
        return 0.0
