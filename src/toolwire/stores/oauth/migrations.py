"""Define the versions of the authorization server's tables in PostgreSQL. The last is what ``tables.py`` has."""
# ST-04

from __future__ import annotations

from toolwire.stores.postgres import Migration

# IF NOT EXISTS: programs before the first version made these tables without one.
MIGRATIONS = (
    Migration(
        """
CREATE TABLE IF NOT EXISTS oauth_attempts (
  id serial PRIMARY KEY, key varchar(64) NOT NULL, since float NOT NULL, until float NOT NULL);
CREATE INDEX IF NOT EXISTS ix_oauth_attempts_key ON oauth_attempts (key);
CREATE TABLE IF NOT EXISTS oauth_clients (id text PRIMARY KEY, record text NOT NULL, until float);
CREATE TABLE IF NOT EXISTS oauth_codes (
  digest varchar(64) PRIMARY KEY, "grant" varchar(64) NOT NULL, redirect_uri text NOT NULL,
  challenge varchar(128) NOT NULL, until float NOT NULL, used float);
CREATE TABLE IF NOT EXISTS oauth_events (
  id serial PRIMARY KEY, at float NOT NULL, kind varchar(40) NOT NULL, "user" varchar(200) NOT NULL,
  client_id text NOT NULL, "grant" varchar(64) NOT NULL, token varchar(16) NOT NULL);
CREATE TABLE IF NOT EXISTS oauth_grants (
  id varchar(64) PRIMARY KEY, "user" varchar(200) NOT NULL, client_id text NOT NULL, client_name text NOT NULL,
  fingerprint varchar(64) NOT NULL, resource text NOT NULL, scopes text NOT NULL, created float NOT NULL,
  until float NOT NULL, revoked float, used boolean NOT NULL);
CREATE INDEX IF NOT EXISTS ix_oauth_grants_user ON oauth_grants ("user");
CREATE INDEX IF NOT EXISTS oauth_grants_user_client ON oauth_grants ("user", client_id);
CREATE TABLE IF NOT EXISTS oauth_kept (
  digest varchar(64) PRIMARY KEY, record text NOT NULL, since float NOT NULL, until float NOT NULL);
CREATE TABLE IF NOT EXISTS oauth_sessions (
  digest varchar(64) PRIMARY KEY, "user" varchar(200) NOT NULL, since float NOT NULL, until float NOT NULL);
CREATE TABLE IF NOT EXISTS oauth_tokens (
  digest varchar(64) PRIMARY KEY, kind varchar(10) NOT NULL, "grant" varchar(64) NOT NULL, scopes text NOT NULL,
  since float NOT NULL, until float NOT NULL, used float, request varchar(64) NOT NULL, sealed varchar(100) NOT NULL);
CREATE INDEX IF NOT EXISTS ix_oauth_tokens_grant ON oauth_tokens ("grant");
CREATE TABLE IF NOT EXISTS oauth_users (
  id varchar(64) PRIMARY KEY, name varchar(200) NOT NULL, folded text NOT NULL UNIQUE, password text NOT NULL)
"""
    ),
)
