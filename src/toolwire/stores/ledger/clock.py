"""Measure the age of a ledger with a clock that only moves forward, also across restarts.

Rules:
- It counts the seconds of the machine's monotonic clock since the ledger was made. The time while the machine was
  off is not counted, so what is kept for a day is never gone earlier.
- Nothing here reads the time of day.
"""
# R14

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class ClockMark(NamedTuple):
    """What is written down of an age: ``age`` was reached in the run of the machine ``boot`` when its clock said
    ``clock``; both in seconds.
    """

    boot: str
    clock: float
    age: float


def read_boot_id() -> str:
    """Return what names this run of the machine, ``""`` where the system does not say."""
    with suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return ""


def resume_age(mark: ClockMark | None, boot: str, clock: float) -> float:
    """Return the age now: the mark's and what has passed since, if that can be known; never less than the mark's."""
    if mark is None:
        return 0.0
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
        """Go on from what was written down."""
        self._offset = resume_age(mark, self._boot, self._clock()) - self._clock()

    def mark(self) -> ClockMark:
        """Return what to write down."""
        return ClockMark(self._boot, self._clock(), self.now())
