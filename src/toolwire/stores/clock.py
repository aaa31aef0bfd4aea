"""Measure time so that a wrong clock deletes nothing: what has passed for certain, and the age of a ledger.

Rules:
- A time has passed for certain when the clock showed it, and for a minute afterwards showed nothing earlier.
- The first reading of a process confirms nothing: many machines start with a wrong time and correct it in seconds.
- A leap is a reading that is more than an hour later than the seconds that really passed since the reading before.
- The age of a ledger is the seconds of the machine's monotonic clock since it was made. The time while the machine was
  off is not counted, so a record is never removed before its time.
"""
# RE-01, R14

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

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


_BOOT = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id() -> str:
    """Return the id of this run of the machine, or ``""`` if the system has none."""
    with suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return ""


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
