"""Store questions that wait for an answer, in SQLite or PostgreSQL. Any process can answer them.

A user's "always" for later calls is a grant, in ``grants``.

Rules:
- An answer is valid for one digest, once, and only until the question expires.
- What a question showed is deleted when the question is over.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from toolwire.consent.binding import DECISION_VALID_S
from toolwire.consent.display import DisplayRow, build_display_rows
from toolwire.core.check import Answer, Question
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.stores.database import Database, SharedRows

from .private_folder import check_folder

APPROVALS_FILE = "approvals.sqlite3"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS questions (
  id TEXT PRIMARY KEY, binding TEXT NOT NULL, shown TEXT NOT NULL, always_allowed INTEGER NOT NULL,
  asked_at REAL NOT NULL, expires_at REAL NOT NULL,
  allowed INTEGER, always INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
  used INTEGER NOT NULL DEFAULT 0);;
CREATE TABLE IF NOT EXISTS answer_bounds (id TEXT PRIMARY KEY, bounds TEXT NOT NULL)
"""
_FIND_SAME = "SELECT id FROM questions WHERE binding = ? AND used = 0 AND expires_at > ? AND asked_at <= ?"
# Only the first answer counts: a question that has one cannot be answered again (allowed IS NULL).
_ANSWER = (
    "UPDATE questions SET allowed = ?, always = ?, reason = ?"
    " WHERE id = ? AND allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ?"
)
_LIST_PENDING = (
    "SELECT id, shown, always_allowed, asked_at, expires_at FROM questions"
    " WHERE allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ? ORDER BY asked_at, id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """A question without an answer: its rows, and until when it may be answered (seconds since 1970)."""

    id: str
    rows: tuple[DisplayRow, ...]
    always_allowed: bool
    asked_at: float
    expires_at: float


class Approvals:
    """The questions and answers in one folder, or in the rows of a database. ``clock`` returns seconds since 1970."""

    # XL-050

    def __init__(
        self, place: Path | SharedRows, *, clock: Callable[[], float] = time.time, valid_s: float = DECISION_VALID_S
    ) -> None:
        if isinstance(place, Path):
            check_folder(place, APPROVALS_FILE)
            place = Database(place / APPROVALS_FILE, _SCHEMA)
        self._database: SharedRows = place
        self._clock = clock
        self._valid_s = valid_s

    def ask(self, question: Question) -> str:
        """Store ``question`` and return its id. If the same question already waits, return the id of that one."""
        now = self._clock()
        with self._database.transaction() as cursor:
            # A question from the future was asked before the clock was set back. It is over too.
            over = "UPDATE questions SET shown = '[]' WHERE used = 1 OR expires_at <= ? OR asked_at > ?"
            cursor.execute(over, (now, now))
            cursor.execute("DELETE FROM questions WHERE expires_at <= ?", (now - 86_400,))
            cursor.execute("DELETE FROM answer_bounds WHERE id NOT IN (SELECT id FROM questions)")
            # A call that is repeated while its question waits must not fill the list with copies.
            known = cursor.execute(_FIND_SAME, (question.binding, now, now)).fetchone()
            if known is not None:
                return str(known[0])
            id_ = secrets.token_hex(4)
            text = json.dumps(build_display_rows(question))
            row = (id_, question.binding, text, int(question.always_allowed), now, now + self._valid_s)
            cursor.execute(
                "INSERT INTO questions (id, binding, shown, always_allowed, asked_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
        return id_

    def find(self, binding: str) -> str | None:
        """Return the id of the question with ``binding`` that waits or whose answer was not used, or None."""
        now = self._clock()
        rows = self._database.select_rows(_FIND_SAME, binding, now, now)
        return str(rows[0][0]) if rows else None

    def answer(self, id_: str, answer: Answer) -> bool:
        """Store the answer to a question. Return whether a question with this id still waits."""
        with self._database.transaction() as cursor:
            now = self._clock()
            # "is True": only a real yes allows a call, not any other value that an approver returns by mistake.
            values = (int(answer.allowed is True), int(answer.always is True), answer.reason, id_, now, now)
            is_stored = cursor.execute(_ANSWER, values).rowcount > 0
            if is_stored and answer.bounds is not None:
                row = (id_, json.dumps(asdict(answer.bounds)))
                cursor.execute("INSERT INTO answer_bounds VALUES (?, ?)", row)
        return is_stored

    def take(self, id_: str, binding: str) -> Answer | None:
        """Return the answer once, or None while there is none. An expired question is answered with a timeout."""
        now = self._clock()
        with self._database.transaction() as cursor:
            row = cursor.execute(
                # The binding is compared too: an answer is valid only for the request that was shown.
                "SELECT allowed, always, reason, expires_at, used, asked_at FROM questions"
                " WHERE id = ? AND binding = ?",
                (id_, binding),
            ).fetchone()
            # An answer is used once: a second call with the same arguments asks again.
            if row is None or row[4] or not row[5] <= now < row[3]:
                return Answer(allowed=False, reason="timeout", channel="store")
            if row[0] is None:
                return None
            cursor.execute("UPDATE questions SET used = 1, shown = '[]' WHERE id = ?", (id_,))
            kept = cursor.execute("SELECT bounds FROM answer_bounds WHERE id = ?", (id_,)).fetchone()
        answer = Answer(allowed=bool(row[0]), always=bool(row[1]), reason=row[2], channel="store")
        return answer if kept is None else _add_bounds(answer, kept[0])

    def list_pending(self) -> Sequence[PendingQuestion]:
        """Return the questions that still wait, oldest first."""
        now = self._clock()
        rows: Any = self._database.select_rows(_LIST_PENDING, now, now)
        return [
            PendingQuestion(
                id=row[0],
                rows=tuple(DisplayRow(*one) for one in json.loads(row[1])),
                always_allowed=bool(row[2]),
                asked_at=row[3],
                expires_at=row[4],
            )
            for row in rows
        ]

    def close(self) -> None:
        """Close the file or the connection."""
        self._database.close()


def _add_bounds(answer: Answer, text: Any) -> Answer:
    """Return ``answer`` with the bounds in ``text``; if they cannot be read, it covers no later call."""
    # CC-03
    try:
        return replace(answer, bounds=GrantBounds(**json.loads(text)))
    except (DefinitionError, ValueError, TypeError, RecursionError):
        return replace(answer, always=False)
