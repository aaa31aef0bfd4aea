"""How often a person is asked: a tool that was refused three times is not asked about again, and nobody is flooded.

[XL-054, D-19]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_DENIALS = 3
_PROMPTS_S = 60.0
_TOOLS = 10_000


class Patience:
    """Counts refusals and questions of one session; at most ``questions`` in a minute, and never none.

    ``clock`` gives seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float], *, questions: int = 10) -> None:
        self._clock = clock
        self._questions = max(questions, 1)
        self._denials: dict[str, int] = {}
        self._asked: deque[float] = deque(maxlen=self._questions)

    def blocked(self, tool: str) -> bool:
        """Return whether the person said no to ``tool`` so often that they are not asked again."""
        return self._denials.get(tool, 0) >= _DENIALS

    def denied(self, tool: str) -> None:
        """Note that the person said no."""
        if tool in self._denials or len(self._denials) < _TOOLS:
            self._denials[tool] = self._denials.get(tool, 0) + 1

    def unasked(self) -> None:
        """Take the last question back: there was nobody to hear it."""
        if self._asked:
            self._asked.pop()

    def wait_s(self) -> float:
        """Return how many seconds must pass before the next question, and count one where that is 0."""
        now = self._clock()
        if len(self._asked) == self._questions and now - self._asked[0] < _PROMPTS_S:
            return self._asked[0] + _PROMPTS_S - now
        self._asked.append(now)
        return 0.0
