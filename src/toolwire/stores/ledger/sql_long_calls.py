"""Keep long calls in a database: the same statements for SQLite and PostgreSQL.

Rules:
- Each public method of SqlLongCalls runs inside one transaction, which the caller begins and ends.
- Each change names the owner and the attempt of the run that makes it, so a process that lost a call changes nothing.
- What a caller has is counted beside the calls, in the same transaction, so that no call pays for counting many.
"""
# LC-03, LC-04

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple, TypeVar

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.ledger import CallKey, build_conflict
from toolwire.core.long_call import (
    FULL,
    UNAVAILABLE,
    AcceptAction,
    Acceptance,
    CallChange,
    ClaimRun,
    Lease,
    LongCallLimits,
    LongCallRow,
    NewCall,
    build_cancellation,
    build_interruption,
    build_too_many,
    choose_state,
    decide_acceptance,
    decide_run,
)
from toolwire.core.model import Json, Kind, Problem, Result
from toolwire.framing import jsontext
from toolwire.stores.database import Cursor
from toolwire.stores.group_commit import GroupCommit

from . import result_bytes

ROW_BYTES = 600
"""The bytes of a row and its index entries without its request, its answer and its texts."""
MAX_ANSWERS = 64 * 1024
"""The most bytes of what a user answers to the questions of one call."""
_SWEEP_EVERY = 64
_MAX_REMOVED = 64
_T = TypeVar("_T")
_ACCEPTED, _RUNNING = LongCallState.ACCEPTED.value, LongCallState.RUNNING.value
_COLUMNS = (
    "number, principal, id, key, tool, fingerprint, state, can_rerun, owner, attempt, progress, message, input,"
    " answers, cancel_asked, request, answer, pinned, bytes, created, updated, until, keep, revision"
)


class _Stored(NamedTuple):
    """A row with all its columns."""

    number: int
    principal: str
    id: str
    key: str | None
    tool: str
    fingerprint: bytes
    state: str
    can_rerun: int
    owner: int
    attempt: int
    progress: float | None
    message: str
    input: bytes | None
    answers: bytes | None
    cancel_asked: int
    request: bytes
    answer: bytes | None
    pinned: int
    bytes: int
    created: float
    updated: float
    until: float | None
    keep: float
    revision: int


