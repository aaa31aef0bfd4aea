"""Store accounts with passwords, for an application without accounts of its own."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from time import time

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from .database import GrantEvent, OAuthRows, OAuthStore

_MAX_PASSWORD = 1_024
_MIN_PASSWORD = 8


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """A user with an account. ``id`` never changes; ``name`` is what they sign in with."""

    id: str
    name: str


class Accounts:
    """The accounts in a store. Checking an unknown name takes as long as checking a wrong password."""

    # AS-19, D-27

    def __init__(self, store: OAuthStore, *, hasher: PasswordHasher | None = None) -> None:
        self._store = store
        self._hasher = PasswordHasher() if hasher is None else hasher
        self._unknown_hash = self._hasher.hash(secrets.token_urlsafe(16))

    def add(self, name: str, password: str, user_id: str = "") -> StoredAccount | None:
        """Add an account and return it, or None if the name is taken. Without ``user_id``, the ID is random.

        Raises:
            ValueError: the name is empty or too long, or the password does not have 8 to 1,024 characters.
        """
        name = name.strip()
        if not 0 < len(name) <= 100 or not name.isprintable():
            raise ValueError("A name must have 1 to 100 printable characters.")
        _check_password(password)
        person = StoredAccount(user_id or secrets.token_hex(16), name)
        hashed = self._hasher.hash(password)
        with self._store.write_transaction() as rows:
            return person if rows.add_user(person.id, person.name, hashed) else None

    def check(self, name: str, password: str) -> StoredAccount | None:
        """Return the account with this name and password, or None."""
        name = name.strip()[:200]
        with self._store.write_transaction() as rows:
            # PostgreSQL answers a null character with an error; a name that does not print cannot exist.
            known = rows.find_user_by_name(name) if name.isprintable() else None
        # An unknown name is checked against a random password, so that the time does not tell which names exist.
        hashed = self._unknown_hash if known is None else known[2]
        try:
            good = len(password) <= _MAX_PASSWORD and self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            good = False
        if known is None or not good:
            return None
        # The plain password is known only here, so this is the place to move it to newer parameters.
        if self._hasher.check_needs_rehash(hashed):
            with self._store.write_transaction() as rows:
                rows.change_password(known[0], self._hasher.hash(password))
        return StoredAccount(known[0], known[1])

    def list_all(self, *, has_password: bool = True) -> list[StoredAccount]:
        """Return all accounts, sorted by name. Without ``has_password``, return the users of an external issuer."""
        with self._store.read_transaction() as rows:
            return [StoredAccount(*known) for known in rows.list_users(has_password=has_password)]

    def find_by_name(self, name: str) -> StoredAccount | None:
        """Return the account with this name, or None."""
        with self._store.read_transaction() as rows:
            known = rows.find_user_by_name(name)
        return None if known is None else StoredAccount(known[0], known[1])

    def change_password(self, account: StoredAccount, password: str) -> None:
        """Change the password of ``account``, end its sessions, and revoke the access of its apps.

        Raises:
            ValueError: the password does not have 8 to 1,024 characters.
        """
        _check_password(password)
        hashed = self._hasher.hash(password)
        with self._store.write_transaction() as rows:
            rows.change_password(account.id, hashed)
            _end_access(rows, account)

    def end_access(self, account: StoredAccount) -> int:
        """End the sessions of ``account`` and revoke the access of its apps. Return the number of apps."""
        with self._store.write_transaction() as rows:
            return _end_access(rows, account)

    def remove(self, account: StoredAccount) -> int:
        """Delete ``account``, end its sessions, and revoke the access of its apps. Return the number of apps."""
        with self._store.write_transaction() as rows:
            rows.remove_user(account.id)
            return _end_access(rows, account)

    def close(self) -> None:
        """Close the connections of the store."""
        self._store.close()

    def find(self, user_id: str) -> StoredAccount | None:
        """Return the account with this ID, or None."""
        with self._store.write_transaction() as rows:
            known = rows.find_user(user_id, has_password=True)
        return None if known is None else StoredAccount(*known)


def _check_password(password: str) -> None:
    if not _MIN_PASSWORD <= len(password) <= _MAX_PASSWORD:
        raise ValueError(f"A password must have {_MIN_PASSWORD} to {_MAX_PASSWORD:,} characters.")


def _end_access(rows: OAuthRows, account: StoredAccount) -> int:
    now = time()
    rows.end_sessions(account.id)
    grants = rows.list_grants(account.id)
    for grant in grants:
        rows.revoke_grant(grant.id, now)
        rows.add(GrantEvent(at=now, kind="revoked", user=account.id, client_id=grant.client_id, grant=grant.id))
    return len(grants)
