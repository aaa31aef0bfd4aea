"""A clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds that stand still until a test changes ``now``."""

    now: float

    def __call__(self) -> float:
        """Return the time, as the clock of a system does."""
        return self.now
