"""Store the users whom an external issuer names: who they are, and what it said of them at their last sign-in.

Rules:
- A user is the subject of one issuer. What else the issuer says, such as a name or an email address, identifies nobody.
- Without a new sign-in an account counts for a week, so that what the issuer says of a user is never older.
"""
# PL-03

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from time import time
from typing import Final

from toolwire.auth.clients import hash_secret
from toolwire.core.model import Json
from toolwire.limits import USER_PREFIX

from .database import OAuthStore

VALID_S: Final = 7 * 86_400.0
"""For how long a sign-in counts, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A user as an external issuer names them. ``name`` is for pages alone, and ``claims`` are what rules look at."""

    issuer: str
    subject: str
    name: str
    claims: Mapping[str, Json] = field(repr=False)

    @property
    def user_id(self) -> str:
        """The name of this user in calls: the same at each sign-in, and no user of another issuer has it."""
        digest = sha256(f"{self.issuer}\0{self.subject}".encode()).hexdigest()
        return f"{USER_PREFIX}{self.subject}:{digest[:12]}"


@dataclass(frozen=True, slots=True)
class IssuerAccount:
    """A user who signed in at the issuer: the name in calls, the name on pages, and the claims of that sign-in."""

    id: str
    name: str
    claims: Mapping[str, Json] = field(default_factory=dict, repr=False)


class IssuerAccounts:
    """The users of one external ``issuer`` in a store. ``now`` returns seconds since 1970."""

    def __init__(self, store: OAuthStore, issuer: str, *, now: Callable[[], float] = time) -> None:
        self._store, self._issuer, self._now = store, issuer, now

    def find(self, user_id: str, /) -> IssuerAccount | None:
        """Return the user with this name in calls, or None if there is none, or if the last sign-in is too old."""
        with self._store.read_transaction() as rows:
            known = rows.find_user(user_id, has_password=False)
            record = rows.find_record(_name_record(user_id), self._now())
        if known is None or record is None:
            return None
        account = json.loads(record)
        # The file may name another issuer now, whose users these are not.
        return IssuerAccount(*known, account["claims"]) if account["issuer"] == self._issuer else None

    def save(self, identity: Identity) -> IssuerAccount:
        """Store what the issuer says of a user who signs in, in place of what it said before."""
        now, id_ = self._now(), identity.user_id
        record = json.dumps({"issuer": identity.issuer, "claims": identity.claims})
        with self._store.write_transaction() as rows:
            rows.save_user(id_, identity.name)
            rows.save_record(_name_record(id_), record, now=now, until=now + VALID_S)
        return IssuerAccount(id_, identity.name, identity.claims)


def _name_record(user_id: str) -> str:
    return hash_secret(f"issuer account {user_id}")
