"""The origins that the calls of one connection may go to. [D-07]"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from .url_policy import origin_of

AllowOrigins: TypeAlias = Iterable[str] | Callable[[str], bool]
"""Other origins than the site's own, by name; or a function that is asked once for each, with its name."""


class AllowedOrigins:
    """Holds the site's own origin, those that were allowed by name, and those the user agreed to when asked.

    Raises:
        ValueError: one of ``allowed`` is no origin like ``https://example.com``.
    """

    __slots__ = ("_ask", "_said")

    def __init__(self, home: str, allowed: AllowOrigins = ()) -> None:
        self._said = {home: True}
        self._ask: Callable[[str], bool] | None = None
        if callable(allowed):
            self._ask = allowed
        else:
            self._said.update((origin_of(origin), True) for origin in allowed)

    def allow(self, home: str) -> None:
        """Let calls go to ``home``: that of a document from a file, known once it is read."""
        self._said[home] = True

    def __contains__(self, origin: object) -> bool:
        if not isinstance(origin, str) or not origin:
            return False
        said = self._said.get(origin)
        if said is None:
            said = self._said[origin] = self._ask is not None and self._ask(origin) is True
        return said
