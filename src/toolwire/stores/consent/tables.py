"""Define the tables of questions, grants, decisions, levels, sessions and used nonces: each once, for both databases.

In a folder, each kind has a file of its own. In PostgreSQL they are one part, whose users share a connection.
"""
# ST-01, ST-04

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from toolwire.consent.decision_record import build_first_record
from toolwire.stores.database import Database, SharedRows
from toolwire.stores.private_file import check_folder
from toolwire.stores.schema import Migration, Schema

# What belongs to a question has tables of its own, so that an earlier version of the program can use the same place.
_QUESTIONS = """
CREATE TABLE IF NOT EXISTS questions (
  id TEXT PRIMARY KEY, binding TEXT NOT NULL, shown TEXT NOT NULL, always_allowed INTEGER NOT NULL,
  asked_at REAL NOT NULL, expires_at REAL NOT NULL,
  allowed INTEGER, always INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
  used INTEGER NOT NULL DEFAULT 0);;
CREATE INDEX IF NOT EXISTS questions_by_binding ON questions (binding);;
CREATE TABLE IF NOT EXISTS answer_bounds (id TEXT PRIMARY KEY, bounds TEXT NOT NULL);;
CREATE TABLE IF NOT EXISTS answer_deciders (id TEXT PRIMARY KEY, decider TEXT NOT NULL, channel TEXT NOT NULL);;
CREATE TABLE IF NOT EXISTS question_callers (id TEXT PRIMARY KEY, principal TEXT NOT NULL);;
CREATE INDEX IF NOT EXISTS question_callers_by_principal ON question_callers (principal);;
CREATE TABLE IF NOT EXISTS question_calls (
  id TEXT NOT NULL, principal TEXT NOT NULL, call TEXT NOT NULL, PRIMARY KEY (id, call))
"""
# PL-03: the groups that answer a question, as a JSON array.
_APPROVERS = "CREATE TABLE IF NOT EXISTS question_approvers (id TEXT PRIMARY KEY, approvers TEXT NOT NULL)"
# QF-03: the questions whose answer covers later calls only within bounds. An earlier program lets it cover none.
_BOUNDED = "CREATE TABLE IF NOT EXISTS bounded_questions (id TEXT PRIMARY KEY)"
# QF-03: the tools that a permission may cover too, as a JSON array.
_SIMILAR = "CREATE TABLE IF NOT EXISTS question_similar (id TEXT PRIMARY KEY, tools TEXT NOT NULL)"
_GRANTS = """
CREATE TABLE IF NOT EXISTS grants (
  id TEXT PRIMARY KEY, principal TEXT NOT NULL, connection TEXT NOT NULL, origin TEXT NOT NULL, tool TEXT NOT NULL,
  definition TEXT NOT NULL, given_at REAL NOT NULL, expires_at REAL NOT NULL,
  UNIQUE (principal, connection, origin, tool, definition));;
CREATE TABLE IF NOT EXISTS pins (
  principal TEXT NOT NULL, connection TEXT NOT NULL, origin TEXT NOT NULL, tool TEXT NOT NULL, approved TEXT NOT NULL,
  PRIMARY KEY (principal, connection, origin, tool));;
CREATE TABLE IF NOT EXISTS bounded_grants (
  id TEXT PRIMARY KEY, principal TEXT NOT NULL, connection TEXT NOT NULL, origin TEXT NOT NULL, tool TEXT NOT NULL,
  definition TEXT NOT NULL, given_at REAL NOT NULL, expires_at REAL NOT NULL, conditions TEXT, uses_left INTEGER);;
CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), latest REAL NOT NULL);;
CREATE TABLE IF NOT EXISTS held_grants (id TEXT PRIMARY KEY, until REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS grants_by_end ON grants (expires_at);;
CREATE INDEX IF NOT EXISTS bounded_grants_by_end ON bounded_grants (expires_at);;
CREATE INDEX IF NOT EXISTS bounded_grants_by_tool ON bounded_grants (principal, connection, origin, tool, definition)
"""
_GRANT_USES = """
CREATE TABLE IF NOT EXISTS grant_uses (id TEXT PRIMARY KEY, covered INTEGER NOT NULL, last_at REAL NOT NULL)
"""
# Of grants that share their bounds, under what their ids begin with. A sum is a decimal number, which is exact.
_GRANT_SUMS = "CREATE TABLE IF NOT EXISTS grant_sums (id TEXT PRIMARY KEY, total TEXT NOT NULL)"
_ENDED_SESSIONS = """
CREATE TABLE IF NOT EXISTS ended_sessions (
  digest TEXT PRIMARY KEY, owner TEXT NOT NULL, began_at REAL NOT NULL, until REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS ended_sessions_by_owner ON ended_sessions (owner);;
CREATE INDEX IF NOT EXISTS ended_sessions_by_end ON ended_sessions (until)
"""
_AUDIT = """
CREATE TABLE IF NOT EXISTS audit (number INTEGER PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL)
"""
# The triggers stop a program that changes a record by mistake. The chain of digests shows a change that was made
# without them. "begins" has the record that this file goes on from; "sealed" says that another file goes on from this
# one.
_AUDIT_FILE = """
CREATE TRIGGER IF NOT EXISTS audit_is_not_changed BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;;
CREATE TRIGGER IF NOT EXISTS audit_is_not_cut BEFORE DELETE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;;
CREATE TABLE IF NOT EXISTS begins (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER, digest TEXT);;
CREATE TABLE IF NOT EXISTS sealed (number INTEGER PRIMARY KEY);;
CREATE INDEX IF NOT EXISTS audit_by_answerer ON audit (json_extract(record, '$.principal'), number)
  WHERE json_extract(record, '$.channel') = 'inbox'
"""
_SHARED_ONLY = """
CREATE TABLE IF NOT EXISTS levels (
  site TEXT NOT NULL, tool TEXT NOT NULL, level TEXT NOT NULL CHECK (level IN ('per-call', 'deny')),
  PRIMARY KEY (site, tool));;
CREATE TABLE IF NOT EXISTS word_keys (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL);;
CREATE TABLE IF NOT EXISTS spent_words (name TEXT PRIMARY KEY, until REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS spent_words_by_end ON spent_words (until)
"""
_BASE_VERSION: Final = 6
_LOG_BEGINS = build_first_record(0.0)
# What cannot be read, or is too long for an index, is nobody's answer: a record must never be refused for it.
# AT-43: a log is never empty, so that one without any record was emptied. It begins with the tables, and never again.
_POSTGRES = f"""
CREATE OR REPLACE FUNCTION toolwire_keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
DROP TRIGGER IF EXISTS toolwire_audit_is_kept ON toolwire_audit;
CREATE TRIGGER toolwire_audit_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON toolwire_audit
  FOR EACH STATEMENT EXECUTE FUNCTION toolwire_keep_audit();
CREATE OR REPLACE FUNCTION toolwire_find_answerer(record text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF position('"channel": "inbox"' IN record) = 0 THEN
    RETURN NULL;
  END IF;
  BEGIN
    IF record::json->>'channel' = 'inbox' AND length(record::json->>'principal') <= 200 THEN
      RETURN record::json->>'principal';
    END IF;
  EXCEPTION WHEN OTHERS THEN
  END;
  RETURN NULL;
END $$;
CREATE INDEX IF NOT EXISTS toolwire_audit_by_answerer ON toolwire_audit (toolwire_find_answerer(record), number)
  WHERE toolwire_find_answerer(record) IS NOT NULL;
INSERT INTO toolwire_audit
  SELECT 0, '{json.dumps(asdict(_LOG_BEGINS.record))}', '{_LOG_BEGINS.digest}'
  WHERE NOT EXISTS (SELECT FROM toolwire_audit)
  AND NOT EXISTS (SELECT FROM toolwire_schema WHERE part = 'consent' AND version >= 5)
"""  # noqa: S608 - of constants