class _Statements:
    """All statements. ``lock`` ends one whose row is kept from others until the commit."""

    def __init__(self, lock: str) -> None:
        touched = "updated = ?, revision = revision + 1"
        mine = "id = ? AND owner = ? AND attempt = ? AND state = 'running'"

        self.find = f"SELECT {_COLUMNS} FROM long_calls WHERE id = ?{lock}"
        self.find_key = f"SELECT {_COLUMNS} FROM long_calls WHERE key = ?{lock}"
        self.read = f"SELECT {_COLUMNS} FROM long_calls WHERE id = ?"
        self.list = (
            f"SELECT {_COLUMNS} FROM long_calls WHERE principal = ? AND number < ? AND (until IS NULL OR until > ?)"
            " ORDER BY number DESC LIMIT ?"
        )
        marks = ", ".join(["?"] * (_COLUMNS.count(",")))
        self.add = (
            f"INSERT INTO long_calls ({_COLUMNS.partition(', ')[2]}) VALUES ({marks})"
            f" ON CONFLICT DO NOTHING RETURNING {_COLUMNS}"
        )
        self.restart = (
            f"UPDATE long_calls SET state = 'accepted', owner = ?, request = ?, bytes = ?, answer = NULL, input = NULL,"
            f" answers = NULL, progress = NULL, message = '', cancel_asked = 0, until = NULL, {touched}"
            f" WHERE number = ? RETURNING {_COLUMNS}"
        )
        self.claim = (
            f"UPDATE long_calls SET state = 'running', owner = ?, attempt = attempt + 1, {touched} WHERE number = ?"
        )
        self.give_back = f"UPDATE long_calls SET state = 'accepted', attempt = attempt - 1, {touched} WHERE {mine}"
        self.report = (
            f"UPDATE long_calls SET progress = coalesce(?, progress), message = coalesce(?, message), {touched}"
            f" WHERE {mine} RETURNING {_COLUMNS}"
        )
        self.wait = (
            f"UPDATE long_calls SET state = 'waiting', input = ?, until = ? + keep, {touched} WHERE {mine}"
            f" RETURNING {_COLUMNS}"
        )
        self.end = (
            f"UPDATE long_calls SET state = ?, answer = ?, pinned = ?, request = ?, input = NULL, answers = NULL,"
            " progress = coalesce(?, progress), message = coalesce(?, message), bytes = ?,"
            f" until = ? + keep, {touched} WHERE number = ? RETURNING {_COLUMNS}"
        )
        self.lock_mine = f"SELECT {_COLUMNS} FROM long_calls WHERE {mine}{lock}"
        self.ask_cancel = f"UPDATE long_calls SET cancel_asked = 1, {touched} WHERE number = ? RETURNING {_COLUMNS}"
        self.answer = (
            f"UPDATE long_calls SET answers = ?, input = ?, state = ?, until = ?, {touched} WHERE number = ?"
            f" RETURNING {_COLUMNS}"
        )
        self.find_mine = (
            "SELECT id, attempt, cancel_asked FROM long_calls WHERE until IS NULL AND owner = ? AND state = 'running'"
        )
        self.next_owner = "SELECT min(owner) FROM long_calls WHERE until IS NULL AND owner > ?"
        self.find_owned = (
            "SELECT id FROM long_calls WHERE until IS NULL AND owner = ? AND state IN (?, ?) ORDER BY number LIMIT ?"
        )
        self.find_oldest = (
            f"SELECT {_COLUMNS} FROM long_calls WHERE principal = ? AND answer IS NOT NULL ORDER BY number LIMIT 1"
        )
        self.find_expired = f"SELECT {_COLUMNS} FROM long_calls WHERE until <= ? ORDER BY until LIMIT {_MAX_REMOVED}"
        self.remove = "DELETE FROM long_calls WHERE number = ? RETURNING number"
        self.read_caller = "SELECT rows, bytes, open FROM long_shares WHERE principal = ?"
        self.add_to_caller = (
            "INSERT INTO long_shares AS held VALUES (?, ?, ?, ?) ON CONFLICT (principal) DO UPDATE SET"
            " rows = held.rows + excluded.rows, bytes = held.bytes + excluded.bytes, open = held.open + excluded.open"
        )
        self.find_callers = "SELECT principal FROM long_shares WHERE open > 0"
        self.find_open = (
            "SELECT id FROM long_calls WHERE principal = ? AND cancel_asked = 0 AND state IN ('accepted', 'running',"
            " 'waiting')"
        )
        self.forget_caller = "DELETE FROM long_shares WHERE principal = ? AND rows <= 0"
        self.count_all = "SELECT coalesce(sum(rows), 0) FROM long_shares"


