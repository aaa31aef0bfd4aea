"""The fields after a chunked body."""

from __future__ import annotations

from collections.abc import Callable

FIELD_SIGNS = 4
"""What a field has besides its name and its value: ": " and the line's end."""


class TrailerReader:
    """Takes the fields after a body, in the place of the list of those before it, and keeps none of them.

    They are no part of the head: whoever is let in by the head must not change it afterwards. [R10, D-24, RFC 9110 6.5]
    ``over`` is called where those of one request, as ``request`` tells it, are more than ``most`` bytes.
    """

    def __init__(self, most: int, request: Callable[[], object], over: Callable[[], None]) -> None:
        self._most = most
        self._request = request
        self._over = over
        self._of: object = None
        self._bytes = 0

    def append(self, field: tuple[bytes, bytes]) -> None:
        """Count a field."""
        request = self._request()
        if request is not self._of:
            self._of, self._bytes = request, 0
        self._bytes += len(field[0]) + len(field[1]) + FIELD_SIGNS
        if self._bytes > self._most:
            self._over()
