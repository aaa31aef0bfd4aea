"""Count the rows and bytes of a ledger in a database without a query each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from toolwire.core.ledger import LedgerLimits, has_room

from .statements import LedgerStatements


class Rows(Protocol):
    """What a statement did."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> Sequence[Any]:
        """Return all rows that are left."""
        ...


class SqlConnection(Protocol):
    """What ledgers need of a connection to a database: sqlite3's and psycopg's have it."""

    def execute(self, statement: Any, values: Any = (), /) -> Rows:
        """Run one statement."""
        ...


class TallyDelta(NamedTuple):
    """Rows and bytes, and how many of them the others have not heard of."""

    rows: int = 0
    size: int = 0
    new_rows: int = 0
    new_size: int = 0


class LedgerTally:
    """How many rows and bytes there are, as far as this process knows: what others change it hears of at times.

    A count in the file with each call would cost a third of the whole; what was counted and not shared by a process
    that died is made good by the next that starts. What one caller has is counted only where a ledger is nearly full.
    """

    def __init__(self, statements: LedgerStatements) -> None:
        self._sql = statements
        self.totals = TallyDelta()
        self._shares: dict[str, tuple[int, int]] = {}

    def has_ample_room(self, rows: int, size: int, limits: LedgerLimits) -> bool:
        """Return whether there is room for ``rows`` and ``size`` more, whoever's they are."""
        held, held_size = self.totals[:2]
        return 4 * (held + rows) <= 3 * limits.rows and 4 * (held_size + size) <= 3 * limits.bytes

    def has_room(self, db: SqlConnection, principal: str, rows: int, size: int, limits: LedgerLimits) -> bool:
        """Return whether ``principal`` may have ``rows`` and ``size`` more."""
        if self.has_ample_room(rows, size, limits):
            return True
        held, held_size = self._count_share(db, principal)
        return has_room(held, rows, self.totals.rows, limits.rows) and has_room(
            held_size, size, self.totals.size, limits.bytes
        )

    def add(self, principal: str, rows: int, size: int) -> None:
        """Count rows and bytes of a caller in, or out."""
        held, held_size, new, new_size = self.totals
        self.totals = TallyDelta(held + rows, held_size + size, new + rows, new_size + size)
        share = self._shares.get(principal)
        if share is not None:
            self._shares[principal] = (share[0] + rows, share[1] + size)

    def forget_shares(self) -> None:
        """Forget how much each caller has; it is counted again when that is asked."""
        self._shares.clear()

    def exchange_counts(self, db: SqlConnection) -> None:
        """Tell the others what is new, and hear their news."""
        before = self.totals
        self.totals = TallyDelta(
            *db.execute(self._sql.exchange_counts, (before.new_rows, before.new_size)).fetchall()[0]
        )
        if self.totals[:2] != before[:2]:
            self.forget_shares()

    def recount(self, db: SqlConnection) -> None:
        """Count what is there, for everybody."""
        self.totals = TallyDelta(*db.execute(self._sql.recount).fetchall()[0])

    def _count_share(self, db: SqlConnection, principal: str) -> tuple[int, int]:
        share = self._shares.get(principal)
        if share is None:
            if len(self._shares) >= _MAX_SHARES:
                self._shares.clear()
            rows, size = db.execute(self._sql.count_share, (principal,)).fetchone()
            share = self._shares[principal] = (rows, size)
        return share


_MAX_SHARES = 1_000
