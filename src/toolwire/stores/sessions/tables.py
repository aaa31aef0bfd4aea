"""Define the tables of MCP sessions."""
# ST-01, ST-04

from __future__ import annotations

from typing import Final

from toolwire.stores.schema import Migration, Schema

_TABLES = """
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
CREATE INDEX IF NOT EXISTS session_updates_by_number ON session_updates (number);;
CREATE INDEX IF NOT EXISTS sessions_by_begin ON sessions (began_at);;
CREATE INDEX IF NOT EXISTS session_messages_by_time ON session_messages (sent_at);;
CREATE TABLE IF NOT EXISTS session_total (rows INTEGER NOT NULL)
"""
# GR-06: to open a session counts none of the others. Triggers count them, so that programs of the first version do too.
_TOTAL = """
INSERT INTO session_total SELECT (SELECT count(*) FROM sessions) WHERE NOT EXISTS (SELECT 1 FROM session_total);;
CREATE TRIGGER IF NOT EXISTS session_is_added AFTER INSERT ON sessions
  BEGIN UPDATE session_total SET rows = rows + 1; END;;
CREATE TRIGGER IF NOT EXISTS session_is_gone AFTER DELETE ON sessions
  BEGIN UPDATE session_total SET rows = rows - 1; END
"""
_TOTAL_IN_POSTGRES = """
LOCK TABLE toolwire_sessions IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO toolwire_session_total
  SELECT (SELECT count(*) FROM toolwire_sessions) WHERE NOT EXISTS (SELECT FROM toolwire_session_total);
CREATE OR REPLACE FUNCTION toolwire_count_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE toolwire_session_total SET rows = rows + CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS toolwire_session_is_counted ON toolwire_sessions;
CREATE TRIGGER toolwire_session_is_counted AFTER INSERT OR DELETE ON toolwire_sessions
  FOR EACH ROW EXECUTE FUNCTION toolwire_count_session()
"""
# QF-10: the key is a digest of a handle and its caller, so that who reads the table cannot use it.
_RESULTS = """
CREATE TABLE IF NOT EXISTS kept_results (
  key BLOB PRIMARY KEY, body BLOB NOT NULL, size INTEGER NOT NULL, kept_at REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS kept_results_by_time ON kept_results (kept_at)
"""
SESSIONS: Final = Schema(
    "sessions",
    Migration(_TABLES, _TOTAL, _TOTAL_IN_POSTGRES),
    base_version=2,
    migrations=(Migration(_RESULTS),),
)
