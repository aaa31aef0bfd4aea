"""How many rows and bytes a ledger in SQLite holds, counted without asking the file each time."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from toolwire.core.ledger import LedgerLimits

from . import ledger_tables as sql


class Counted(NamedTuple):
    """Rows and bytes, and how many of them the others have not heard of."""

    rows: int = 0
    size: int = 0
    new_rows: int = 0
    new_size: int = 0


class Tally:
    """How many rows and bytes there are, as far as this process knows: what others change it hears of at times.

    A count in the file with each call would cost a third of the whole; what was counted and not shared by a process
    that died is made good by the next that starts.
    """

    def __init__(self) -> None:
        self.counted = Counted()

    def over(self, limits: LedgerLimits) -> bool:
        """Return whether there is more than there may be."""
        return self.counted.rows > limits.rows or self.counted.size > limits.bytes

    def has_room(self, limits: LedgerLimits, size: int) -> bool:
        """Return whether there may be one row more, of ``size``."""
        return self.counted.rows < limits.rows and self.counted.size + size <= limits.bytes

    def add(self, rows: int, size: int) -> None:
        """Count rows and bytes in, or out."""
        held, held_size, new, new_size = self.counted
        self.counted = Counted(held + rows, held_size + size, new + rows, new_size + size)

    def share(self, db: sqlite3.Connection) -> None:
        """Tell the others what is new, and hear their news."""
        news = (self.counted.new_rows, self.counted.new_size)
        self.counted = Counted(*db.execute(sql.COUNT, news).fetchall()[0])

    def recount(self, db: sqlite3.Connection) -> None:
        """Count what is there, for everybody."""
        self.counted = Counted(*db.execute(sql.RECOUNT).fetchall()[0])
