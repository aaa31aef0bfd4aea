"""Define the tables of questions, grants, decisions, levels and used words in PostgreSQL, where machines share them."""
# ST-01, ST-04

from __future__ import annotations

import json
from dataclasses import asdict

from toolwire.consent.decision_record import build_first_record
from toolwire.stores.postgres import Migration

PART = "consent"
"""The name of this part of the schema."""

_LOG_BEGINS = build_first_record(0.0)

MIGRATIONS = (
    Migration(
        """
CREATE TABLE toolwire_questions (
  id text PRIMARY KEY, binding text NOT NULL, shown text NOT NULL, always_allowed integer NOT NULL,
  asked_at double precision NOT NULL, expires_at double precision NOT NULL,
  allowed integer, always integer NOT NULL DEFAULT 0, reason text NOT NULL DEFAULT '',
  used integer NOT NULL DEFAULT 0);
CREATE INDEX toolwire_questions_by_binding ON toolwire_questions (binding);
CREATE TABLE toolwire_answer_bounds (id text PRIMARY KEY, bounds text NOT NULL);
CREATE TABLE toolwire_grants (
  id text PRIMARY KEY, principal text NOT NULL, connection text NOT NULL, origin text NOT NULL, tool text NOT NULL,
  definition text NOT NULL, given_at double precision NOT NULL, expires_at double precision NOT NULL,
  UNIQUE (principal, connection, origin, tool, definition));
CREATE TABLE toolwire_pins (
  principal text NOT NULL, connection text NOT NULL, origin text NOT NULL, tool text NOT NULL, approved text NOT NULL,
  PRIMARY KEY (principal, connection, origin, tool));
CREATE TABLE toolwire_bounded_grants (
  id text PRIMARY KEY, principal text NOT NULL, connection text NOT NULL, origin text NOT NULL, tool text NOT NULL,
  definition text NOT NULL, given_at double precision NOT NULL, expires_at double precision NOT NULL,
  conditions text, uses_left bigint);
CREATE INDEX toolwire_bounded_grants_by_tool
  ON toolwire_bounded_grants (principal, connection, origin, tool, definition);
CREATE TABLE toolwire_clock (one integer PRIMARY KEY CHECK (one = 1), latest double precision NOT NULL);
CREATE TABLE toolwire_audit (number bigint PRIMARY KEY, record text NOT NULL, digest text NOT NULL);
CREATE FUNCTION toolwire_keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
CREATE TRIGGER toolwire_audit_is_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON toolwire_audit
  FOR EACH STATEMENT EXECUTE FUNCTION toolwire_keep_audit();
CREATE TABLE toolwire_levels (
  site text NOT NULL, tool text NOT NULL, level text NOT NULL CHECK (level IN ('per-call', 'deny')),
  PRIMARY KEY (site, tool));
CREATE TABLE toolwire_word_keys (one integer PRIMARY KEY CHECK (one = 1), key bytea NOT NULL);
CREATE TABLE toolwire_spent_words (name text PRIMARY KEY, until double precision NOT NULL);
CREATE INDEX toolwire_spent_words_by_end ON toolwire_spent_words (until)
"""
    ),
    Migration(
        """
CREATE TABLE toolwire_question_callers (id text PRIMARY KEY, principal text NOT NULL);
CREATE INDEX toolwire_question_callers_by_principal ON toolwire_question_callers (principal);
CREATE TABLE toolwire_question_calls (
  id text NOT NULL, principal text NOT NULL, call text NOT NULL, PRIMARY KEY (id, call))
"""
    ),
    # What cannot be read, or is too long for an index, is nobody's answer: a record must never be refused for it.
    Migration(
        """
CREATE TABLE toolwire_ended_sessions (
  digest text PRIMARY KEY, owner text NOT NULL, began_at double precision NOT NULL, until double precision NOT NULL);
CREATE INDEX toolwire_ended_sessions_by_owner ON toolwire_ended_sessions (owner);
CREATE INDEX toolwire_ended_sessions_by_end ON toolwire_ended_sessions (until);
CREATE FUNCTION toolwire_find_answerer(record text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
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
CREATE INDEX toolwire_audit_by_answerer ON toolwire_audit (toolwire_find_answerer(record), number)
  WHERE toolwire_find_answerer(record) IS NOT NULL
"""
    ),
    # RE-01: what was allowed before the clock was set back is kept, and not used.
    Migration(
        """
CREATE TABLE toolwire_held_grants (id text PRIMARY KEY, until double precision NOT NULL);
CREATE INDEX toolwire_grants_by_end ON toolwire_grants (expires_at);
CREATE INDEX toolwire_bounded_grants_by_end ON toolwire_bounded_grants (expires_at)
"""
    ),
    # AT-43: a log is never empty, so that one without any record was emptied.
    Migration(
        f"""
INSERT INTO toolwire_audit
  SELECT 0, '{json.dumps(asdict(_LOG_BEGINS.record))}', '{_LOG_BEGINS.digest}'
  WHERE NOT EXISTS (SELECT 1 FROM toolwire_audit)
"""  # noqa: S608 - of constants
    ),
    Migration(
        """
CREATE TABLE toolwire_answer_deciders (id text PRIMARY KEY, decider text NOT NULL, channel text NOT NULL)
"""
    ),
)