APPROVALS: Final = Schema(
    "approvals", Migration(_QUESTIONS), migrations=(Migration(_APPROVERS), Migration(_SIMILAR), Migration(_BOUNDED))
)
GRANTS: Final = Schema("grants", Migration(_GRANTS), migrations=(Migration(_GRANT_USES), Migration(_GRANT_SUMS)))
ENDED_SESSIONS: Final = Schema("ended_sessions", Migration(_ENDED_SESSIONS))
AUDIT: Final = Schema("audit", Migration(_AUDIT, sqlite=_AUDIT_FILE))
CONSENT: Final = Schema(
    "consent",
    Migration(";;".join((_QUESTIONS, _GRANTS, _ENDED_SESSIONS, _AUDIT, _SHARED_ONLY)), postgres=_POSTGRES),
    _BASE_VERSION,
    (
        Migration(_GRANT_USES),
        Migration(_APPROVERS),
        Migration(_SIMILAR),
        Migration(_GRANT_SUMS),
        Migration(_BOUNDED),
    ),
)
"""All of these in PostgreSQL. 1.0.0rc1 made version 1 of it."""


def open_consent_file(place: Path | SharedRows, schema: Schema) -> SharedRows:
    """Return the tables of ``schema`` in a folder, in the file of that name; other rows are returned as they are.

    Raises:
        DefinitionError: another user of the machine can write there, or the file cannot be used.
    """
    if not isinstance(place, Path):
        return place
    file = place / f"{schema.name}.sqlite3"
    check_folder(place, file.name)
    return Database(file, schema)
