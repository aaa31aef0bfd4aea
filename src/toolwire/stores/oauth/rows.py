"""Read and write the rows of the authorization server's database as values, in one transaction.

Rules:
- Codes, tokens, sessions and questions are stored by their digest only: a copy of the database cannot be used.
- A transaction that changes a grant, its codes or its tokens locks the row of the grant first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from typing import Any, TypeVar

from toolwire.auth.grants import CLOCK_SKEW_S, AuthorizationCode, OAuthGrant, Token
from toolwire.stores.database import Rows

_EVENT_STORED_S = 400 * 86_400.0
_CODE_STORED_S = 86_400.0
_MAX_PRUNED = 1_000
_CURRENT = "since <= ? AND until > ?"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantEvent:
    """An event of a grant or a sign-in. ``at`` is in seconds since 1970.

    ``token`` is the start of a digest, never a token.
    """

    # AS-22

    at: float
    kind: str
    user: str = ""
    client_id: str = ""
    grant: str = ""
    token: str = ""


class OAuthRows:
    """The rows of one transaction, as values. ``lock`` ends a statement whose rows stay locked until the end of it."""

    def __init__(self, execute: Callable[[str, tuple[Any, ...]], Rows], lock: str = "") -> None:
        self._execute = execute
        self._lock = lock

    def _run(self, statement: str, *values: Any) -> int:
        """Run ``statement`` and return how many rows it changed."""
        return self._execute(statement, values).rowcount

    def _find(self, statement: str, *values: Any) -> Any:
        """Return the first row that ``statement`` selects, or None."""
        return self._execute(statement, values).fetchone()

    def _list(self, statement: str, *values: Any) -> list[Any]:
        return self._execute(statement, values).fetchall()

    # grants, codes, tokens

    def add(self, record: OAuthGrant | AuthorizationCode | Token | GrantEvent) -> None:
        """Add a record."""
        values = [" ".join(value) if isinstance(value, tuple) else value for value in astuple(record)]
        kind = type(record)
        self._run(f"INSERT INTO {_TABLES[kind]} ({_COLUMNS[kind]}) VALUES ({_write_marks(values)})", *values)

    def find_grant(self, grant_id: str) -> OAuthGrant | None:
        """Return the grant with this id, and lock its row until the end of the transaction."""
        return _read(OAuthGrant, self._find(f"{_SELECT[OAuthGrant]} WHERE id = ?{self._lock}", grant_id))

    def list_grants(self, user: str, client_id: str | None = None) -> list[OAuthGrant]:
        """Return the grants of ``user`` that were not revoked, newest first."""
        rows = self._list(f'{_SELECT[OAuthGrant]} WHERE "user" = ? AND revoked IS NULL ORDER BY created DESC', user)
        grants = [grant for row in rows if (grant := _read(OAuthGrant, row)) is not None]
        return [grant for grant in grants if client_id is None or grant.client_id == client_id]

    def is_revoked(self, user: str, client_id: str) -> bool:
        """Return whether ``user`` had allowed the app ``client_id`` something, and nothing of it is left."""
        own = 'FROM oauth_grants WHERE "user" = ? AND client_id = ?'
        (count, revoked) = self._find(f"SELECT count(*), count(revoked) {own}", user, client_id)
        return bool(count == revoked > 0)

    def list_last_uses(self, user: str) -> dict[str, float]:
        """Return when the newest token of each grant of ``user`` was issued, by the id of the grant."""
        return dict(
            self._list(
                'SELECT "grant", max(since) FROM oauth_tokens WHERE "grant" IN'
                ' (SELECT id FROM oauth_grants WHERE "user" = ?) GROUP BY "grant"',
                user,
            )
        )

    def find_code(self, digest: str) -> AuthorizationCode | None:
        """Return the code with this digest, and lock it and its grant until the end of the transaction."""
        return self._lock_with_grant(AuthorizationCode, digest)

    def find_token(self, digest: str) -> Token | None:
        """Return the token with this digest, and lock it and its grant until the end of the transaction."""
        return self._lock_with_grant(Token, digest)

    def find_token_with_grant(self, digest: str) -> tuple[Token, OAuthGrant] | None:
        """Return a token and its grant without locks."""
        # For the check of each call: a lock would make calls with one grant wait for each other.
        token = _read(Token, self._find(f"{_SELECT[Token]} WHERE digest = ?", digest))
        if token is None:
            return None
        owner = _read(OAuthGrant, self._find(f"{_SELECT[OAuthGrant]} WHERE id = ?", token.grant))
        return None if owner is None else (token, owner)

    def spend_code(self, digest: str, now: float) -> None:
        """Mark a code as used at ``now``, and its grant as one that has tokens."""
        self._run("UPDATE oauth_codes SET used = ? WHERE digest = ?", now, digest)
        owner = 'SELECT "grant" FROM oauth_codes WHERE digest = ?'
        self._run(f"UPDATE oauth_grants SET used = ? WHERE id = ({owner})", True, digest)

    def spend_token(self, digest: str, now: float, *, request: str, sealed: str) -> None:
        """Mark a refresh token as exchanged at ``now`` by ``request``; see ``Token`` for ``sealed``."""
        self._run(
            "UPDATE oauth_tokens SET used = ?, request = ?, sealed = ? WHERE digest = ?", now, request, sealed, digest
        )

    def revoke_grant(self, grant_id: str, now: float) -> None:
        """Revoke a grant and delete its access tokens. Its refresh tokens stay, to detect the use of a stolen one."""
        self._run("UPDATE oauth_grants SET revoked = ? WHERE id = ? AND revoked IS NULL", now, grant_id)
        self._run("DELETE FROM oauth_tokens WHERE \"grant\" = ? AND kind = 'access'", grant_id)

    def delete_token(self, digest: str) -> None:
        """Delete one access token."""
        self._run("DELETE FROM oauth_tokens WHERE digest = ?", digest)

    # clients, and records that end by themselves

    def find_client(self, client_id: str, now: float) -> str | None:
        """Return the record of a registered client, unless its time is over."""
        statement = "SELECT record FROM oauth_clients WHERE id = ? AND (until IS NULL OR until > ?)"
        return _get_first(self._find(statement, client_id, now))

    def add_client(self, client_id: str, record: str, until: float | None) -> None:
        """Store a registered client until the time ``until``; None is for ever."""
        self._run("INSERT INTO oauth_clients VALUES (?, ?, ?)", client_id, record, until)

    def drop_unused_clients(self, most: int) -> None:
        """Delete the oldest clients without a grant, so that ``most`` of them remain."""
        unused = "SELECT id FROM oauth_clients WHERE until IS NOT NULL ORDER BY until DESC LIMIT ? OFFSET ?"
        self._run(f"DELETE FROM oauth_clients WHERE id IN ({unused})", _MAX_PRUNED, most)

    def store_client(self, client_id: str) -> None:
        """Store a client for ever, because a user granted it something."""
        self._run("UPDATE oauth_clients SET until = NULL WHERE id = ?", client_id)

    def save_record(self, digest: str, record: str, *, now: float, until: float) -> bool:
        """Store a text until the time ``until``. Return whether there was none under ``digest``."""
        add = "INSERT INTO oauth_kept VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        if self._run(add, digest, record, now, until):
            return True
        self._run("UPDATE oauth_kept SET record = ?, since = ?, until = ? WHERE digest = ?", record, now, until, digest)
        return False

    def find_record(self, digest: str, now: float) -> str | None:
        """Return the text that is stored under ``digest``, unless its time is over."""
        statement = f"SELECT record FROM oauth_kept WHERE digest = ? AND {_CURRENT}"
        return _get_first(self._find(statement, digest, now + CLOCK_SKEW_S, now))

    def take_record(self, digest: str, now: float) -> str | None:
        """Return the text under ``digest`` and delete it. Of two callers at once, one gets it."""
        record = self.find_record(digest, now)
        # Only the row count tells who deleted the row: on PostgreSQL both callers may have read it.
        return record if self._run("DELETE FROM oauth_kept WHERE digest = ?", digest) == 1 else None

    # users

    def add_user(self, user_id: str, name: str, password: str) -> bool:
        """Add a user. Return False if the name is taken, in upper or lower case."""
        add = "INSERT INTO oauth_users (id, name, folded, password) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        return self._run(add, user_id, name, name.casefold(), password) == 1

    def save_user(self, user_id: str, name: str) -> None:
        """Store a user who signs in elsewhere and has no password here, with the name for pages."""
        # The id stands where a name would: users of an issuer can share a name, and none may take that of an account.
        add = "INSERT INTO oauth_users (id, name, folded, password) VALUES (?, ?, ?, '')"
        self._run(f"{add} ON CONFLICT (id) DO UPDATE SET name = excluded.name", user_id, name, user_id.casefold())

    def find_user_by_name(self, name: str) -> tuple[str, str, str] | None:
        """Return the id, name and password hash of the user called ``name``."""
        row = self._find("SELECT id, name, password FROM oauth_users WHERE folded = ?", name.casefold())
        return None if row is None else (row[0], row[1], row[2])

    def find_user(self, user_id: str, *, has_password: bool) -> tuple[str, str] | None:
        """Return the id and name of a user who has a password here, or who signs in at an issuer and has none."""
        compared = "<>" if has_password else "="
        row = self._find(f"SELECT id, name FROM oauth_users WHERE id = ? AND password {compared} ''", user_id)
        return None if row is None else (row[0], row[1])

    def list_users(self, *, has_password: bool) -> list[tuple[str, str]]:
        """Return the id and name of each user, by name: of those with a password here, or of those of an issuer."""
        compared = "<>" if has_password else "="
        statement = f"SELECT id, name FROM oauth_users WHERE password {compared} '' ORDER BY folded"
        return [(row[0], row[1]) for row in self._list(statement)]

    def remove_user(self, user_id: str) -> None:
        """Delete a user. Their grants and sessions stay: revoke and end them too."""
        self._run("DELETE FROM oauth_users WHERE id = ?", user_id)

    def change_password(self, user_id: str, password: str) -> None:
        """Store a new password hash for a user."""
        self._run("UPDATE oauth_users SET password = ? WHERE id = ?", password, user_id)

    def add_session(self, digest: str, user: str, *, now: float, until: float) -> None:
        """Store the session of a user who signed in."""
        self._run("INSERT INTO oauth_sessions VALUES (?, ?, ?, ?)", digest, user, now, until)

    def find_session(self, digest: str, now: float) -> str | None:
        """Return the id of the user whose session this is, unless its time is over."""
        statement = f'SELECT "user" FROM oauth_sessions WHERE digest = ? AND {_CURRENT}'
        return _get_first(self._find(statement, digest, now + CLOCK_SKEW_S, now))

    def end_session(self, digest: str) -> None:
        """Sign a user out."""
        self._run("DELETE FROM oauth_sessions WHERE digest = ?", digest)

    def end_sessions(self, user: str) -> None:
        """Sign a user out in every browser."""
        self._run('DELETE FROM oauth_sessions WHERE "user" = ?', user)

    def count_attempts(self, key: str, now: float) -> int:
        """Return how many attempts count against ``key`` now."""
        statement = f"SELECT count(*) FROM oauth_attempts WHERE key = ? AND {_CURRENT}"
        return int(self._find(statement, key, now + CLOCK_SKEW_S, now)[0])

    def add_attempt(self, key: str, *, now: float, until: float) -> None:
        """Count an attempt against ``key`` until the time ``until``."""
        self._run("INSERT INTO oauth_attempts (key, since, until) VALUES (?, ?, ?)", key, now, until)

    def clear_attempts(self, key: str) -> None:
        """Delete the attempts that count against ``key``."""
        self._run("DELETE FROM oauth_attempts WHERE key = ?", key)

    def list_events(self, most: int = 1_000) -> list[GrantEvent]:
        """Return the newest ``most`` events, newest first."""
        return [GrantEvent(**_name(GrantEvent, row)) for row in self._list(_LIST_EVENTS, most)]

    def prune(self, now: float) -> None:
        """Delete the rows whose time is over, at most a thousand grants at once."""
        # AS-05, AS-11: used codes and refresh tokens stay for a time, because a second use shows that they were stolen.
        for table in ("oauth_sessions", "oauth_attempts", "oauth_kept", "oauth_clients"):
            self._run(f"DELETE FROM {table} WHERE until < ?", now)
        self._run("DELETE FROM oauth_codes WHERE until < ?", now - _CODE_STORED_S)
        self._run("DELETE FROM oauth_tokens WHERE kind = 'access' AND until < ?", now)
        # The grants are locked first, as in every transaction that changes their tokens, so that no two wait for each
        # other. The limit keeps the transaction short.
        over = f"SELECT id FROM oauth_grants WHERE until < ? OR revoked < ? LIMIT ?{self._lock}"
        ended = [id_ for (id_,) in self._list(over, now, now - _EVENT_STORED_S, _MAX_PRUNED)]
        if ended:
            self._run(f'DELETE FROM oauth_tokens WHERE "grant" IN ({_write_marks(ended)})', *ended)
            self._run(f"DELETE FROM oauth_grants WHERE id IN ({_write_marks(ended)})", *ended)
        self._run("DELETE FROM oauth_events WHERE at < ?", now - _EVENT_STORED_S)

    def _lock_with_grant(self, kind: type[_T], digest: str) -> _T | None:
        """Return the row of a code or token, after locking its grant and it until the end of the transaction."""
        # Every transaction locks the grant first, so that no two wait for each other.
        owner = f'SELECT "grant" FROM {_TABLES[kind]} WHERE digest = ?'
        self._find(f"SELECT id FROM oauth_grants WHERE id = ({owner}){self._lock}", digest)
        return _read(kind, self._find(f"{_SELECT[kind]} WHERE digest = ?{self._lock}", digest))


_TABLES: dict[type, str] = {
    OAuthGrant: "oauth_grants",
    AuthorizationCode: "oauth_codes",
    Token: "oauth_tokens",
    GrantEvent: "oauth_events",
}
# Some names are words of SQL, so that all are in quotes.
_COLUMNS = {kind: ", ".join(f'"{one.name}"' for one in fields(kind)) for kind in _TABLES}
_SELECT = {kind: f"SELECT {_COLUMNS[kind]} FROM {table}" for kind, table in _TABLES.items()}
_LIST_EVENTS = f"{_SELECT[GrantEvent]} ORDER BY id DESC LIMIT ?"


def _name(kind: type, row: Any) -> dict[str, Any]:
    return {one.name: value for one, value in zip(fields(kind), row, strict=True)}


def _read(kind: type[_T], row: Any) -> _T | None:
    """Return the value of a row, or None without a row."""
    if row is None:
        return None
    values = _name(kind, row)
    if "scopes" in values:
        values["scopes"] = tuple(values["scopes"].split())
    if kind is OAuthGrant:
        values["used"] = bool(values["used"])  # SQLite has numbers only
    return kind(**values)


def _get_first(row: Any) -> str | None:
    return None if row is None else str(row[0])


def _write_marks(values: list[Any]) -> str:
    return ", ".join("?" * len(values))
