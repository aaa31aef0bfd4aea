"""Keep MCP sessions for several processes, and the messages that these send each other about them.

Rules:
- A session is found by the digest of its id: who reads the tables cannot use it.
- Their number is bounded, in all and for one caller, for all processes together.
- Messages have an order that all processes see. They are deleted after some minutes, or when their reader has them.
"""
# ST-01, MC-10

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from toolwire.stores.clock import ConfirmedTime
from toolwire.stores.database import Cursor, SharedRows
from toolwire.stores.open_rows import open_rows

from .tables import SESSIONS

IN_USE_S: Final = 60.0
"""A session that was used in this time is not ended for one of another caller."""
STORED_S: Final = 60.0
MAX_WAITING: Final = 100
"""How many messages about one session wait for their readers, without the events of its streams."""
MAX_WAITING_BYTES: Final = 512 * 1024
MAX_UPDATES: Final = 10_000
"""Of how many resources and lists the last change is known."""
_FIND_UPDATES: Final = "SELECT uri, number FROM session_updates WHERE number > ? ORDER BY number"
_LEAST_USED: Final = "SELECT key, used_at, began_at, capabilities FROM sessions ORDER BY used_at LIMIT 1"
_POSITION: Final = "SELECT coalesce(max(number), 0) FROM session_updates"
_MAX_READ: Final = 200
_SUM_KEPT: Final = "SELECT coalesce(sum(size), 0) FROM kept_results WHERE kept_at > ?"
_FORMS: Final = '"elicitation"'
"""The member of a session's capabilities by which its host can ask its user."""
_SWEEP_S: Final = 10.0

EVENT: Final = "event"
"""The kind of a message that is a part of a stream. Its sender holds back more of them than its reader has taken."""


class SessionBounds(NamedTuple):
    """How many sessions there may be, how many of one caller, and how long they last, in seconds."""

    most: int
    most_each: int
    idle_s: float
    longest_s: float


class NoticePosition(NamedTuple):
    """What a client was told of: the digest of each list that it knows, and the number of the last update."""

    lists: Mapping[str, str]
    position: int


class StoredSession(NamedTuple):
    """One session. ``watched`` has the number of the last update when each of its resources began to be watched."""

    owner: str
    quota_key: str
    capabilities: str
    log_level: str
    watched: Mapping[str, int]
    notified: NoticePosition


class SessionMessage(NamedTuple):
    """What one process tells another about a session, or all others if ``node`` is empty."""

    number: int
    session: bytes
    node: str
    kind: str
    name: str
    body: bytes


class FoundUpdates(NamedTuple):
    """What has changed: the URI of a resource or the name of a list, and its number; ``newest`` is the last number."""

    updates: Sequence[tuple[str, int]]
    newest: int


