"""Write the statements of a ledger in a database: those of SQLite and PostgreSQL differ in a few words only."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class LedgerStatements:
    """Every statement that claims and settles the calls of a ledger one by one, or counts them."""

    find: str
    add: str
    restart: str
    settle: str
    find_earlier: str
    restore: str
    interrupt: str
    forget: str
    remove: str
    remove_oldest: str
    find_expired: str
    count_share: str
    find_running: str
    exchange_counts: str
    recount: str


@dataclass(frozen=True, slots=True)
class SqlWords:
    """The words in which one database differs. ``lock`` keeps a row that is read from others until the commit."""

    mark: str
    calls: str
    held: str
    next_number: str
    lock: str
    skip_locked: str


def write_statements(words: SqlWords) -> LedgerStatements:
    """Return the statements for the database with these ``words``."""
    m, calls, held, lock, free = words.mark, words.calls, words.held, words.lock, words.skip_locked
    name = f"principal = {m} AND tool = {m} AND call_id = {m}"
    mine = f"{name} AND owner = {m} AND attempt = {m} AND until IS NULL"
    listed = "number, principal, bytes"
    return LedgerStatements(
        find=f"SELECT number, fingerprint, state, owner, pinned, attempt, bytes, until, answer FROM {calls}"
        f" WHERE {name}{lock}",
        add=f"INSERT INTO {calls} (principal, tool, call_id, fingerprint, state, rerun, pinned, owner, attempt, bytes)"
        f" VALUES ({m}, {m}, {m}, {m}, 'running', {m}, {m}, {m}, {m}, {m}) ON CONFLICT DO NOTHING",
        # A new number, because rows are removed in the order of their numbers, and this call begins now.
        restart=f"UPDATE {calls} SET number = {words.next_number}, state = 'running', rerun = {m}, owner = {m},"
        f" attempt = {m}, until = NULL WHERE number = {m}",
        settle=f"UPDATE {calls} SET state = {m}, pinned = {m}, answer = {m}, bytes = bytes + {m}, until = {m}"
        f" WHERE {mine}",
        find_earlier=f"SELECT number, bytes, answer FROM {calls} WHERE {mine}{lock}",
        restore=f"UPDATE {calls} SET state = {m}, attempt = attempt - 1, until = {m} WHERE number = {m}",
        interrupt=f"UPDATE {calls} SET state = 'interrupted', pinned = {m}, answer = {m}, bytes = {m}, until = {m}"
        f" WHERE number = {m}",
        forget=f"DELETE FROM {calls} WHERE {mine} RETURNING bytes",
        remove=f"DELETE FROM {calls} WHERE number = {m}",
        # Rows that another transaction has locked are skipped, so that no two wait for each other's removals.
        remove_oldest=f"DELETE FROM {calls} WHERE number IN (SELECT number FROM {calls} WHERE principal = {m}"
        f" AND until IS NOT NULL ORDER BY number LIMIT {m}{free}) RETURNING bytes",
        # Only the 64 oldest rows are read, so that no call pays for many.
        find_expired=f"SELECT {listed} FROM {calls} WHERE number IN (SELECT number FROM {calls} ORDER BY number"
        f" LIMIT 64) AND until <= {m}{free}",
        count_share=f"SELECT count(*), coalesce(sum(bytes), 0) FROM {calls} WHERE principal = {m}",
        find_running=f"SELECT number, principal, tool, call_id, rerun, owner, bytes FROM {calls} WHERE until IS NULL",
        exchange_counts=f"UPDATE {held} SET rows = rows + {m}, bytes = bytes + {m} RETURNING rows, bytes",
        recount=f"UPDATE {held} SET (rows, bytes) = (SELECT count(*), coalesce(sum(bytes), 0) FROM {calls})"
        " RETURNING rows, bytes",
    )


SQLITE = write_statements(
    SqlWords(
        mark="?",
        calls="calls",
        held="held",
        next_number="(SELECT max(number) + 1 FROM calls)",
        lock="",
        skip_locked="",
    )
)
