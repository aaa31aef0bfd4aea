"""Remember that a state was restored from a backup, so that no server trusts what the backup cannot know.

Each restore begins a new epoch. What ran between the backup and the restore is unknown in it.
"""
# PL-07

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from toolwire.core.errors import DefinitionError

from .database import Cursor
from .open_rows import open_overview
from .schema import Migration, Schema

RESTORES_FILE: Final = "restores.sqlite3"
RESTORES: Final = Schema(
    "restores",
    Migration(
        "CREATE TABLE IF NOT EXISTS restores"
        " (epoch INTEGER PRIMARY KEY, at REAL NOT NULL, made_at REAL NOT NULL, is_current INTEGER NOT NULL)"
    ),
)
_ADD: Final = "INSERT INTO restores SELECT coalesce(max(epoch), 0) + 1, ?, ?, ? FROM restores"
_FIND_LAST: Final = "SELECT epoch, at, made_at, is_current FROM restores ORDER BY epoch DESC LIMIT 1"


class Restore(NamedTuple):
    """A restore: its epoch, when it was (``at``) and when its backup was made, in seconds since 1970.

    ``is_current``: the operator said that nothing has run since the backup.
    """

    epoch: int
    at: float
    made_at: float
    is_current: bool


def add_restore(cursor: Cursor, at: float, made_at: float, *, is_current: bool) -> None:
    """Begin the next epoch."""
    cursor.execute(_ADD, (at, made_at, int(is_current)))


def find_restore(place: str) -> Restore | None:
    """Return the last restore of the state at ``place``, a folder or a URL; None if there was none.

    Raises:
        DefinitionError: the state cannot be read.
    """
    where = place if "://" in place else Path(place) / RESTORES_FILE
    try:
        with open_overview(where, RESTORES) as rows:
            found = [] if rows is None else rows.select_rows(_FIND_LAST)
    except OSError as error:
        raise DefinitionError(str(error)) from error
    return Restore(found[0][0], found[0][1], found[0][2], bool(found[0][3])) if found else None
