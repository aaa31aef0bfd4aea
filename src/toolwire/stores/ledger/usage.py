"""Count the rows and bytes of a ledger in a database without a query each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from toolwire.core.ledger import LedgerLimits, compute_excess
from toolwire.stores.database import Cursor

from .statements import LedgerStatements


class Room(NamedTuple):
    """Rows and bytes that calls take."""

    rows: int
    size: int


NOTHING: Final = Room(0, 0)


def add_room(rooms: dict[str, Room], principal: str, rows: int, size: int) -> None:
    """Add ``rows`` and ``size`` to the room of a caller in ``rooms``."""
    before = rooms.get(principal, NOTHING)
    rooms[principal] = Room(before.rows + rows, before.size + size)


def sum_rooms(rooms: Iterable[Room]) -> Room:
    """Return the rows and bytes of all ``rooms``."""
    rows, sizes = zip(*rooms, strict=True)
    return Room(sum(rows), sum(sizes))


class UsageDelta(NamedTuple):
    """Rows and bytes in all, and those that other processes do not know yet."""

    rows: int = 0
    size: int = 0
    new_rows: int = 0
    new_size: int = 0


class LedgerUsage:
    """How many rows and bytes there are, as far as this process knows. Processes exchange their counts at times.

    Counting in the file for each call would cost a third of the time. If a process dies before it has shared its
    count, the next one that starts counts again. The rows of one caller are counted only if the ledger is nearly full.
    """

    def __init__(self, statements: LedgerStatements) -> None:
        self._sql = statements
        self.totals: UsageDelta = UsageDelta()
        self._by_caller: dict[str, tuple[int, int]] = {}
        self._exchanges = 0

    def has_ample_room(self, room: Room, limits: LedgerLimits) -> bool:
        """Return whether there is ``room`` more, for any caller."""
        used, used_size = self.totals[:2]
        # Below three quarters every caller has room by the rule of compute_excess(), so no query is needed.
        return 4 * (used + room.rows) <= 3 * limits.rows and 4 * (used_size + room.size) <= 3 * limits.bytes

    def count_excess(self, db: Cursor, principal: str, own: Room, of_all: Room, limits: LedgerLimits) -> Room:
        """Return how much ``principal`` must lose to have room for ``own``.

        ``of_all`` is what all callers are to get, with ``own``.
        """
        used, used_size = self._count_caller(db, principal)
        rows, size = self.totals.rows + of_all.rows - own.rows, self.totals.size + of_all.size - own.size
        return Room(
            compute_excess(used, own.rows, rows, limits.rows), compute_excess(used_size, own.size, size, limits.bytes)
        )

    def add(self, principal: str, room: Room) -> None:
        """Count rows and bytes of a caller in, or out."""
        rows, size = room
        used, used_size, new, new_size = self.totals
        self.totals = UsageDelta(used + rows, used_size + size, new + rows, new_size + size)
        caller_calls = self._by_caller.get(principal)
        if caller_calls is not None:
            self._by_caller[principal] = (caller_calls[0] + rows, caller_calls[1] + size)

    def add_all(self, rooms: Mapping[str, Room]) -> None:
        """Count rows and bytes of several callers in."""
        for principal, room in rooms.items():
            self.add(principal, room)

    def forget_callers(self) -> None:
        """Forget how much each caller has. It is counted again when it is needed."""
        self._by_caller.clear()

    def exchange_counts(self, db: Cursor) -> None:
        """Add what is new here to the stored count, and read what other processes have added."""
        before = self.totals
        self.totals = UsageDelta(
            *db.execute(self._sql.exchange_counts, (before.new_rows, before.new_size)).fetchall()[0]
        )
        # Other processes have changed rows, and it is unknown whose. Counting the rows of a caller with many takes some
        # milliseconds, so those are counted again only at times.
        if self.totals[:2] != before[:2]:
            self._exchanges += 1
            if self._exchanges % _RECOUNT_EVERY == 0:
                self.forget_callers()
            else:
                self._by_caller = {
                    name: caller_calls
                    for name, caller_calls in self._by_caller.items()
                    if caller_calls[0] >= _MANY_ROWS
                }

    def recount(self, db: Cursor) -> None:
        """Count all rows, and store the count for all processes."""
        self.totals = UsageDelta(*db.execute(self._sql.recount).fetchall()[0])

    def _count_caller(self, db: Cursor, principal: str) -> tuple[int, int]:
        caller_calls = self._by_caller.get(principal)
        if caller_calls is None:
            # A bound for the memory, as callers can be many. The shares that are needed are counted again.
            if len(self._by_caller) >= _MAX_CALLERS:
                self._by_caller.clear()
            rows, size = db.execute(self._sql.count_caller, (principal,)).fetchone()
            caller_calls = self._by_caller[principal] = (rows, size)
        return caller_calls


_MAX_CALLERS = 1_000
_MANY_ROWS = 1_000
_RECOUNT_EVERY = 16
"""How many exchanges with other processes the share of a caller with many rows lasts."""
