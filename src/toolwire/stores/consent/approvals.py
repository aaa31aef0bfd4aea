"""Store questions that wait for an answer, in SQLite or PostgreSQL. Any process can answer them.

A user's "always" for later calls is a grant, in ``grants``.

Rules:
- An answer is valid for one digest and only until the question expires: a yes once, a no for a minute.
- What a question showed is deleted when the question is over.
- A question belongs to the caller of its call. Where an answer names a caller, it counts for that caller's questions
  alone.
"""
# GW-04

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from toolwire.consent.binding import DECISION_VALID_S, REFUSAL_S
from toolwire.consent.decision_record import Decision
from toolwire.consent.display import DisplayRow, build_display_rows
from toolwire.consent.policy import explain_unkept
from toolwire.core.check import Answer, Question, SimilarTool
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Call
from toolwire.stores.clock import ConfirmedTime
from toolwire.stores.database import SharedRows

from .tables import APPROVALS, open_consent_file

_FIND_SAME = "SELECT id FROM questions WHERE binding = ? AND used = 0 AND expires_at > ? AND asked_at <= ?"
# Only the first answer counts: a question that has one cannot be answered again (allowed IS NULL).
_ANSWER = (
    "UPDATE questions SET allowed = ?, always = ?, reason = ?"
    " WHERE id = ? AND allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ?"
)
_ANSWER_OWN = (
    "UPDATE questions SET allowed = ?, always = ?, reason = ?"
    " WHERE id = ? AND allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ?"
    " AND id IN (SELECT id FROM question_callers WHERE principal = ?)"
)
_LIST_PENDING = (
    "SELECT q.id, q.shown, q.always_allowed, q.asked_at, q.expires_at,"
    " (SELECT c.principal FROM question_callers c WHERE c.id = q.id),"
    " (SELECT a.approvers FROM question_approvers a WHERE a.id = q.id),"
    " (SELECT s.tools FROM question_similar s WHERE s.id = q.id),"
    " EXISTS (SELECT 1 FROM bounded_questions b WHERE b.id = q.id) FROM questions q"
    " WHERE q.allowed IS NULL AND q.used = 0 AND q.expires_at > ? AND q.asked_at <= ?"
)
_OF_CALLER = " AND q.id IN (SELECT id FROM question_callers WHERE principal = ?)"
_OLDEST_FIRST = " ORDER BY q.asked_at, q.id"
_LIST_ALL = _LIST_PENDING + _OLDEST_FIRST
_LIST_OWN = _LIST_PENDING + _OF_CALLER + _OLDEST_FIRST
_LIST_OPEN = "SELECT id FROM questions WHERE allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ?"
_COUNT_OPEN = (
    "SELECT count(*) FROM questions WHERE allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ?"
    " AND id IN (SELECT id FROM question_callers WHERE principal = ?)"
)
_LIST_OPEN_CALLERS = (
    "SELECT principal, id FROM question_callers WHERE id IN (SELECT id FROM questions"
    " WHERE allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ?) ORDER BY id"
)
_COUNT_BY_CALLER = "SELECT principal, count(*) FROM question_callers GROUP BY principal"
# A question whose answer another call has used is answered too: this call asks again then.
_LIST_OVER_CALLS = (
    "SELECT c.id, c.principal, c.call, EXISTS"
    " (SELECT 1 FROM questions q WHERE q.id = c.id AND q.allowed IS NOT NULL AND q.expires_at > ?)"
    " FROM question_calls c WHERE c.id NOT IN (SELECT id FROM questions"
    " WHERE allowed IS NULL AND used = 0 AND expires_at > ? AND asked_at <= ?) ORDER BY c.id, c.call LIMIT ?"
)
_FIND_ALWAYS = (
    "SELECT always_allowed, EXISTS (SELECT 1 FROM bounded_questions b WHERE b.id = q.id) FROM questions q WHERE id = ?"
)
_ADD_CALL = "INSERT INTO question_calls VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_REMOVE_CALL = "DELETE FROM question_calls WHERE id = ? AND call = ?"
_FORGET = (
    "DELETE FROM answer_bounds WHERE id NOT IN (SELECT id FROM questions)",
    "DELETE FROM answer_deciders WHERE id NOT IN (SELECT id FROM questions)",
    "DELETE FROM question_approvers WHERE id NOT IN (SELECT id FROM questions)",
    "DELETE FROM question_similar WHERE id NOT IN (SELECT id FROM questions)",
    "DELETE FROM bounded_questions WHERE id NOT IN (SELECT id FROM questions)",
    "DELETE FROM question_callers WHERE id NOT IN (SELECT id FROM questions)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """A question without an answer: its rows, and until when it can be answered (seconds since 1970).

    ``principal`` is the caller whose call it is about, empty for a call of the user's own program.
    Only users of the groups in ``approvers`` answer it, if there are any. ``similar`` are the tools that a permission
    may cover too.
    """

    id: str
    rows: tuple[DisplayRow, ...]
    always_allowed: bool | None
    asked_at: float
    expires_at: float
    principal: str = ""
    approvers: tuple[str, ...] = ()
    similar: tuple[SimilarTool, ...] = ()


class Approvals:
    """The questions and answers in one folder, or in the rows of a database.

    ``clock`` returns seconds since 1970, ``elapsed`` seconds that never go back.
    """

    # XL-050

    def __init__(
        self,
        place: Path | SharedRows,
        *,
        clock: Callable[[], float] | None = None,
        valid_s: float = DECISION_VALID_S,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = open_consent_file(place, APPROVALS)
        self._clock = clock or self._database.clock
        self._valid_s = valid_s
        self._passed = ConfirmedTime(elapsed)

    def ask(self, question: Question, approvers: Sequence[str] = ()) -> str:
        """Store ``question`` and return its id. If the same question already waits, return the id of that one.

        Only users of the groups ``approvers`` answer it, if there are any.
        """
        now, similar = self._clock(), question.find_similar() if question.always_allowed else ()
        with self._database.transaction() as cursor:
            # RE-01: a question that a wrong clock calls over keeps its text, and is answered when the clock is right.
            passed = self._passed.find(now)
            cursor.execute("UPDATE questions SET shown = '[]' WHERE expires_at <= ? AND shown != '[]'", (passed,))
            cursor.execute("DELETE FROM questions WHERE expires_at <= ?", (passed - 86_400,))
            for statement in _FORGET:
                cursor.execute(statement)
            # A call that is repeated while its question waits must not fill the list with copies.
            known = cursor.execute(_FIND_SAME, (question.binding, now, now)).fetchone()
            id_ = secrets.token_hex(4) if known is None else str(known[0])
            # In the same transaction: whoever sees the question may answer it, and the call must not miss that.
            if waiting := _find_waiting(id_, question.call):
                cursor.execute(_ADD_CALL, waiting)
            if known is not None:
                return id_
            text = json.dumps(build_display_rows(question))
            row = (id_, question.binding, text, int(question.always_allowed is True), now, now + self._valid_s)
            cursor.execute(
                "INSERT INTO questions (id, binding, shown, always_allowed, asked_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            if question.always_allowed is None:
                cursor.execute("INSERT INTO bounded_questions VALUES (?)", (id_,))
            if question.principal:
                cursor.execute("INSERT INTO question_callers VALUES (?, ?)", (id_, question.principal))
            if similar:
                cursor.execute("INSERT INTO question_similar VALUES (?, ?)", (id_, json.dumps(similar)))
            if approvers:
                cursor.execute("INSERT INTO question_approvers VALUES (?, ?)", (id_, json.dumps(list(approvers))))
        return id_

    def find(self, binding: str) -> str | None:
        """Return the id of the question with ``binding`` that waits or whose answer was not used, or None."""
        now = self._clock()
        rows = self._database.select_rows(_FIND_SAME, binding, now, now)
        return str(rows[0][0]) if rows else None

    def answer(self, id_: str, answer: Answer, *, principal: str | None = None) -> bool:
        """Store the answer to a question, and who gave it where. Return whether a question with this id still waits.

        With ``principal``, it must be a question of this caller.

        Raises:
            DefinitionError: the answer is to cover later calls that the question does not offer.
        """
        with self._database.transaction() as cursor:
            now = self._clock()
            # QF-03: here, because every front answers through the store.
            if answer.always is True and (fault := _explain_unkept(cursor, id_, answer.bounds)):
                raise DefinitionError(fault)
            # "is True": only a real yes allows a call, not any other value that an approver returns by mistake.
            values = (int(answer.allowed is True), int(answer.always is True), answer.reason, id_, now, now)
            if principal is None:
                is_stored = cursor.execute(_ANSWER, values).rowcount > 0
            else:
                is_stored = cursor.execute(_ANSWER_OWN, (*values, principal)).rowcount > 0
            if is_stored and answer.bounds is not None:
                row = (id_, json.dumps(asdict(answer.bounds)))
                cursor.execute("INSERT INTO answer_bounds VALUES (?, ?)", row)
            if is_stored and answer.decided_by:
                cursor.execute("INSERT INTO answer_deciders VALUES (?, ?, ?)", (id_, answer.decided_by, answer.channel))
        return is_stored

    def take(self, id_: str, binding: str, call: Call | None = None) -> Answer | None:
        """Return a yes once and a no for a minute, or None while there is none. An expired question is a timeout.

        The answer says who gave it and where, if that is known. A long ``call`` goes on when there is one.
        """
        waiting = None if call is None else _find_waiting(id_, call)
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
                if waiting is not None:
                    cursor.execute(_ADD_CALL, waiting)
                return None
            if waiting is not None:  # while it is stored, the call has not started
                cursor.execute(_REMOVE_CALL, (waiting.question, waiting.call))
            if row[0]:
                cursor.execute("UPDATE questions SET used = 1, shown = '[]' WHERE id = ?", (id_,))
            else:  # QF-03: the same call gets the same no for a minute
                until = min(row[3], now + REFUSAL_S)
                cursor.execute("UPDATE questions SET expires_at = ?, shown = '[]' WHERE id = ?", (until, id_))
            bounds_row = cursor.execute("SELECT bounds FROM answer_bounds WHERE id = ?", (id_,)).fetchone()
            found = cursor.execute("SELECT decider, channel FROM answer_deciders WHERE id = ?", (id_,)).fetchone()
            decider, channel = found or ("", "store")
            answer = Answer(bool(row[0]), bool(row[1]), reason=row[2], channel=channel, decided_by=decider)
            answer = answer if bounds_row is None else _add_bounds(answer, bounds_row[0])
            # QF-03: an earlier version of the program stored what was not offered.
            return replace(answer, always=answer.always and not _explain_unkept(cursor, id_, answer.bounds))

    def list_pending(self, principal: str | None = None) -> Sequence[PendingQuestion]:
        """Return the questions that still wait, oldest first; with ``principal``, those of this caller alone."""
        now = self._clock()
        rows: Any = (
            self._database.select_rows(_LIST_ALL, now, now)
            if principal is None
            else self._database.select_rows(_LIST_OWN, now, now, principal)
        )
        return [
            PendingQuestion(
                id=row[0],
                rows=tuple(DisplayRow(*one) for one in json.loads(row[1])),
                always_allowed=_read_always(row[2], row[8]),
                asked_at=row[3],
                expires_at=row[4],
                principal=row[5] or "",
                approvers=tuple(json.loads(row[6] or "[]")),
                similar=tuple(_read_similar(one) for one in json.loads(row[7] or "[]")),
            )
            for row in rows
        ]

    def list_open(self) -> frozenset[str]:
        """Return the ids of the questions that still wait."""
        now = self._clock()
        rows: Any = self._database.select_rows(_LIST_OPEN, now, now)
        return frozenset(row[0] for row in rows)

    def count_open(self, principal: str) -> int:
        """Return how many questions of this caller still wait."""
        now = self._clock()
        rows: Any = self._database.select_rows(_COUNT_OPEN, now, now, principal)
        return int(rows[0][0])

    def count_stored(self) -> int:
        """Return how many questions are kept, also those that are over: for a day after their end."""
        rows: Any = self._database.select_rows("SELECT count(*) FROM questions")
        return int(rows[0][0])

    def list_by_caller(self) -> Mapping[str, tuple[int, Sequence[str]]]:
        """Return by the principal of each caller how many questions are kept, and the ids of those that still wait."""
        now = self._clock()
        rows: Any = self._database.select_rows(_COUNT_BY_CALLER)
        found: dict[str, tuple[int, list[str]]] = {principal: (number, []) for principal, number in rows}
        waiting: Any = self._database.select_rows(_LIST_OPEN_CALLERS, now, now)
        for principal, id_ in waiting:
            found.setdefault(principal, (0, []))[1].append(id_)
        return found

    def add_call(self, waiting: ResumableCall) -> None:
        """Remember that a long call goes on when a question is over."""
        with self._database.transaction() as cursor:
            cursor.execute(_ADD_CALL, waiting)

    def list_over_calls(self, limit: int) -> Sequence[tuple[ResumableCall, bool]]:
        """Return at most ``limit`` of the long calls whose questions are over, and whether each was answered."""
        now = self._clock()
        rows: Any = self._database.select_rows(_LIST_OVER_CALLS, now, now, now, limit)
        return [(ResumableCall(*row[:3]), bool(row[3])) for row in rows]

    def list_waits(self, call: str) -> Sequence[ResumableCall]:
        """Return the questions for which the long call with the id ``call`` waits."""
        rows: Any = self._database.select_rows("SELECT id, principal, call FROM question_calls WHERE call = ?", call)
        return [ResumableCall(*row) for row in rows]

    def remove_call(self, waiting: ResumableCall) -> None:
        """Forget a long call that has been told to go on."""
        with self._database.transaction() as cursor:
            cursor.execute(_REMOVE_CALL, (waiting.question, waiting.call))

    def find_end(self, id_: str) -> float:
        """Return until when a question may be answered, in seconds since 1970; 0 for none with this id."""
        rows: Any = self._database.select_rows("SELECT expires_at FROM questions WHERE id = ?", id_)
        return float(rows[0][0]) if rows else 0.0

    def is_answered(self, id_: str) -> bool:
        """Return whether a question has an answer that was not used and is still valid."""
        now = self._clock()
        statement = "SELECT 1 FROM questions WHERE id = ? AND allowed IS NOT NULL AND used = 0 AND expires_at > ?"
        return bool(self._database.select_rows(statement, id_, now))

    def close(self) -> None:
        """Close the file or the connection."""
        self._database.close()


def build_answer_record(asked: PendingQuestion, answer: Answer, at: float) -> Decision:
    """Return the record of ``answer``: who gave it, where, and for which caller. ``at`` is in seconds since 1970."""
    # FU-60
    facts = {row.label: row.text for row in asked.rows if row.kind == "part"}
    return Decision(
        at=at,
        principal=answer.decided_by,
        caller=asked.principal,
        connection=answer.channel,
        tool=facts.get("tool", ""),
        binding=asked.id,
        decision="allowed" if answer.allowed else "denied",
        channel=answer.channel,
        always=answer.allowed and answer.always,
        site=facts.get("site", "") or facts.get("program", ""),
    )


def _find_waiting(question: str, call: Call) -> ResumableCall | None:
    """Return ``call`` as one that goes on when ``question`` is over; None if it is no such long call."""
    id_ = call.context.inbox_call_id
    return ResumableCall(question, call.context.principal, id_) if id_ else None


def _read_similar(row: Sequence[Any]) -> SimilarTool:
    id_, name, definition, arguments, destinations, text, changes = row
    return SimilarTool(id_, name, definition, tuple(arguments), tuple(destinations), text, tuple(changes))


def _read_always(stored: object, is_bounded: object) -> bool | None:
    return bool(stored) or (None if is_bounded else False)


def _explain_unkept(cursor: Any, id_: str, bounds: GrantBounds | None) -> str:
    """Return why an answer to a question covers no later call within ``bounds``, or an empty text if it may."""
    row = cursor.execute(_FIND_ALWAYS, (id_,)).fetchone()
    return "" if row is None else explain_unkept(bounds, always_allowed=_read_always(*row))


def _add_bounds(answer: Answer, text: Any) -> Answer:
    """Return ``answer`` with the bounds in ``text``; if they cannot be read, it covers no later call."""
    # CC-03
    try:
        return replace(answer, bounds=GrantBounds(**json.loads(text)))
    except (DefinitionError, ValueError, TypeError, RecursionError):
        return replace(answer, always=False)


class ResumableCall(NamedTuple):
    """A long call that goes on when the question ``question`` is over: its id, and the principal of its caller."""

    question: str
    principal: str
    call: str
