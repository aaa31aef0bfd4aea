"""Count calls in a moving window: at most ``max`` calls in any period of its length.

Rules:
- A call that was counted at time t frees its place exactly at t + window.
- Above a thousand calls the moments are kept in slices of a thousandth of the window, counted at a slice's end: never
  one call too many, and bounded memory.
- If the clock goes back, calls that were counted in its future are dropped, so that no caller waits for it.
"""
# XL-063: the rules above.

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from math import ceil
from threading import Lock
from typing import Protocol

from toolwire.core.model import RateLimit

_EXACT = 1_000
_KEYS = 10_000
_BACK_S = 1.0


class Windows(Protocol):
    """Count calls by key, for one process or for several."""

    def take(self, key: str, limit: RateLimit) -> float:
        """Count a call and return 0.0, or return how many seconds must pass first and count nothing.

        Infinite if calls cannot be counted now. Never raises, and returns within a bounded time.
        """
        ...


class MemoryWindows:
    """Windows in memory, for one process; thread-safe. At most 10,000 keys; the least recently used is dropped first.

    ``clock`` gives seconds, such as ``time.monotonic``.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._lock = Lock()

    def take(self, key: str, limit: RateLimit) -> float:
        """Count a call and return 0.0, or return how many seconds must pass first and count nothing."""
        return self.take_all(((key, limit),))

    def take_all(self, wanted: Sequence[tuple[str, RateLimit]]) -> float:
        """Count a call in each window and return 0.0, or the longest wait, and count nothing in any."""
        with self._lock:
            now = self._clock()
            windows: list[_Window] = []
            wait = 0.0
            for key, limit in wanted:
                window = self._get_window(key, limit)
                windows.append(window)
                wait = max(wait, window.wait(now))
            if wait == 0.0:
                for window in windows:
                    window.add(now)
            return wait

    def wait(self, key: str, limit: RateLimit) -> float:
        """Return what ``take`` would, and count nothing."""
        with self._lock:
            return self._get_window(key, limit).wait(self._clock())

    def count_remaining(self, key: str, limit: RateLimit) -> int:
        """Return how many calls are left now."""
        with self._lock:
            return self._get_window(key, limit).count_remaining(self._clock())

    def _get_window(self, key: str, limit: RateLimit) -> _Window:
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= _KEYS:
                self._windows.popitem(last=False)
            window = self._windows[key] = _Window(limit)
            return window
        self._windows.move_to_end(key)  # new keys are no way to have the window of a connection forgotten
        if window.limit is not limit and window.limit != limit:
            window.set_limit(limit)
        return window


class _Window:
    """The calls of one key: when each was taken, or how many in each slice."""

    __slots__ = ("count", "exact", "limit", "slice_s", "taken", "window_s")

    def __init__(self, limit: RateLimit) -> None:
        self.taken: deque[tuple[float, int]] = deque()
        self.count = 0
        self.set_limit(limit)

    def set_limit(self, limit: RateLimit) -> None:
        """Use ``limit`` from now on; calls that were counted stay counted."""
        self.limit = limit
        self.window_s = limit.window_s
        self.slice_s = self.window_s / _EXACT
        self.exact = limit.max <= _EXACT

    def wait(self, now: float) -> float:
        """Return how many seconds must pass before a call, after forgetting what is out of the window."""
        taken = self.taken
        if taken:
            if taken[-1][0] > now + _BACK_S + self.slice_s:
                taken.clear()
                self.count = 0
            oldest = now - self.window_s
            while taken and taken[0][0] <= oldest:
                self.count -= taken.popleft()[1]
        return 0.0 if self.count < self.limit.max else max(taken[0][0] + self.window_s - now, 1e-9)

    def count_remaining(self, now: float) -> int:
        """Return how many calls are left."""
        self.wait(now)
        return max(0, self.limit.max - self.count)

    def add(self, now: float) -> None:
        """Count one call."""
        self.count += 1
        if self.exact:
            self.taken.append((now, 1))
            return
        end = ceil(now / self.slice_s) * self.slice_s
        if self.taken and self.taken[-1][0] == end:
            self.taken[-1] = (end, self.taken[-1][1] + 1)
        else:
            self.taken.append((end, 1))