class SqlLongCalls:
    """The long calls in one database, on the connection that ``attach`` got, for the process ``owner``.

    ``now`` reads the clock of the store, which decides; ``read_wall`` the time of day, which is shown. ``is_alive``
    returns whether the process with a number still lives. ``lock`` ends a statement whose row is locked.
    """

    def __init__(
        self,
        limits: LongCallLimits,
        *,
        now: Callable[[], float],
        read_wall: Callable[[], float],
        is_alive: Callable[[int], bool],
        lock: str = "",
    ) -> None:
        self._sql = _Statements(lock)
        self._limits = limits
        self._now, self._read_wall, self._is_alive = now, read_wall, is_alive
        self._connection: Cursor
        self._accepted = self._looks = 0
        self._held = 0

    def attach(self, connection: Cursor) -> None:
        """Work on ``connection`` from now on."""
        self._connection = connection

    def accept(self, new: NewCall, owner: int) -> Acceptance:
        """Record ``new`` and return its status, or the status of the call that has its key."""
        for _ in range(2):
            found = self._find_live(self._sql.find_key, new.key) if new.key else None
            match decide_acceptance(None if found is None else self._read_row(found), new):
                case AcceptAction.REFUSE:
                    return build_conflict(CallKey(new.principal, new.tool, new.key))
                case AcceptAction.KNOWN if found is not None:
                    return self._write_status(found)
                case AcceptAction.AGAIN if found is not None:
                    return self._restart(found, new, owner)
                case _:
                    added = self._add(new, owner)
                    if added is not None:
                        return added
        return FULL  # another process has recorded this key twice meanwhile, and its call was removed

    def find(self, key: str) -> CallStatus | None:
        """Return the status of the call with this ``key``."""
        found = self._find_live(self._sql.find_key, key)
        return None if found is None else self._write_status(found)

    def claim(self, call_id: str, owner: int, asked: Set[str] = frozenset()) -> Lease | None:
        """Return the lease of ``owner`` on a call that may run now; one that may never run is ended here.

        A call whose process died did not start if it ``asked`` what has no answer yet.
        """
        found = self._find_live(self._sql.find, call_id)
        if found is None:
            return None
        row = self._read_row(found)
        is_lost = row.state is LongCallState.RUNNING and not row.is_held
        if is_lost and not asked <= _read_object(found.answers).keys():
            row = row._replace(state=LongCallState.ACCEPTED)
        match decide_run(row, is_mine=found.owner == owner):
            case ClaimRun.RUN:
                self._run(self._sql.claim, owner, self._read_wall(), found.number)
                answers = _read_object(found.answers)
                return Lease(found.id, owner, found.attempt + 1, found.principal, found.request, answers)
            case ClaimRun.CANCEL:
                self._end(found, build_cancellation(found.tool), pinned=True)
            case ClaimRun.INTERRUPT:
                has_started = row.state is LongCallState.RUNNING
                problem = build_interruption(found.tool, has_started=has_started)
                self._end(found, problem, pinned=has_started and not row.can_rerun)
            case ClaimRun.LEAVE:
                pass
        return None

    def give_back(self, lease: Lease) -> None:
        """Undo a claim whose call did not start."""
        self._run(self._sql.give_back, self._read_wall(), lease.id, lease.owner, lease.attempt)

    def change(self, lease: Lease, change: CallChange) -> CallStatus | None:
        """Record ``change`` of the run with ``lease``; None if the lease is lost."""
        mine, now = (lease.id, lease.owner, lease.attempt), self._read_wall()
        if change.result is not None:
            found = self._fetch(self._sql.lock_mine, *mine)
            return None if found is None else self._end(found, change.result, change, pinned=change.pinned)
        if change.input is not None:
            asked = jsontext.write(dict(change.input))
            found = self._fetch(self._sql.wait, asked, self._now(), now, *mine)
        else:
            message = None if change.message is None else _clean(change.message)
            found = self._fetch(self._sql.report, change.progress, message, now, *mine)
        return None if found is None else self._write_status(found)

    def read(self, principal: str, call_id: str) -> CallStatus | None:
        """Return the status of the caller's call, with its result."""
        found = self._fetch(self._sql.read, call_id)
        if found is None or found.principal != principal or self._is_expired(found):
            return None
        return self._write_status(found)

    def list_calls(self, principal: str, limit: int, cursor: str) -> CallPage:
        """Return the calls of a caller, newest first."""
        before = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 19 else (1 << 62)
        rows = self._connection.execute(self._sql.list, (principal, before, self._now(), limit + 1)).fetchall()
        found = [_Stored(*row) for row in rows]
        calls = tuple(self._write_status(row, with_result=False) for row in found[:limit])
        return CallPage(calls, str(found[limit - 1].number) if len(found) > limit else "")

    def cancel(self, principal: str, call_id: str) -> CallStatus | None:
        """Ask to cancel the caller's call; end it where no living process runs it."""
        found = self._find_live(self._sql.find, call_id)
        if found is None or found.principal != principal:
            return None
        row = self._read_row(found)
        if row.state.is_final:
            return self._write_status(found)
        if row.state is LongCallState.RUNNING and row.is_held:
            asked = self._fetch(self._sql.ask_cancel, self._read_wall(), found.number)
            return self._write_status(asked or found)
        return self._end(found, build_cancellation(found.tool), pinned=True)

    def cancel_removed(self, is_removed: Callable[[str], bool]) -> int:
        """Cancel all calls of the callers that ``is_removed`` is true of, and return how many these are."""
        callers = [name for (name,) in self._connection.execute(self._sql.find_callers).fetchall() if is_removed(name)]
        count = 0
        for principal in callers:
            found = self._connection.execute(self._sql.find_open, (principal,)).fetchall()
            count += sum(1 for (call_id,) in found if self.cancel(principal, call_id) is not None)
        return count

    def answer(self, principal: str, call_id: str, answers: Mapping[str, Json]) -> CallStatus | Problem | None:
        """Record what the user answers to the questions of a waiting call."""
        found = self._find_live(self._sql.find, call_id)
        if found is None or found.principal != principal:
            return None
        asked = _read_object(found.input)
        given = {name: answers[name] for name in asked if name in answers}
        if found.state != LongCallState.WAITING or not given:
            return self._write_status(found)
        earlier = _read_object(found.answers)
        body = jsontext.write({**earlier, **given})
        if len(body) > MAX_ANSWERS:
            return Problem(kind=Kind.TOO_LARGE, message="The answers to this call's questions are too long.")
        left = {name: question for name, question in asked.items() if name not in given}
        state, until = (LongCallState.WAITING, found.until) if left else (LongCallState.ACCEPTED, None)
        values = (body, jsontext.write(left) if left else None, state.value, until, self._read_wall(), found.number)
        return self._write_status(self._fetch(self._sql.answer, *values) or found)

    def find_mine(self, owner: int) -> dict[str, tuple[int, bool]]:
        """Return the running calls of ``owner``: their attempt, and whether they are to be cancelled."""
        rows = self._connection.execute(self._sql.find_mine, (owner,)).fetchall()
        return {call_id: (attempt, bool(asked)) for call_id, attempt, asked in rows}

    def find_ready(self, owner: int, limit: int) -> list[str]:
        """Return the ids of calls that ``owner`` may claim: those of no process, and those of dead ones."""
        # GR-03: every server looks once a second, so that results whose time is over leave a quiet server too.
        if self._looks % _SWEEP_EVERY or self.sweep() < _MAX_REMOVED:
            self._looks += 1
        ready: list[str] = []
        last = -1
        while len(ready) < limit:
            (found,) = self._connection.execute(self._sql.next_owner, (last,)).fetchone()
            if found is None:
                break
            last = found
            if found and found != owner and self._is_alive(found):
                continue
            values = (found, _ACCEPTED, _ACCEPTED if found == owner else _RUNNING, limit - len(ready))
            rows = self._connection.execute(self._sql.find_owned, values).fetchall()
            ready.extend(call_id for (call_id,) in rows)
        return ready

    def sweep(self) -> int:
        """Remove the calls that expired first, and count what is left; return how many were removed, at most 64."""
        found = self._connection.execute(self._sql.find_expired, (self._now(),)).fetchall()
        for row in found:
            self._remove(_Stored(*row))
        (self._held,) = self._connection.execute(self._sql.count_all).fetchone()
        return len(found)

    def _add(self, new: NewCall, owner: int) -> Acceptance | None:
        """Add a new call; None if another process has just added its key."""
        if self._accepted % _SWEEP_EVERY == 0:
            self.sweep()
        size = ROW_BYTES + len(new.request) + len(new.principal) + len(new.tool)
        refusal = self._make_room(new.principal, 1, size)
        if refusal is not None:
            return refusal
        wall = self._read_wall()
        values = (
            new.principal, new.id, new.key or None, new.tool, new.fingerprint, LongCallState.ACCEPTED.value,
            int(new.can_rerun), 0 if new.is_queued and new.request else owner, 0, None, "", None, None, 0, new.request,
            None, 1, size, wall, wall, None, new.keep_s, 1,
        )  # fmt: skip
        added = self._fetch(self._sql.add, *values)
        if added is None:
            return None
        self._accepted += 1
        self._held += 1
        self._add_caller(new.principal, 1, size, 1)
        return self._write_status(added)

    def _restart(self, found: _Stored, new: NewCall, owner: int) -> Acceptance:
        size = found.bytes - len(found.answer or b"") - len(found.request) + len(new.request)
        refusal = self._make_room(new.principal, 0, size - found.bytes)
        if refusal is not None:
            return refusal
        owned_by = 0 if new.is_queued and new.request else owner
        values = (owned_by, new.request, size, self._read_wall(), found.number)
        self._add_caller(found.principal, 0, size - found.bytes, 1)
        return self._write_status(self._fetch(self._sql.restart, *values) or found)

    def _make_room(self, principal: str, rows: int, size: int) -> Problem | None:
        """Remove the oldest ended calls of ``principal`` until one more fits; return the refusal if it does not."""
        limits = self._limits
        if self._held + rows > limits.rows:
            return FULL
        used, used_size, opened = self._connection.execute(self._sql.read_caller, (principal,)).fetchone() or (0, 0, 0)
        if opened >= limits.open_each:
            return build_too_many(limits)
        for _ in range(_MAX_REMOVED):
            if used + rows <= limits.each and used_size + size <= limits.each_bytes:
                return None
            oldest = self._fetch(self._sql.find_oldest, principal)
            if oldest is None:
                break
            self._remove(oldest)
            used, used_size = used - 1, used_size - oldest.bytes
        return build_too_many(limits)

    def _end(self, found: _Stored, result: Result, last: CallChange | None = None, *, pinned: bool) -> CallStatus:
        state = choose_state(result)
        answer = result_bytes.write_result(result, self._limits.answer_bytes)
        request = b"" if pinned else found.request
        size = found.bytes - len(found.request) + len(request) + len(answer)
        progress, message = (None, None) if last is None else (last.progress, last.message)
        values = (
            state.value, answer, int(pinned), request, progress, None if message is None else _clean(message), size,
            self._now(), self._read_wall(), found.number,
        )  # fmt: skip
        ended = self._fetch(self._sql.end, *values) or found
        self._add_caller(found.principal, 0, size - found.bytes, -1)
        return self._write_status(ended)

    def _remove(self, found: _Stored) -> None:
        if self._fetch_any(self._sql.remove, found.number) is None:
            return  # another process has removed it
        opened = 0 if LongCallState(found.state).is_final else -1
        self._held -= 1
        self._add_caller(found.principal, -1, -found.bytes, opened)
        self._run(self._sql.forget_caller, found.principal)

    def _add_caller(self, principal: str, rows: int, size: int, opened: int) -> None:
        self._run(self._sql.add_to_caller, principal, rows, size, opened)

    def _find_live(self, statement: str, name: str) -> _Stored | None:
        """Return the row that ``statement`` finds, locked; one that has expired is removed."""
        found = self._fetch(statement, name)
        if found is not None and self._is_expired(found):
            self._remove(found)
            return None
        return found

    def _is_expired(self, found: _Stored) -> bool:
        return found.until is not None and found.until <= self._now()

    def _read_row(self, found: _Stored) -> LongCallRow:
        is_open = found.until is None
        return LongCallRow(
            fingerprint=bytes(found.fingerprint),
            state=LongCallState(found.state),
            is_held=is_open and found.owner != 0 and self._is_alive(found.owner),
            pinned=bool(found.pinned),
            can_rerun=bool(found.can_rerun),
            has_request=bool(found.request),
            cancel_asked=bool(found.cancel_asked),
        )

    def _write_status(self, found: _Stored, *, with_result: bool = True) -> CallStatus:
        state = LongCallState(found.state)
        result = _read_result(found.answer) if with_result and state.is_final else None
        asked = _read_object(found.input)
        # The store's clock is not the time of day, so the end is shown as a distance from now.
        expires = None if found.until is None else self._read_wall() + found.until - self._now()
        return CallStatus(
            id=found.id,
            tool=found.tool,
            state=state,
            progress=found.progress,
            message=found.message,
            created_at=found.created,
            updated_at=found.updated,
            expires_at=expires if state.is_final else None,
            result=result,
            input=asked,
            revision=found.revision,
            cancel_asked=bool(found.cancel_asked),
        )

    def _fetch(self, statement: str, *values: Any) -> _Stored | None:
        row = self._fetch_any(statement, *values)
        return None if row is None else _Stored(*row)

    def _fetch_any(self, statement: str, *values: Any) -> Any:
        return self._connection.execute(statement, values).fetchone()

    def _run(self, statement: str, *values: Any) -> None:
        self._connection.execute(statement, values)


