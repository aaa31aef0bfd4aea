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


class TallyDelta(NamedTuple):
    """Rows and bytes in all, and those that other processes do not know yet."""

    rows: int = 0
    size: int = 0
    new_rows: int = 0
    new_size: int = 0


class LedgerTally:
    """How many rows and bytes there are, as far as this process knows. Processes exchange their counts at times.

    Counting in the file for each call would cost a third of the time. If a process dies before it has shared its
    count, the next one that starts counts again. The rows of one caller are counted only if the ledger is nearly full.
    """

    def __init__(self, statements: LedgerStatements) -> None:
        self._sql = statements
        self.totals: TallyDelta = TallyDelta()
        self._shares: dict[str, tuple[int, int]] = {}
        self._exchanges = 0

    def has_ample_room(self, room: Room, limits: LedgerLimits) -> bool:
        """Return whether there is ``room`` more, for any caller."""
        held, held_size = self.totals[:2]
        # Below three quarters every caller has room by the rule of compute_excess(), so no query is needed.
        return 4 * (held + room.rows) <= 3 * limits.rows and 4 * (held_size + room.size) <= 3 * limits.bytes

    def count_excess(self, db: Cursor, principal: str, own: Room, of_all: Room, limits: LedgerLimits) -> Room:
        """Return how much ``principal`` must lose to have room for ``own``.

        ``of_all`` is what all callers are to get, with ``own``.
        """
        held, held_size = self._count_share(db, principal)
        rows, size = self.totals.rows + of_all.rows - own.rows, self.totals.size + of_all.size - own.size
        return Room(
            compute_excess(held, own.rows, rows, limits.rows), compute_excess(held_size, own.size, size, limits.bytes)
        )

    def add(self, principal: str, room: Room) -> None:
        """Count rows and bytes of a caller in, or out."""
        rows, size = room
        held, held_size, new, new_size = self.totals
        self.totals = TallyDelta(held + rows, held_size + size, new + rows, new_size + size)
        share = self._shares.get(principal)
        if share is not None:
            self._shares[principal] = (share[0] + rows, share[1] + size)

    def add_all(self, rooms: Mapping[str, Room]) -> None:
        """Count rows and bytes of several callers in."""
        for principal, room in rooms.items():
            self.add(principal, room)

    def forget_shares(self) -> None:
        """Forget how much each caller has. It is counted again when it is needed."""
        self._shares.clear()

    def exchange_counts(self, db: Cursor) -> None:
        """Add what is new here to the stored count, and read what other processes have added."""
        before = self.totals
        self.totals = TallyDelta(
            *db.execute(self._sql.exchange_counts, (before.new_rows, before.new_size)).fetchall()[0]
        )
        # Other processes have changed rows, and it is unknown whose. Counting the rows of a caller with many takes some
        # milliseconds, so those are counted again only at times.
        if self.totals[:2] != before[:2]:
            self._exchanges += 1
            if self._exchanges % _RECOUNT_EVERY == 0:
                self.forget_shares()
            else:
                self._shares = {name: share for name, share in self._shares.items() if share[0] >= _MANY_ROWS}

    def recount(self, db: Cursor) -> None:
        """Count all rows, and store the count for all processes."""
        self.totals = TallyDelta(*db.execute(self._sql.recount).fetchall()[0])

    def _count_share(self, db: Cursor, principal: str) -> tuple[int, int]:
        share = self._shares.get(principal)
        if share is None:
            # A bound for the memory, as callers can be many. The shares that are needed are counted again.
            if len(self._shares) >= _MAX_SHARES:
                self._shares.clear()
            rows, size = db.execute(self._sql.count_share, (principal,)).fetchone()
            share = self._shares[principal] = (rows, size)
        return share


_MAX_SHARES = 1_000
_MANY_ROWS = 1_000
_RECOUNT_EVERY = 16
"""How many exchanges with other processes the share of a caller with many rows lasts."""
