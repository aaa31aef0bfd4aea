"""Decide which origins the calls of one connection may go to."""

# D-07: a document can name any server, and only the user can trust it.

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from .url_policy import origin_of

AllowOrigins: TypeAlias = Iterable[str] | Callable[[str], bool]
"""Other origins than the site's own: their names, or a function that is asked once for each, with its name."""


class AllowedOrigins:
    """The site's own origin, those that are allowed by name, and those that the user agreed to.

    Raises:
        ValueError: one of ``allowed`` is no origin like ``https://example.com``.
    """

    __slots__ = ("_ask", "_decisions")

    def __init__(self, home: str, allowed: AllowOrigins = ()) -> None:
        self._decisions = {home: True}
        self._ask: Callable[[str], bool] | None = None
        if callable(allowed):
            self._ask = allowed
        else:
            self._decisions.update((origin_of(origin), True) for origin in allowed)

    def allow(self, home: str) -> None:
        """Allow the origin ``home``, which the document of a file names as its server."""
        self._decisions[home] = True

    def __contains__(self, origin: object) -> bool:
        if not isinstance(origin, str) or not origin:
            return False
        said = self._decisions.get(origin)
        if said is None:
            said = self._decisions[origin] = self._ask is not None and self._ask(origin) is True
        return said
