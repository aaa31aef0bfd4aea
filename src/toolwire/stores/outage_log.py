"""Say in the log that a store fails: once when it begins, once a minute while it lasts, and once when it is over."""
# ST-05, R13

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import Final

AGAIN_S: Final = 60.0
QUIET_S: Final = 10.0
"""For how long a store must not have failed until it counts as mended: a full disk has room for some calls."""


def list_store_errors(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what a store raises that cannot be asked, and ``more``; for ``except``, which calls it only then."""
    import sqlite3  # most servers do not need it

    return (OSError, sqlite3.Error, *more)


class OutageLog:
    """The failures of one store, as ``logger`` says them; ``mended`` is said when they are over. Thread-safe."""

    def __init__(self, logger: logging.Logger, mended: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._mended = logger, mended
        self._clock = clock
        self._lock = Lock()
        self._is_failing = False
        self._last_at = self._next_at = 0.0
        self._count = 0

    def record_failure(self, message: str, *values: object) -> None:
        """Say ``message``, if nothing like it was said in the last minute; else count it for the next one."""
        with self._lock:
            now = self._last_at = self._clock()
            if self._is_failing and now < self._next_at:
                self._count += 1
                return
            count, self._count = self._count, 0
            self._is_failing, self._next_at = True, now + AGAIN_S
        if count:
            message, values = f"{message} This happened %d more times.", (*values, count)
        self._logger.error(message, *values)

    def record_success(self) -> None:
        """Note that the store works."""
        if not self._is_failing:  # without the lock: nearly always
            return
        with self._lock:
            if self._clock() < self._last_at + QUIET_S:
                return
            count, self._count, self._is_failing = self._count, 0, False
        self._logger.warning("%s%s", self._mended, f" Failures that were not logged: {count:,}." if count else "")
