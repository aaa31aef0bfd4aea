"""Bound how many requests of a server wait at a time for something that happens later."""
# D-34

from __future__ import annotations

from collections import Counter
from typing import Final

_WAITERS: Final = 1_000
_WAITERS_EACH: Final = 50


class WaitTurn:
    """The turn of a caller to wait, as a context manager; false if too many wait already.

    At most 1,000 wait that share ``waiters``, and 50 of one ``principal``.
    """

    def __init__(self, waiters: Counter[str], principal: str) -> None:
        self._waiters = waiters
        self._principal = principal
        self._has_turn = waiters.total() < _WAITERS and waiters[principal] < _WAITERS_EACH

    def __enter__(self) -> bool:
        if self._has_turn:
            self._waiters[self._principal] += 1
        return self._has_turn

    def __exit__(self, *_: object) -> None:
        if self._has_turn:
            self._waiters[self._principal] -= 1
            if not self._waiters[self._principal]:
                del self._waiters[self._principal]
