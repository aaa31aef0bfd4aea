"""Remember whether the store of rate limits can be reached, and log each change once."""
# R11

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from threading import Lock

from toolwire.limits import CONSEQUENCES, RatesFail

_ASKING_S = 10.0
"""Longer than a store takes to answer or fail. Until then no second call asks it, unless the first has an outcome."""

_log = logging.getLogger("toolwire.limits")


class StoreOutage:
    """Whether the store is lost. While it is, one call at a time asks it again; all others go on without it.

    So a store that hangs is waited for by one call in each period, not by all. Thread-safe.
    """

    def __init__(self, fail: RatesFail, *, pause_s: float, clock: Callable[[], float]) -> None:
        """Ask again ``pause_s`` seconds after a failure, by a ``clock`` that never goes back."""
        self._consequence = CONSEQUENCES[fail]
        self._pause_s = pause_s
        self._clock = clock
        self._lock = Lock()
        self._is_lost = False
        self._next_try = -inf

    def may_ask(self) -> bool:
        """Return whether the caller may ask the store; it must then record a failure or a success."""
        # No lock here: every call passes, and one that reads an old value only asks the store once more.
        if not self._is_lost:
            return True
        with self._lock:
            if self._clock() < self._next_try:
                return False
            self._next_try = self._clock() + _ASKING_S
            return True

    def record_failure(self, reason: str) -> None:
        """Note that the store could not be reached."""
        with self._lock:
            was_lost, self._is_lost = self._is_lost, True
            self._next_try = self._clock() + self._pause_s
        if not was_lost:
            _log.error("The rate limit store cannot be reached (%s): %s.", reason, self._consequence)

    def record_success(self) -> None:
        """Note that the store has answered."""
        # No lock, for the same reason as in may_ask().
        if not self._is_lost:
            return
        with self._lock:
            was_lost, self._is_lost = self._is_lost, False
        if was_lost:
            _log.warning("The rate limit store can be reached again.")
