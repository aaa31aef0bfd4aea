"""Keep which resources of a toolkit have changed, for those who look from time to time."""
# MC-06

from __future__ import annotations

from itertools import takewhile
from threading import Lock
from typing import Final

MAX_KNOWN: Final = 10_000


class ResourceChanges:
    """The numbers of the last changes of resources, by URI. Any thread may use it.

    The last 10,000 URIs are known. Each other one counts as changed when the last of those that are known no more was:
    so a change is never missed, and a URI may count as changed once too often.
    """

    __slots__ = ("_forgotten", "_last", "_lock", "_numbers")

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers: dict[str, int] = {}
        self._last = self._forgotten = 0

    @property
    def last(self) -> int:
        """The number of the last change of any resource, 0 if there was none."""
        return self._last

    def add(self, uri: str) -> None:
        """Keep that the resource at ``uri`` has changed now."""
        with self._lock:
            self._last += 1
            self._numbers.pop(uri, None)  # to the end: the first one is that which has not changed for longest
            self._numbers[uri] = self._last
            if len(self._numbers) > MAX_KNOWN:
                self._forgotten = self._numbers.pop(next(iter(self._numbers)))

    def find_since(self, number: int) -> list[str]:
        """Return the URIs that have changed after ``number``, the latest change first, as far as they are known."""
        with self._lock:
            return [*takewhile(lambda uri: self._numbers[uri] > number, reversed(self._numbers))]

    def find_last(self, uri: str) -> int:
        """Return the number of the last change of ``uri``, 0 if there was none."""
        with self._lock:
            return self._numbers.get(uri, self._forgotten)
