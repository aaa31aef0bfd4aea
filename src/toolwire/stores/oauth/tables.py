"""Define the tables of the authorization server. ``since`` and ``until`` are in seconds since 1970."""
# ST-04

from __future__ import annotations

from typing import Final

from toolwire.stores.schema import Migration, Schema

# "folded" is the name without case: two names that differ only in case would be one user for people.
# AS-05: a used code stays, because a second use shows that it was stolen.
# "sealed" is the next token, combined with a pad that only this token yields: the table alone reveals neither.
# The "token" of an event is only the beginning of a digest, enough to find related events.
_TABLES = """
CREATE TABLE IF NOT EXISTS oauth_users (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, folded TEXT NOT NULL UNIQUE, password TEXT NOT NULL);;
CREATE TABLE IF NOT EXISTS oauth_sessions (
  digest TEXT PRIMARY KEY, "user" TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL);;
CREATE TABLE IF NOT EXISTS oauth_attempts (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS ix_oauth_attempts_key ON oauth_attempts (key);;
CREATE TABLE IF NOT EXISTS oauth_clients (id TEXT PRIMARY KEY, record TEXT NOT NULL, until REAL);;
CREATE TABLE IF NOT EXISTS oauth_kept (
  digest TEXT PRIMARY KEY, record TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL);;
CREATE TABLE IF NOT EXISTS oauth_grants (
  id TEXT PRIMARY KEY, "user" TEXT NOT NULL, client_id TEXT NOT NULL, client_name TEXT NOT NULL,
  fingerprint TEXT NOT NULL, resource TEXT NOT NULL, scopes TEXT NOT NULL, created REAL NOT NULL,
  until REAL NOT NULL, revoked REAL, used BOOLEAN NOT NULL);;
CREATE INDEX IF NOT EXISTS ix_oauth_grants_user ON oauth_grants ("user");;
CREATE INDEX IF NOT EXISTS oauth_grants_user_client ON oauth_grants ("user", client_id);;
CREATE TABLE IF NOT EXISTS oauth_codes (
  digest TEXT PRIMARY KEY, "grant" TEXT NOT NULL, redirect_uri TEXT NOT NULL, challenge TEXT NOT NULL,
  until REAL NOT NULL, used REAL);;
CREATE TABLE IF NOT EXISTS oauth_tokens (
  digest TEXT PRIMARY KEY, kind TEXT NOT NULL, "grant" TEXT NOT NULL, scopes TEXT NOT NULL,
  since REAL NOT NULL, until REAL NOT NULL, used REAL, request TEXT NOT NULL, sealed TEXT NOT NULL);;
CREATE INDEX IF NOT EXISTS ix_oauth_tokens_grant ON oauth_tokens ("grant");;
CREATE TABLE IF NOT EXISTS oauth_events (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, "user" TEXT NOT NULL, client_id TEXT NOT NULL,
  "grant" TEXT NOT NULL, token TEXT NOT NULL)
"""
OAUTH: Final = Schema("oauth", Migration(_TABLES), is_guest=True)
