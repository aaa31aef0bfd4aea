"""Remember which sessions of pages their users began and ended, for all processes that share a place.

Rules:
- A session is known by the digest of its cookie: who reads the table cannot use it.
- A session that must have begun here is nobody's without its row: who reads the key that signs cookies can make none.
- It is remembered for a day longer than its cookie is valid, because clocks differ and can be set back.
- One user has at most 1,000 ended ones. With one more, all sessions that this user began before it are over.
- One user has at most 1,000 begun ones. With one more, the oldest is over.
"""
# CO-02, ST-01, AT-42

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from toolwire.stores.clock import ConfirmedTime
from toolwire.stores.database import SharedRows

from .tables import ENDED_SESSIONS, open_consent_file

MAX_EACH: Final = 1_000
_STORED_S: Final = 86_400.0
_FIND: Final = "SELECT 1 FROM ended_sessions WHERE digest = ? OR (digest = ? AND began_at >= ?)"
_FORGET_OLDEST: Final = (
    "DELETE FROM ended_sessions WHERE owner = ? AND digest NOT IN"
    " (SELECT digest FROM ended_sessions WHERE owner = ? ORDER BY began_at DESC LIMIT ?)"
)
_ADD: Final = (
    "INSERT INTO ended_sessions VALUES (?, ?, ?, ?)"
    " ON CONFLICT (digest) DO UPDATE SET began_at = excluded.began_at, until = excluded.until"
)


class ConsoleSession(NamedTuple):
    """A session: its cookie, whose it is, and from when until when it is valid, in seconds since 1970."""

    cookie: str
    name: str
    began_at: float
    until: float


class EndedSessions:
    """The sessions that were ended, in a folder or in the rows of a database.

    ``clock`` returns seconds since 1970, ``elapsed`` seconds that never go back.

    Each method raises ConnectionError or sqlite3.Error if they cannot be read: it is unknown then whether a session
    has ended.
    """

    def __init__(
        self,
        place: Path | SharedRows,
        *,
        clock: Callable[[], float] | None = None,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows = open_consent_file(place, ENDED_SESSIONS)
        self._clock = clock or self._rows.clock
        self._passed = ConfirmedTime(elapsed)

    def end(self, session: ConsoleSession) -> None:
        """End ``session`` in all processes."""
        owner = _digest("all of", session.name)
        # RE-01: a clock that is wrong for a moment must not make a session valid again.
        passed = self._passed.find(self._clock())
        with self._rows.transaction() as cursor:
            cursor.execute("DELETE FROM ended_sessions WHERE until < ?", (passed - _STORED_S,))
            statement = "SELECT count(*), max(began_at), max(until) FROM ended_sessions WHERE owner = ?"
            count, began_at, until = cursor.execute(statement, (owner,)).fetchone()
            row = (_digest("cookie", session.cookie), owner, session.began_at, session.until)
            if count >= MAX_EACH:
                cursor.execute("DELETE FROM ended_sessions WHERE owner = ?", (owner,))
                row = (owner, owner, max(began_at, session.began_at), max(until, session.until))
            cursor.execute(_ADD, row)

    def begin(self, session: ConsoleSession) -> None:
        """Remember that ``session`` began here."""
        owner = _digest("begun of", session.name)
        passed = self._passed.find(self._clock())
        with self._rows.transaction() as cursor:
            cursor.execute("DELETE FROM ended_sessions WHERE until < ?", (passed - _STORED_S,))
            cursor.execute(_FORGET_OLDEST, (owner, owner, MAX_EACH - 1))
            cursor.execute(_ADD, (_digest("begun", session.cookie), owner, session.began_at, session.until))

    def has_session(self, session: ConsoleSession) -> bool:
        """Return whether ``session`` began in any process."""
        statement = "SELECT 1 FROM ended_sessions WHERE digest = ?"
        return bool(self._rows.select_rows(statement, _digest("begun", session.cookie)))

    def has_ended(self, session: ConsoleSession) -> bool:
        """Return whether ``session`` was ended in any process."""
        values = _digest("cookie", session.cookie), _digest("all of", session.name), session.began_at
        return bool(self._rows.select_rows(_FIND, *values))


def _digest(kind: str, text: str) -> str:
    return sha256(f"{kind} {text}".encode("utf-8", "surrogatepass")).hexdigest()
