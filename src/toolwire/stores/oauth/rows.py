"""Read and write the rows of the authorization server's database as values, in one transaction.

Rules:
- Codes, tokens, sessions and questions are stored by their digest only: a copy of the database cannot be used.
- A transaction that changes a grant, its codes or its tokens locks the row of the grant first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from toolwire.auth.grants import CLOCK_SKEW_S, AuthorizationCode, Grant, Token

from .tables import ATTEMPTS, CLIENTS, CODES, EVENTS, GRANTS, RECORDS, SESSIONS, TOKENS, USERS

_EVENT_KEPT_S = 400 * 86_400.0
_CODE_KEPT_S = 86_400.0
_MAX_PRUNED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantEvent:
    """An event in the life of a grant or a sign-in. ``token`` is the beginning of a digest, never a token.

    ``at`` is in seconds since 1970.
    """

    # AS-22

    at: float
    kind: str
    user: str = ""
    client_id: str = ""
    grant: str = ""
    token: str = ""


class OAuthRows:
    """The rows of one transaction, as values."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # grants, codes, tokens

    def add(self, record: Grant | AuthorizationCode | Token | GrantEvent) -> None:
        """Add a record."""
        table = _TABLES[type(record)]
        self._connection.execute(insert(table).values(_to_columns(asdict(record))))

    def find_grant(self, grant_id: str) -> Grant | None:
        """Return the grant with this id, and lock its row until the end of the transaction."""
        row = self._lock_row(GRANTS, GRANTS.c.id == grant_id)
        return None if row is None else _read_grant(row)

    def list_grants(self, user: str, client_id: str | None = None) -> list[Grant]:
        """Return the grants of ``user`` that were not revoked, newest first."""
        query = select(GRANTS).where(GRANTS.c.user == user, GRANTS.c.revoked.is_(None))
        if client_id is not None:
            query = query.where(GRANTS.c.client_id == client_id)
        rows = self._connection.execute(query.order_by(GRANTS.c.created.desc())).mappings()
        return [_read_grant(dict(row)) for row in rows]

    def list_last_uses(self, user: str) -> dict[str, float]:
        """Return when the newest token of each grant of ``user`` was issued, by the id of the grant."""
        query = (
            select(TOKENS.c.grant, func.max(TOKENS.c.since))
            .join(GRANTS, GRANTS.c.id == TOKENS.c.grant)
            .where(GRANTS.c.user == user)
            .group_by(TOKENS.c.grant)
        )
        return {grant: float(since) for grant, since in self._connection.execute(query)}

    def find_code(self, digest: str) -> AuthorizationCode | None:
        """Return the code with this digest, and lock it and its grant until the end of the transaction."""
        row = self._lock_with_grant(CODES, digest)
        return None if row is None else AuthorizationCode(**row)

    def find_token(self, digest: str) -> Token | None:
        """Return the token with this digest, and lock it and its grant until the end of the transaction."""
        row = self._lock_with_grant(TOKENS, digest)
        return None if row is None else _read_token(row)

    def find_token_with_grant(self, digest: str) -> tuple[Token, Grant] | None:
        """Return a token and its grant without locks."""
        # For the check of each call: a lock would make calls with one grant wait for each other.
        row = self._connection.execute(select(TOKENS).where(TOKENS.c.digest == digest)).mappings().first()
        if row is None:
            return None
        token = _read_token(dict(row))
        owner = self._connection.execute(select(GRANTS).where(GRANTS.c.id == token.grant)).mappings().first()
        return None if owner is None else (token, _read_grant(dict(owner)))

    def spend_code(self, digest: str, now: float) -> None:
        """Mark a code as used at ``now``, and its grant as one that has tokens."""
        self._connection.execute(update(CODES).where(CODES.c.digest == digest).values(used=now))
        owner = select(CODES.c.grant).where(CODES.c.digest == digest).scalar_subquery()
        self._connection.execute(update(GRANTS).where(GRANTS.c.id == owner).values(used=True))

    def spend_token(self, digest: str, now: float, *, request: str, sealed: str) -> None:
        """Mark a refresh token as exchanged at ``now`` by ``request``; see ``Token`` for ``sealed``."""
        change = update(TOKENS).where(TOKENS.c.digest == digest).values(used=now, request=request, sealed=sealed)
        self._connection.execute(change)

    def revoke_grant(self, grant_id: str, now: float) -> None:
        """Revoke a grant and delete its access tokens. Its refresh tokens stay, to detect the use of a stolen one."""
        change = update(GRANTS).where(GRANTS.c.id == grant_id, GRANTS.c.revoked.is_(None)).values(revoked=now)
        self._connection.execute(change)
        self._connection.execute(delete(TOKENS).where(TOKENS.c.grant == grant_id, TOKENS.c.kind == "access"))

    def delete_token(self, digest: str) -> None:
        """Delete one access token."""
        self._connection.execute(delete(TOKENS).where(TOKENS.c.digest == digest))

    # clients, and records that end by themselves

    def find_client(self, client_id: str, now: float) -> str | None:
        """Return the record of a registered client, unless its time is over."""
        found = select(CLIENTS.c.record).where(CLIENTS.c.id == client_id)
        return self._connection.scalar(found.where(or_(CLIENTS.c.until.is_(None), CLIENTS.c.until > now)))

    def add_client(self, client_id: str, record: str, until: float | None) -> None:
        """Store a registered client until the time ``until``; None is for ever."""
        self._connection.execute(insert(CLIENTS).values(id=client_id, record=record, until=until))

    def drop_unused_clients(self, most: int) -> None:
        """Delete the oldest clients without a grant, so that ``most`` of them remain."""
        unused = select(CLIENTS.c.id).where(CLIENTS.c.until.is_not(None)).order_by(CLIENTS.c.until.desc())
        self._connection.execute(delete(CLIENTS).where(CLIENTS.c.id.in_(unused.offset(most).limit(_MAX_PRUNED))))

    def keep_client(self, client_id: str) -> None:
        """Store a client for ever, because a user granted it something."""
        self._connection.execute(update(CLIENTS).where(CLIENTS.c.id == client_id).values(until=None))

    def save_record(self, digest: str, record: str, *, now: float, until: float) -> bool:
        """Store a text until the time ``until``. Return whether there was none under ``digest``."""
        values = {"record": record, "since": now, "until": until}
        if self._insert_new(RECORDS, {"digest": digest, **values}):
            return True
        self._connection.execute(update(RECORDS).where(RECORDS.c.digest == digest).values(values))
        return False

    def find_record(self, digest: str, now: float) -> str | None:
        """Return the text that is stored under ``digest``, unless its time is over."""
        query = select(RECORDS.c.record).where(RECORDS.c.digest == digest, *_select_current(RECORDS, now))
        return self._connection.scalar(query)

    def take_record(self, digest: str, now: float) -> str | None:
        """Return the text under ``digest`` and delete it. Of two callers at once, one gets it."""
        record = self.find_record(digest, now)
        # Only the row count tells who deleted the row: on PostgreSQL both callers may have read it.
        gone = self._connection.execute(delete(RECORDS).where(RECORDS.c.digest == digest)).rowcount
        return record if gone == 1 else None

    # users

    def add_user(self, user_id: str, name: str, password: str) -> bool:
        """Add a user. Return False if the name is taken, in upper or lower case."""
        row = {"id": user_id, "name": name, "folded": name.casefold(), "password": password}
        return self._insert_new(USERS, row)

    def find_user_by_name(self, name: str) -> tuple[str, str, str] | None:
        """Return the id, name and password hash of the user called ``name``."""
        row = self._connection.execute(select(USERS).where(USERS.c.folded == name.casefold())).first()
        return None if row is None else (row.id, row.name, row.password)

    def find_user(self, user_id: str) -> tuple[str, str] | None:
        """Return the id and name of a user."""
        row = self._connection.execute(select(USERS.c.id, USERS.c.name).where(USERS.c.id == user_id)).first()
        return None if row is None else (row.id, row.name)

    def list_users(self) -> list[tuple[str, str]]:
        """Return the id and name of each user, by name."""
        rows = self._connection.execute(select(USERS.c.id, USERS.c.name).order_by(USERS.c.folded))
        return [(row.id, row.name) for row in rows]

    def remove_user(self, user_id: str) -> None:
        """Delete a user. Their grants and sessions stay: revoke and end them too."""
        self._connection.execute(delete(USERS).where(USERS.c.id == user_id))

    def change_password(self, user_id: str, password: str) -> None:
        """Store a new password hash for a user."""
        self._connection.execute(update(USERS).where(USERS.c.id == user_id).values(password=password))

    def add_session(self, digest: str, user: str, *, now: float, until: float) -> None:
        """Store the session of a user who signed in."""
        self._connection.execute(insert(SESSIONS).values(digest=digest, user=user, since=now, until=until))

    def find_session(self, digest: str, now: float) -> str | None:
        """Return the id of the user whose session this is, unless its time is over."""
        query = select(SESSIONS.c.user).where(SESSIONS.c.digest == digest, *_select_current(SESSIONS, now))
        return self._connection.scalar(query)

    def end_session(self, digest: str) -> None:
        """Sign a user out."""
        self._connection.execute(delete(SESSIONS).where(SESSIONS.c.digest == digest))

    def end_sessions(self, user: str) -> None:
        """Sign a user out in every browser."""
        self._connection.execute(delete(SESSIONS).where(SESSIONS.c.user == user))

    def count_attempts(self, key: str, now: float) -> int:
        """Return how many attempts count against ``key`` now."""
        condition = (ATTEMPTS.c.key == key, *_select_current(ATTEMPTS, now))
        return self._connection.scalar(select(func.count()).select_from(ATTEMPTS).where(*condition)) or 0

    def add_attempt(self, key: str, *, now: float, until: float) -> None:
        """Count an attempt against ``key`` until the time ``until``."""
        self._connection.execute(insert(ATTEMPTS).values(key=key, since=now, until=until))

    def clear_attempts(self, key: str) -> None:
        """Delete the attempts that count against ``key``."""
        self._connection.execute(delete(ATTEMPTS).where(ATTEMPTS.c.key == key))

    def list_events(self, most: int = 1_000) -> list[GrantEvent]:
        """Return the newest ``most`` events, newest first."""
        rows = self._connection.execute(select(EVENTS).order_by(EVENTS.c.id.desc()).limit(most)).mappings()
        return [GrantEvent(**{str(name): value for name, value in row.items() if name != "id"}) for row in rows]

    def prune(self, now: float) -> None:
        """Delete the rows whose time is over, at most a thousand grants at once."""
        # AS-05, AS-11: used codes and refresh tokens stay for a time, because a second use shows that they were stolen.
        for table in (SESSIONS, ATTEMPTS, RECORDS, CLIENTS):
            self._connection.execute(delete(table).where(table.c.until < now))
        self._connection.execute(delete(CODES).where(CODES.c.until < now - _CODE_KEPT_S))
        self._connection.execute(delete(TOKENS).where(TOKENS.c.kind == "access", TOKENS.c.until < now))
        over = or_(GRANTS.c.until < now, GRANTS.c.revoked < now - _EVENT_KEPT_S)
        # The grants are locked first, as in every transaction that changes their tokens, so that no two wait for each
        # other. The limit keeps the transaction short.
        ended = self._connection.scalars(select(GRANTS.c.id).where(over).limit(_MAX_PRUNED).with_for_update()).all()
        self._connection.execute(delete(TOKENS).where(TOKENS.c.grant.in_(ended)))
        self._connection.execute(delete(GRANTS).where(GRANTS.c.id.in_(ended)))
        self._connection.execute(delete(EVENTS).where(EVENTS.c.at < now - _EVENT_KEPT_S))

    def _insert_new(self, table: Table, row: dict[str, Any]) -> bool:
        """Insert ``row``. Return False if its key is there already."""
        try:
            # A savepoint, because PostgreSQL ends a transaction at its first error.
            with self._connection.begin_nested():
                self._connection.execute(insert(table).values(row))
        except IntegrityError:
            return False
        return True

    def _lock_with_grant(self, table: Table, digest: str) -> dict[str, Any] | None:
        """Return the row of a code or token, after locking its grant and it until the end of the transaction."""
        # Every transaction locks the grant first, so that no two wait for each other.
        owner = select(table.c.grant).where(table.c.digest == digest).scalar_subquery()
        self._lock_row(GRANTS, GRANTS.c.id == owner)
        return self._lock_row(table, table.c.digest == digest)

    def _lock_row(self, table: Table, condition: Any) -> dict[str, Any] | None:
        row = self._connection.execute(select(table).where(condition).with_for_update()).mappings().first()
        return None if row is None else {str(name): value for name, value in row.items()}


def _select_current(table: Table, now: float) -> tuple[Any, Any]:
    """Return the conditions that select the rows of ``table`` that are valid at ``now``; see ``auth.grants``."""
    # A row from the future was written before the clock was set back, and would be valid for too long.
    return table.c.since <= now + CLOCK_SKEW_S, table.c.until > now


_TABLES: dict[type, Table] = {Grant: GRANTS, AuthorizationCode: CODES, Token: TOKENS, GrantEvent: EVENTS}


def _to_columns(values: dict[str, Any]) -> dict[str, Any]:
    return {name: " ".join(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _read_grant(row: dict[Any, Any]) -> Grant:
    row["scopes"] = _scopes(row["scopes"])
    return Grant(**row)


def _read_token(row: dict[Any, Any]) -> Token:
    row["scopes"] = _scopes(row["scopes"])
    return Token(**row)


def _scopes(text: str) -> tuple[str, ...]:
    return tuple(text.split())
