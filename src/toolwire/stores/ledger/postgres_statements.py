"""Write the statements of a ledger in PostgreSQL, such as those that change many calls at once.

Rules:
- Each change names the session of its owner and locks the owner's row. A process that connects again begins a new
  session first, so a statement of its lost connection that arrives later changes nothing.
- Time is the database's: ``toolwire_now()``, which only goes forward. ``toolwire_wall()`` is its time of day.
"""

from __future__ import annotations

from .statements import LedgerStatements

LOCK = " FOR UPDATE"
POSTGRES = LedgerStatements(
    lock=LOCK,
    skip_locked=f"{LOCK} SKIP LOCKED",
    next_number="nextval(pg_get_serial_sequence('toolwire_calls', 'number'))",
)
BEGIN_SESSION = (
    "INSERT INTO toolwire_owners VALUES (%s, %s, toolwire_now() + %s)"
    " ON CONFLICT (owner) DO UPDATE SET session = excluded.session, until = excluded.until RETURNING toolwire_now()"
)
RENEW_LEASE = "UPDATE toolwire_owners SET until = toolwire_now() + %s WHERE owner = %s AND session = %s"
END_LEASE = "DELETE FROM toolwire_owners WHERE owner = %s AND session = %s"
LOCK_SESSION = "SELECT toolwire_now(), toolwire_wall() FROM toolwire_owners WHERE owner = %s AND session = %s FOR SHARE"
FIND_LEASES = "SELECT owner, until FROM toolwire_owners WHERE owner IN (%s, %s)"
FIND_OWN = "SELECT principal, tool, call_id, attempt FROM toolwire_calls WHERE owner = %s AND until IS NULL"
FORGET_OWNERS = (
    "DELETE FROM toolwire_owners WHERE owner IN (SELECT owner FROM toolwire_owners o WHERE until < %s"
    " AND NOT EXISTS (SELECT FROM toolwire_calls c WHERE c.owner = o.owner AND c.until IS NULL) LIMIT 64"
    " FOR UPDATE SKIP LOCKED)"
)
_OWN_SESSION = "WITH mine AS MATERIALIZED (SELECT 1 FROM toolwire_owners WHERE owner = %s AND session = %s FOR SHARE)"
ADD_ALL = (
    f"{_OWN_SESSION} INSERT INTO toolwire_calls"
    " (principal, tool, call_id, fingerprint, state, rerun, pinned, owner, attempt, bytes)"
    " SELECT principal, tool, call_id, fingerprint, 'running', rerun, false, %s, 1, bytes FROM mine,"
    " unnest(%s::text[], %s::text[], %s::text[], %s::bytea[], %s::boolean[], %s::bigint[])"
    " AS new (principal, tool, call_id, fingerprint, rerun, bytes)"
    " ON CONFLICT DO NOTHING RETURNING principal, tool, call_id"
)
"""Add new calls, in the order of their keys, so that no two processes wait for each other."""
FINISH_ALL = (
    "WITH mine AS MATERIALIZED"
    " (SELECT toolwire_now() AS now FROM toolwire_owners WHERE owner = %s AND session = %s FOR SHARE)"
    " UPDATE toolwire_calls c SET state = ended.state, pinned = ended.pinned, answer = ended.answer,"
    " bytes = c.bytes - coalesce(length(c.answer), 0) + length(ended.answer), until = mine.now + %s FROM mine,"
    " unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::boolean[], %s::bytea[])"
    " AS ended (principal, tool, call_id, attempt, state, pinned, answer)"
    " WHERE c.principal = ended.principal AND c.tool = ended.tool AND c.call_id = ended.call_id"
    " AND c.owner = %s AND c.attempt = ended.attempt AND c.until IS NULL"
)
