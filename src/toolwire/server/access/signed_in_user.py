"""Define how a server finds the person who is signed in at a browser, where people sign in at the server itself."""
# GW-02, LC-05

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from toolwire.server.page.browser_request import LoginPlace

from .callers import Caller


class BrowserUser(NamedTuple):
    """Who is signed in at the server itself: as which caller, and the name that pages show.

    ``has_key``: by the key of a caller, in a session that a page can end. ``groups`` are those that the user belongs
    to.
    """

    caller: Caller
    name: str
    has_key: bool = False
    groups: frozenset[str] = frozenset()


FindUser: TypeAlias = Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[BrowserUser | None]]
"""Returns who is signed in at the browser that sent these header fields, or None."""


class PeopleSignIn(NamedTuple):
    """How people sign in at a server: what finds them, and the place of the page."""

    find_user: FindUser
    login: LoginPlace
