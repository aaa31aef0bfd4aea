"""Measure the age of a ledger with a clock that only moves forward, also across restarts.

Rules:
- It counts the seconds of the machine's monotonic clock since the ledger was made. The time while the machine was
  off is not counted, so a record is never removed before its time.
- Nothing here reads the time of day.
"""
# R14

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class ClockMark(NamedTuple):
    """An age as it is stored: when the clock of the machine was at ``clock``, the ledger had the age ``age``.

    Both are in seconds. ``boot`` names the run of the machine, because its clock begins again with each run.
    """

    boot: str
    clock: float
    age: float


def resume_age(mark: ClockMark | None, boot: str, clock: float) -> float:
    """Return the age now: the age of ``mark`` plus the time since then, if that is known. It is never less."""
    if mark is None:
        return 0.0
    # After a restart of the machine its clock begins again, so how long it was off is unknown.
    passed = clock - mark.clock if boot and boot == mark.boot else 0.0
    return mark.age + max(passed, 0.0)


class LedgerClock:
    """The age of one ledger. ``clock`` is in seconds and never goes back while the machine, ``boot``, runs."""

    def __init__(self, boot: str, clock: Callable[[], float]) -> None:
        self._boot = boot
        self._clock = clock
        self._offset = 0.0

    def now(self) -> float:
        """Return the age in seconds."""
        return self._clock() + self._offset

    def resume(self, mark: ClockMark | None) -> None:
        """Go on from the age that was stored."""
        self._offset = resume_age(mark, self._boot, self._clock()) - self._clock()

    def mark(self) -> ClockMark:
        """Return the age to store."""
        return ClockMark(self._boot, self._clock(), self.now())
