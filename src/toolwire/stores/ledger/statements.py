"""Write the statements of a ledger in the words of SQLite, which ``PostgresCursor`` translates."""

from __future__ import annotations

from typing import NamedTuple

AGE = "SELECT boot, clock, age FROM age"
FORGET_AGE = "DELETE FROM age"
SAVE_AGE = "INSERT INTO age VALUES (?, ?, ?)"


class StoredCall(NamedTuple):
    """A row, as ``find`` finds it."""

    number: int
    fingerprint: bytes
    state: str
    owner: int
    pinned: int
    attempt: int
    size: int
    until: float | None
    answer: bytes | None


class LedgerStatements:
    """Every statement that claims and settles the calls of a ledger one by one, or counts them.

    ``lock`` ends a statement whose row is kept from others until the commit, and ``skip_locked`` one that leaves out
    the rows of others. ``next_number`` is the number of a call that begins now.
    """

    def __init__(self, *, lock: str = "", skip_locked: str = "", next_number: str) -> None:
        name = "principal = ? AND tool = ? AND call_id = ?"
        mine = f"{name} AND owner = ? AND attempt = ? AND until IS NULL"
        self.find: str = (
            "SELECT number, fingerprint, state, owner, pinned, attempt, bytes, until, answer FROM calls"
            f" WHERE {name}{lock}"
        )
        self.add: str = (
            "INSERT INTO calls (principal, tool, call_id, fingerprint, state, rerun, pinned, owner, attempt, bytes)"
            " VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        # A new number, because rows are removed in the order of their numbers, and this call begins now.
        self.restart: str = (
            f"UPDATE calls SET number = {next_number}, state = 'running', rerun = ?, owner = ?, attempt = ?,"
            " until = NULL WHERE number = ?"
        )
        self.finish: str = (
            f"UPDATE calls SET state = ?, pinned = ?, answer = ?, bytes = bytes + ?, until = ? WHERE {mine}"
        )
        self.find_earlier: str = f"SELECT number, bytes, answer FROM calls WHERE {mine}{lock}"
        self.restore: str = "UPDATE calls SET state = ?, attempt = attempt - 1, until = ? WHERE number = ?"
        self.interrupt: str = (
            "UPDATE calls SET state = 'interrupted', pinned = ?, answer = ?, bytes = ?, until = ? WHERE number = ?"
        )
        self.forget: str = f"DELETE FROM calls WHERE {mine} RETURNING bytes"
        self.remove: str = "DELETE FROM calls WHERE number = ?"
        # Rows that another transaction has locked are skipped, so that no two wait for each other's removals.
        self.remove_oldest: str = (
            "DELETE FROM calls WHERE number IN (SELECT number FROM calls WHERE principal = ? AND until IS NOT NULL"
            f" ORDER BY number LIMIT ?{skip_locked}) RETURNING bytes"
        )
        # Only the 64 oldest rows are read, so that no call pays for many.
        self.find_expired: str = (
            "SELECT number, principal, bytes FROM calls WHERE number IN (SELECT number FROM calls ORDER BY number"
            f" LIMIT 64) AND until <= ?{skip_locked}"
        )
        self.count_caller: str = "SELECT count(*), coalesce(sum(bytes), 0) FROM calls WHERE principal = ?"
        self.find_running: str = (
            "SELECT number, principal, tool, call_id, rerun, owner, bytes FROM calls WHERE until IS NULL"
        )
        self.exchange_counts: str = "UPDATE held SET rows = rows + ?, bytes = bytes + ? RETURNING rows, bytes"
        self.recount: str = (
            "UPDATE held SET (rows, bytes) = (SELECT count(*), coalesce(sum(bytes), 0) FROM calls)"
            " RETURNING rows, bytes"
        )


SQLITE = LedgerStatements(next_number="(SELECT max(number) + 1 FROM calls)")
