"""Use the accounts of an application as they are: a function that finds the user with an id."""
# AO-01

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

FindUser: TypeAlias = Callable[[str], Any]
"""Takes the id of a user as text. Returns the application's own object for that user, or None. May be slow."""

_NAMES: Final = ("name", "username", "email")


class AppAccount(NamedTuple):
    """A user of an application, as the pages of the authorization server know them."""

    id: str
    name: str


class AppUsers:
    """The users that ``find_user`` returns. They sign in at the application, so no password is checked here."""

    def __init__(self, find_user: FindUser) -> None:
        self.find_user: FindUser = find_user

    def check(self, _name: str, _password: str, /) -> None:
        """Return None: the passwords are the application's own."""

    def find(self, user_id: str, /) -> AppAccount | None:
        """Return the account with this id, or None. Its name is the first text in ``name``, ``username``, ``email``."""
        user = self.find_user(user_id)
        if user is None:
            return None
        names = (getattr(user, name, None) for name in _NAMES)
        return AppAccount(user_id, next((name for name in names if isinstance(name, str) and name), user_id))