class SessionRows:
    """The sessions in one file or database. Each method raises ConnectionError if it cannot be asked."""

    def __init__(self, rows: SharedRows, bounds: SessionBounds, clock: Callable[[], float] | None = None) -> None:
        self._rows = rows
        self._clock = clock or rows.clock
        self._bounds = bounds
        self._swept_at = 0.0
        self._passed = ConfirmedTime()

    def open(self, key: bytes, session: StoredSession) -> bool:
        """Add a session, and return whether there was room: a caller with too many loses its least recently used."""
        with self._change() as (cursor, now):
            self._sweep(cursor, now)
            statement = "SELECT key, capabilities FROM sessions WHERE share = ? ORDER BY used_at"
            rows: list[Any] = cursor.execute(statement, (session.quota_key,)).fetchall()
            # I-26: hosts that cannot be asked can do without, so theirs end first, and end none of others.
            own = sorted(rows, key=lambda row: _FORMS in row[1])
            leaving = own[: max(0, len(own) - self._bounds.most_each + 1)]
            if _FORMS not in session.capabilities and any(_FORMS in row[1] for row in leaving):
                return False
            ended = [bytes(row[0]) for row in leaving]
            # GR-06: a count that is kept, because to count the sessions takes longer the more there are.
            if not ended and _read_number(cursor, "SELECT rows FROM session_total") >= self._bounds.most:
                oldest = cursor.execute(_LEAST_USED).fetchone()
                if oldest is not None and not self._is_over(now, *oldest[1:3]):
                    is_other = _FORMS not in session.capabilities and _FORMS in oldest[3]
                    if is_other or oldest[1] > now - IN_USE_S:
                        return False
                ended = [] if oldest is None else [bytes(oldest[0])]
            for one in ended:
                _end(cursor, one, now)
            notified = json.dumps([dict(session.notified.lists), _read_position(cursor)])
            row = (key, *session[:4], json.dumps(dict(session.watched)), notified, now, now)
            cursor.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return True

    def find(self, key: bytes) -> StoredSession | None:
        """Return a session that is not over, or None."""
        statement = (
            "SELECT owner, share, capabilities, log_level, watched, told FROM sessions"
            " WHERE key = ? AND used_at >= ? AND began_at >= ?"
        )
        now = self._clock()
        rows = self._select(statement, key, now - self._bounds.idle_s, now - self._bounds.longest_s)
        return _read_session(*rows[0]) if rows else None

    def store(self, used: Mapping[bytes, NoticePosition | None], known: Iterable[bytes]) -> set[bytes]:
        """Note that sessions are in use, and what their clients know; return which of ``known`` there still are."""
        with self._change() as (cursor, now):
            for key, notified in used.items():
                cursor.execute("UPDATE sessions SET used_at = ? WHERE key = ?", (now, key))
                if notified is not None:
                    text = json.dumps([dict(notified.lists), notified.position])
                    cursor.execute("UPDATE sessions SET told = ? WHERE key = ?", (text, key))
            statement, oldest = "SELECT 1 FROM sessions WHERE key = ? AND began_at >= ?", now - self._bounds.longest_s
            return {key for key in known if cursor.execute(statement, (key, oldest)).fetchone() is not None}

    def end(self, key: bytes) -> bool:
        """End a session everywhere, and return whether it was there."""
        with self._change() as (cursor, now):
            return _end(cursor, key, now)

    def set_level(self, key: bytes, level: str) -> None:
        """Keep the level of the log that a client chose."""
        with self._change() as (cursor, _):
            cursor.execute("UPDATE sessions SET log_level = ? WHERE key = ?", (level, key))

    def watch(self, key: bytes, uri: str, *, most: int) -> bool:
        """Let a client be told of changes of a resource from now on; return False if it watches ``most`` others."""
        with self._change() as (cursor, _):
            watched = _read_watched(cursor, key)
            if uri not in watched:
                if len(watched) >= most:
                    return False
                watched[uri] = _read_position(cursor)
                _write_watched(cursor, key, watched)
        return True

    def unwatch(self, key: bytes, uri: str) -> None:
        """Let a client be told of a resource no more."""
        with self._change() as (cursor, _):
            watched = _read_watched(cursor, key)
            if watched.pop(uri, None) is not None:
                _write_watched(cursor, key, watched)

    def send(self, session: bytes, node: str, kind: str, name: str = "", body: bytes = b"") -> int:
        """Add a message, and return its number, or 0 if there is no room for it."""
        with self._change() as (cursor, now):
            self._sweep(cursor, now)
            if kind != EVENT:
                statement = (
                    "SELECT count(*), coalesce(sum(length(body)), 0) FROM session_messages"
                    " WHERE session = ? AND kind != 'event'"
                )
                waiting: Any = cursor.execute(statement, (session,)).fetchone()
                if waiting[0] >= MAX_WAITING or waiting[1] + len(body) > MAX_WAITING_BYTES:
                    return 0
            return _add_message(cursor, (session, node, kind, name, body, now))

    def read_messages(self, after: int, node: str) -> list[SessionMessage]:
        """Return the next messages to ``node`` or to all, in their order, at most 200."""
        statement = (
            "SELECT number, session, node, kind, name, body FROM session_messages"
            " WHERE number > ? AND (node = ? OR node = '') ORDER BY number LIMIT ?"
        )
        rows = self._select(statement, after, node, _MAX_READ)
        return [
            SessionMessage(number, bytes(session), to, kind, name, bytes(body))
            for number, session, to, kind, name, body in rows
        ]

    def delete_messages(self, node: str, until: int) -> None:
        """Delete the messages to ``node`` alone up to the number ``until``."""
        with self._change() as (cursor, _):
            cursor.execute("DELETE FROM session_messages WHERE node = ? AND number <= ?", (node, until))

    def find_last_message(self) -> int:
        """Return the number of the newest message, 0 without any."""
        return int(self._select("SELECT coalesce(max(number), 0) FROM session_messages")[0][0])

    def add_updates(self, names: Collection[str], after: int | None = None) -> FoundUpdates:
        """Note that ``names`` have changed; return what others have noted since the number ``after``.

        In one transaction, so that no change of another process is taken for one of this process.
        """
        with self._change() as (cursor, _):
            found = [] if after is None else cursor.execute(_FIND_UPDATES, (after,)).fetchall()
            number = _read_position(cursor)
            for name in names:
                number += 1
                cursor.execute(
                    "INSERT INTO session_updates VALUES (?, ?)"
                    " ON CONFLICT (uri) DO UPDATE SET number = excluded.number",
                    (name, number),
                )
            cursor.execute("DELETE FROM session_updates WHERE number <= ?", (number - MAX_UPDATES,))
        return FoundUpdates([(name, number) for name, number in found], number)

    def find_updates(self, after: int) -> list[tuple[str, int]]:
        """Return what has changed since the number ``after``, in the order of the changes."""
        return [(name, number) for name, number in self._select(_FIND_UPDATES, after)]

    def find_position(self) -> int:
        """Return the number of the last update, 0 without any."""
        return int(self._select(_POSITION)[0][0])

    def close(self) -> None:
        """Close the connection."""
        self._rows.close()

    def _is_over(self, now: float, used_at: float, began_at: float) -> bool:
        return used_at < now - self._bounds.idle_s or began_at < now - self._bounds.longest_s

    def _sweep(self, cursor: Cursor, now: float) -> None:
        """Delete what is over, every ten seconds."""
        passed = self._passed.find(now)  # RE-01: no session is deleted because the clock is wrong for a moment
        if not self._swept_at <= passed <= self._swept_at + _SWEEP_S:
            self._swept_at = passed
            # Two statements, because one with OR would read all sessions.
            cursor.execute("DELETE FROM sessions WHERE used_at < ?", (passed - self._bounds.idle_s,))
            cursor.execute("DELETE FROM sessions WHERE began_at < ?", (passed - self._bounds.longest_s,))
            cursor.execute("DELETE FROM session_messages WHERE sent_at < ?", (passed - STORED_S,))

    def _select(self, statement: str, *values: object) -> list[Any]:
        """Return the rows that ``statement`` selects."""
        return self._rows.select_rows(statement, *values)

    @contextmanager
    def _change(self) -> Generator[tuple[Cursor, float], None, None]:
        """Give a cursor in a transaction without other writers, and the time."""
        now = self._clock()
        with self._rows.transaction() as cursor:
            yield cursor, now