def _read_result(answer: bytes | None) -> Result:
    # The first caller reads it from here too, so it is no replay.
    return result_bytes.read_result(bytes(answer or b"{}"), lambda facts: dict(facts or {}))


def _read_object(body: bytes | None) -> dict[str, Json]:
    data = jsontext.read(bytes(body)) if body else {}
    return data if isinstance(data, dict) else {}


def _clean(text: str) -> str:
    """Return ``text`` without what PostgreSQL cannot store: null characters, and halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class StoredLongCalls(ABC):
    """A LongCallStore in a database, which subclasses open. One thread commits the changes, many per transaction."""

    _calls: SqlLongCalls
    _changes: GroupCommit
    _owner: int

    async def accept(self, new: NewCall) -> Acceptance:
        """Record ``new`` and return its status, or the status of the call that has its key."""
        return await self._do(lambda: self._calls.accept(new, self._owner))

    async def find(self, key: str) -> CallStatus | Problem | None:
        """Return the status of the call with this ``key``; None if there is none."""
        return await self._do(lambda: self._calls.find(key))

    async def claim(self, call_id: str, asked: Set[str] = frozenset()) -> Lease | Problem | None:
        """Return the right to run the call, or None if it must not run here and now."""
        return await self._do(lambda: self._calls.claim(call_id, self._owner, asked), self._give_back)

    async def change(self, lease: Lease, change: CallChange) -> CallStatus | Problem | None:
        """Record ``change`` and return the status after it; None if the lease is lost."""
        return await self._do(lambda: self._calls.change(lease, change))

    async def read(self, principal: str, call_id: str) -> CallStatus | Problem | None:
        """Return the status of a caller's call with its result."""
        return await self._do(lambda: self._calls.read(principal, call_id))

    async def list_calls(self, principal: str, limit: int, cursor: str = "") -> CallPage | Problem:
        """Return at most ``limit`` calls of a caller, newest first."""
        return await self._do(lambda: self._calls.list_calls(principal, limit, cursor))

    async def cancel(self, principal: str, call_id: str) -> CallStatus | Problem | None:
        """Ask to cancel a call and return its status."""
        return await self._do(lambda: self._calls.cancel(principal, call_id))

    async def cancel_removed(self, is_removed: Callable[[str], bool]) -> int | Problem:
        """Cancel all calls of the callers that ``is_removed`` is true of, and return how many these are."""
        return await self._do(lambda: self._calls.cancel_removed(is_removed))

    async def answer(self, principal: str, call_id: str, answers: Mapping[str, Json]) -> CallStatus | Problem | None:
        """Record answers to what a waiting call asks, and return its status."""
        return await self._do(lambda: self._calls.answer(principal, call_id, answers))

    @abstractmethod
    async def renew(self) -> Mapping[str, bool] | Problem:
        """Return the calls that this process still runs, and whether they are to be cancelled."""

    async def find_ready(self, limit: int) -> Sequence[str] | Problem:
        """Return the ids of calls that this process may claim."""
        return await self._do(lambda: self._calls.find_ready(self._owner, limit))

    async def _do(self, work: Callable[[], _T], on_abandon: Callable[[Any], None] | None = None) -> _T | Problem:
        return await self._changes.run_change(partial(self._ask, work), on_refusal=_refuse, on_abandon=on_abandon)

    def _ask(self, work: Callable[[], _T]) -> _T:
        """Return what ``work`` returns. An error that refuses the change must be one that the group expects."""
        return work()

    def _give_back(self, claimed: Lease | Problem | None) -> None:
        """Undo the claim of a task that was cancelled before it could start the call."""
        if isinstance(claimed, Lease):
            self._changes.post_change(partial(self._ask, partial(self._calls.give_back, claimed)))


def _refuse() -> Problem:
    return UNAVAILABLE
