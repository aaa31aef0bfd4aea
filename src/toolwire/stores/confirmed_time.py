"""Find out which time has passed for certain, so that a wrong clock deletes nothing.

Rules:
- A time has passed for certain when the clock showed it, and for a minute afterwards showed nothing earlier.
- The first reading of a process confirms nothing: many machines start with a wrong time and correct it in seconds.
- A leap is a reading that is more than an hour later than the seconds that really passed since the reading before.
"""
# RE-01

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf
from typing import Final

CONFIRM_S: Final = 60.0
_LEAP_S: Final = 3_600.0


class ConfirmedTime:
    """The readings of one clock. ``elapsed`` returns seconds that never go back. Thread-safe."""

    def __init__(self, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._read_at, self._shown = 0.0, inf
        self._confirmed = -inf
        self._ahead_s = inf

    def find(self, now: float) -> float:
        """Return the latest time that has passed for certain, after a reading ``now``; -inf before there is one."""
        with self._lock:
            at = self._elapsed()
            if not now >= self._shown:  # the first reading, a clock that was set back, or no number
                self._read_at, self._shown = at, now
                self._confirmed = min(self._confirmed, now)
            elif at >= self._read_at + CONFIRM_S:
                self._confirmed = self._shown
                self._read_at, self._shown = at, now
            return self._confirmed

    def is_leap(self, now: float) -> bool:
        """Return whether a reading ``now`` is a leap that has not been confirmed."""
        with self._lock:
            ahead_s = now - self._elapsed()
            if ahead_s > self._ahead_s + _LEAP_S and not now <= self._confirmed + _LEAP_S:
                return True
            self._ahead_s = ahead_s
            return False