def open_sessions(where: str, bounds: SessionBounds) -> SessionRows | None:
    """Return the sessions in the file or database that ``where`` names; None if it is empty.

    Raises:
        DefinitionError: it cannot be used.
    """
    if not where:
        return None
    return SessionRows(open_rows(where, SESSIONS), bounds)


def _end(cursor: Cursor, key: bytes, now: float) -> bool:
    is_known = cursor.execute("DELETE FROM sessions WHERE key = ?", (key,)).rowcount > 0
    if is_known:
        _add_message(cursor, (key, "", "end", "", b"", now))
    return is_known


def _add_message(cursor: Cursor, row: tuple[object, ...]) -> int:
    statement = (
        "INSERT INTO session_messages (session, node, kind, name, body, sent_at) VALUES (?, ?, ?, ?, ?, ?)"
        " RETURNING number"
    )
    added: Any = cursor.execute(statement, row).fetchone()
    return int(added[0])


def _read_number(cursor: Cursor, statement: str) -> int:
    row: Any = cursor.execute(statement).fetchone()
    return int(row[0])


def _read_position(cursor: Cursor) -> int:
    return _read_number(cursor, _POSITION)


def _read_session(
    owner: str, quota_key: str, capabilities: str, level: str, watched: str, notified: str
) -> StoredSession | None:
    """Return the session of a row, or None if this program did not write the row."""
    try:
        lists, position = json.loads(notified)
    except (TypeError, ValueError):
        return None
    if not isinstance(lists, dict) or not isinstance(position, int):
        return None
    return StoredSession(
        owner, quota_key, capabilities, level, _parse_watched(watched), NoticePosition(lists, position)
    )


