"""Limit wrong keys: ten a minute from one address, and each wrong key is checked once a minute whoever sends it.

Rules:
- A key is counted before it is checked, so that keys sent at the same time count too. A right key is then not counted.
- A wrong key that comes again is refused without a check, and counts no more: a link that is opened often locks nobody
  out.
- At most 1,000 addresses and 10,000 keys are remembered, the latest ones. A key is remembered by its digest.
"""
# CO-02, D-19, AT-37, AT-58

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final

MAX_WRONG: Final = 10
WINDOW_S: Final = 60.0
_MAX_ADDRESSES: Final = 1_000
_MAX_KEYS: Final = 10_000


class WrongKeys:
    """The wrong keys of the last minute. ``clock`` returns seconds that never go back. Threads can share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._times: OrderedDict[str, list[float]] = OrderedDict()
        self._keys: OrderedDict[bytes, float] = OrderedDict()

    def begin(self, key: str, address: str) -> float | None:
        """Count ``key`` before it is checked, and return what ``forgive`` takes; None if it must not be checked."""
        digest, now = _digest(key), self._clock()
        with self._lock:
            if self._keys.get(digest, -WINDOW_S) > now - WINDOW_S:
                return None
            recent = [at for at in self._times.pop(address, ()) if at > now - WINDOW_S]
            self._times[address] = recent
            if len(self._times) > _MAX_ADDRESSES:
                self._times.popitem(last=False)
            if len(recent) >= MAX_WRONG:
                return None
            recent.append(now)
        return now

    def forgive(self, address: str, at: float) -> None:
        """Count no more what ``begin`` counted ``at``: the key was right, or could not be checked."""
        with self._lock:
            times = self._times.get(address, [])
            if at in times:
                times.remove(at)

    def remember(self, key: str) -> None:
        """Remember that ``key`` is wrong."""
        with self._lock:
            self._keys[_digest(key)] = self._clock()
            if len(self._keys) > _MAX_KEYS:
                self._keys.popitem(last=False)


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()
