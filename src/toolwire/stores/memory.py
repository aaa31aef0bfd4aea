"""What is remembered only as long as the process lives."""

from __future__ import annotations


class MemoryGrants:
    """The tools a person allowed "always", by grant key; at most 10,000, after which nothing more is remembered."""

    _MOST = 10_000

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def holds(self, key: str) -> bool:
        """Return whether a grant of this key was added and not revoked."""
        return key in self._keys

    def add(self, key: str) -> None:
        """Remember the grant."""
        if len(self._keys) < self._MOST:
            self._keys.add(key)

    def revoke(self, key: str) -> None:
        """Forget the grant; the next call asks again."""
        self._keys.discard(key)
