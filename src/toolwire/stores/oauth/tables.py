"""Define the tables of the authorization server. ``since`` and ``until`` are in seconds since 1970."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

METADATA = MetaData()
_DIGEST = String(64)

USERS = Table(
    "oauth_users",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("name", String(200), nullable=False),
    # The name without case: two names that differ only in case would be one user for people.
    Column("folded", Text, nullable=False, unique=True),
    Column("password", Text, nullable=False),
)
SESSIONS = Table(
    "oauth_sessions",
    METADATA,
    Column("digest", _DIGEST, primary_key=True),
    Column("user", String(200), nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float, nullable=False),
)
ATTEMPTS = Table(
    "oauth_attempts",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", _DIGEST, nullable=False, index=True),
    Column("since", Float, nullable=False),
    Column("until", Float, nullable=False),
)
CLIENTS = Table(
    "oauth_clients",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("record", Text, nullable=False),
    Column("until", Float),
)
RECORDS = Table(
    "oauth_kept",
    METADATA,
    Column("digest", _DIGEST, primary_key=True),
    Column("record", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float, nullable=False),
)
GRANTS = Table(
    "oauth_grants",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("user", String(200), nullable=False, index=True),
    Column("client_id", Text, nullable=False),
    Column("client_name", Text, nullable=False),
    Column("fingerprint", _DIGEST, nullable=False),
    Column("resource", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("until", Float, nullable=False),
    Column("revoked", Float),
    Column("used", Boolean, nullable=False),
)
CODES = Table(
    "oauth_codes",
    METADATA,
    Column("digest", _DIGEST, primary_key=True),
    Column("grant", String(64), nullable=False),
    Column("redirect_uri", Text, nullable=False),
    Column("challenge", String(128), nullable=False),
    Column("until", Float, nullable=False),
    # AS-05: a used code stays, because a second use shows that it was stolen.
    Column("used", Float),
)
TOKENS = Table(
    "oauth_tokens",
    METADATA,
    Column("digest", _DIGEST, primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("grant", String(64), nullable=False, index=True),
    Column("scopes", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("until", Float, nullable=False),
    Column("used", Float),
    Column("request", _DIGEST, nullable=False),
    # The next token, combined with a pad that only this token yields: the table alone reveals neither.
    Column("sealed", String(100), nullable=False),
)
EVENTS = Table(
    "oauth_events",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("user", String(200), nullable=False),
    Column("client_id", Text, nullable=False),
    Column("grant", String(64), nullable=False),
    # Only the beginning of a digest, enough to find related events.
    Column("token", String(16), nullable=False),
)
Index("oauth_grants_user_client", GRANTS.c.user, GRANTS.c.client_id)
