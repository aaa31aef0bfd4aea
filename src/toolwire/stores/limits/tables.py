"""Define the table of the calls that count for rate limits."""
# ST-04, XL-066

from __future__ import annotations

from typing import Final

from toolwire.stores.schema import Migration, Schema

RATES_FILE: Final = "rates.sqlite3"
_TAKEN = """
CREATE TABLE IF NOT EXISTS taken (key TEXT NOT NULL, at REAL NOT NULL);;
CREATE INDEX IF NOT EXISTS taken_by_key ON taken (key, at)
"""
# One function, so that a call costs one round trip. The advisory lock lets one transaction count for a key at a time:
# otherwise two could both see the last free place. Rows from the future were written before the clock of the database
# was set back.
_TAKE_CALL = """
CREATE OR REPLACE FUNCTION toolwire_take_call(taken text, most bigint, window_s double precision)
  RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE now_s double precision; held bigint; first double precision;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(taken, 1953460078));
  now_s := extract(epoch FROM clock_timestamp());
  DELETE FROM toolwire_taken WHERE key = taken AND (at <= now_s - window_s OR at > now_s + 1);
  SELECT count(*), min(at) INTO held, first FROM toolwire_taken WHERE key = taken;
  IF held >= most THEN
    RETURN greatest(first + window_s - now_s, 1e-9);
  END IF;
  INSERT INTO toolwire_taken VALUES (taken, now_s);
  RETURN 0;
END $$
"""
RATES: Final = Schema("rates", Migration(_TAKEN, postgres=_TAKE_CALL))
