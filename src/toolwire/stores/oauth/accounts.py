"""Accounts with passwords, for an authorization server whose application has none of its own."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from .database import OAuthStore

_MAX_PASSWORD = 1_024
_MIN_PASSWORD = 8


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """Somebody with an account. ``id`` never changes, ``name`` is what they sign in with."""

    id: str
    name: str


class Accounts:
    """The accounts in a store. A wrong name costs what a wrong password costs."""

    # AS-19, D-27

    def __init__(self, store: OAuthStore, *, hasher: PasswordHasher | None = None) -> None:
        self._store = store
        self._hasher = PasswordHasher() if hasher is None else hasher
        self._unknown_hash = self._hasher.hash(secrets.token_urlsafe(16))

    def add(self, name: str, password: str) -> StoredAccount | None:
        """Return the new account, or None where the name is taken.

        Raises:
            ValueError: the name is empty or too long, or the password is not 8 to 1,024 characters long.
        """
        name = name.strip()
        if not 0 < len(name) <= 100 or not name.isprintable():
            raise ValueError("a name has 1 to 100 characters")
        if not _MIN_PASSWORD <= len(password) <= _MAX_PASSWORD:
            raise ValueError(f"a password has {_MIN_PASSWORD} to {_MAX_PASSWORD:,} characters")
        person = StoredAccount(secrets.token_hex(16), name)
        hashed = self._hasher.hash(password)
        with self._store.write_transaction() as rows:
            return person if rows.add_user(person.id, person.name, hashed) else None

    def check(self, name: str, password: str) -> StoredAccount | None:
        """Return the person whose name and password these are, or None after the same work."""
        name = name.strip()[:200]
        with self._store.write_transaction() as rows:
            known = rows.find_user_by_name(name) if name.isprintable() else None
        hashed = self._unknown_hash if known is None else known[2]
        try:
            good = len(password) <= _MAX_PASSWORD and self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            good = False
        if known is None or not good:
            return None
        if self._hasher.check_needs_rehash(hashed):
            with self._store.write_transaction() as rows:
                rows.change_password(known[0], self._hasher.hash(password))
        return StoredAccount(known[0], known[1])

    def find(self, user_id: str) -> StoredAccount | None:
        """Return the person of that id."""
        with self._store.write_transaction() as rows:
            known = rows.find_user(user_id)
        return None if known is None else StoredAccount(*known)