def _read_watched(cursor: Cursor, key: bytes) -> dict[str, int]:
    row: Any = cursor.execute("SELECT watched FROM sessions WHERE key = ?", (key,)).fetchone()
    return {} if row is None else _parse_watched(row[0])


def _parse_watched(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return {uri: number for uri, number in found.items() if isinstance(number, int)} if isinstance(found, dict) else {}


def _write_watched(cursor: Cursor, key: bytes, watched: Mapping[str, int]) -> None:
    cursor.execute("UPDATE sessions SET watched = ? WHERE key = ?", (json.dumps(watched), key))


# QF-10, ST-01
class ResultRows:
    """The results in one file or database: those of the last ``stored_s`` seconds, at most ``most_bytes`` of them.

    What is kept for longer has a time in the future, so that an earlier version of the program leaves it there too.
    """

    def __init__(self, rows: SharedRows, *, stored_s: float, most_bytes: int) -> None:
        self._rows, self._stored_s, self._most_bytes = rows, stored_s, most_bytes

    def store(self, key: bytes, body: bytes, keep_s: float = 0.0) -> bool:
        """Keep ``body`` under ``key``, and return True; the oldest go if there is no more room.

        With ``keep_s``, it stays for as many seconds whatever else is stored. Half of the room is for such results;
        where it is taken, nothing is stored.
        """
        with self._rows.transaction() as cursor:
            now = self._rows.clock()
            cursor.execute("DELETE FROM kept_results WHERE kept_at < ?", (now - self._stored_s,))
            if keep_s:
                taken: Any = cursor.execute(_SUM_KEPT, (now,)).fetchone()
                if taken[0] + len(body) > self._most_bytes // 2:
                    return False
            cursor.execute("INSERT INTO kept_results VALUES (?, ?, ?, ?)", (key, body, len(body), now + keep_s))
            rows: list[Any] = cursor.execute("SELECT key, size FROM kept_results ORDER BY kept_at DESC").fetchall()
            total = 0
            for one, size in rows:
                total += size
                if total > self._most_bytes:
                    cursor.execute("DELETE FROM kept_results WHERE key = ?", (bytes(one),))
        return True

    def find(self, key: bytes) -> bytes | None:
        """Return what is under ``key``, or None."""
        statement = "SELECT body FROM kept_results WHERE key = ? AND kept_at >= ?"
        rows: list[Any] = self._rows.select_rows(statement, key, self._rows.clock() - self._stored_s)
        return bytes(rows[0][0]) if rows else None


def open_results(place: str, *, stored_s: float, most_bytes: int) -> ResultRows:
    """Return the results in the file or database ``place``.

    Raises:
        DefinitionError: it cannot be used.
    """
    return ResultRows(open_rows(place, SESSIONS), stored_s=stored_s, most_bytes=most_bytes)
