"""Define the tables of MCP sessions, in a file of SQLite and in PostgreSQL."""
# ST-01, ST-04

from __future__ import annotations

PART = "sessions"
"""The name of this part of the schema."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
  key BLOB PRIMARY KEY, owner TEXT NOT NULL, share TEXT NOT NULL, capabilities TEXT NOT NULL, log_level TEXT NOT NULL,
  watched TEXT NOT NULL, told TEXT NOT NULL, began_at REAL NOT NULL, used_at REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS sessions_by_share ON sessions (share, used_at);;
CREATE INDEX IF NOT EXISTS sessions_by_use ON sessions (used_at);;
CREATE TABLE IF NOT EXISTS session_messages (
  number INTEGER PRIMARY KEY AUTOINCREMENT, session BLOB NOT NULL, node TEXT NOT NULL, kind TEXT NOT NULL,
  name TEXT NOT NULL, body BLOB NOT NULL, sent_at REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS session_messages_by_session ON session_messages (session);;
CREATE TABLE IF NOT EXISTS session_updates (uri TEXT PRIMARY KEY, number INTEGER NOT NULL);;
CREATE INDEX IF NOT EXISTS session_updates_by_number ON session_updates (number)
"""
"""The tables in SQLite."""

STATEMENTS = (
    """
CREATE TABLE toolwire_sessions (
  key bytea PRIMARY KEY, owner text NOT NULL, share text NOT NULL, capabilities text NOT NULL, log_level text NOT NULL,
  watched text NOT NULL, told text NOT NULL, began_at double precision NOT NULL, used_at double precision NOT NULL);
CREATE INDEX toolwire_sessions_by_share ON toolwire_sessions (share, used_at);
CREATE INDEX toolwire_sessions_by_use ON toolwire_sessions (used_at);
CREATE TABLE toolwire_session_messages (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session bytea NOT NULL, node text NOT NULL,
  kind text NOT NULL, name text NOT NULL, body bytea NOT NULL, sent_at double precision NOT NULL);
CREATE INDEX toolwire_session_messages_by_session ON toolwire_session_messages (session);
CREATE TABLE toolwire_session_updates (uri text PRIMARY KEY, number bigint NOT NULL);
CREATE INDEX toolwire_session_updates_by_number ON toolwire_session_updates (number)
""",
)
"""The statements of each version in PostgreSQL; ``open_sessions`` makes migrations of them."""
