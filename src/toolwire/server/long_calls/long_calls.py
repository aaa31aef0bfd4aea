"""Accept long calls, run them, and report their status to their callers.

Rules:
- A call is stored before its caller learns its ID, and each change is stored before it is reported.
- A call runs in a separate task, so it continues when its caller disconnects. Only its caller can cancel it.
- A server that stops leaves its calls as if it had crashed: they run again, or end as interrupted.
- A call whose user decides in the inbox waits there. After the answer, it resumes in any process.
- A call runs in the context of the request that made it, such as with its token, never in another request's.
"""
# LC-01, LC-02, LC-03, LC-04, GW-04, D-09

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Set
from contextlib import contextmanager, nullcontext, suppress
from contextvars import Context as TaskContext
from contextvars import copy_context
from dataclasses import replace
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from anyio import to_thread

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.catalog import Catalog
from toolwire.core.ledger import build_ending, build_key, can_rerun, mark_replayed
from toolwire.core.long_call import (
    NO_CALL,
    UNAVAILABLE,
    CallChange,
    CallEngine,
    Lease,
    LongCallStore,
    NewCall,
    build_cancellation,
    build_continuation,
    build_interruption,
    build_unanswered,
    digest_call_key,
    read_progress,
)
from toolwire.core.model import Call, Context, Json, Kind, Problem, Progress, Result, Tool, Value
from toolwire.core.no_user_input import INPUT_REQUEST
from toolwire.core.toolbox import Notify, Toolbox, find_consent_handling, find_missing_consent, find_own_catalog
from toolwire.engines.local_engine import LocalEngine
from toolwire.framing import jsontext
from toolwire.framing.call_document import write_status
from toolwire.framing.jsontext import get_object, get_text
from toolwire.server.asking.inbox import Inbox
from toolwire.server.asking.inbox_waiters import WaitTurn, find_question
from toolwire.server.http.lifespan import begin_lifespan, end_lifespan
from toolwire.server.limits import ServerLimits
from toolwire.stores.outage_log import OutageLog, list_store_errors
from toolwire.stores.paths import is_postgres_url
from toolwire.telemetry.redaction import hide_secrets

Execute: TypeAlias = Callable[[Call, Notify], Awaitable[Result]]
"""Runs a call to its end, and passes its progress to the given function."""
Count: TypeAlias = Callable[[Call], Awaitable[Problem | None]]

MAX_WAIT_S = 60.0
"""The longest time that a request waits for a change of a call, in seconds."""
RETRY_AFTER_S = 1
"""After how many seconds a caller should ask again."""
_POLL_INTERVAL_S = 1.0
_REMOVAL_S = 60.0
_READY_AT_ONCE = 64
_FIRST_PAUSE_S = 0.02
_MAX_PAUSE_S = 1.0
_MAX_LOCAL_PAUSE_S = 5.0
_REPORT_EVERY_S = 0.2
_MAX_RETRY_S = 5.0
_MAX_PIECES = 200
_MAX_CONTEXTS = 10_000

_log = logging.getLogger("toolwire")


def open_long_calls(where: Path | str | None) -> Callable[[], LongCallStore]:
    """Return a function that opens the store of long calls in a file or database of the ledger, or in memory.

    It raises DefinitionError if the file or database cannot be used.
    """

    def open_store() -> LongCallStore:
        if isinstance(where, str) and is_postgres_url(where):
            from toolwire.stores.ledger.postgres_long_calls import PostgresLongCalls  # only the extra brings its driver

            return PostgresLongCalls(where)
        from toolwire.stores.ledger.sqlite_long_calls import SqliteLongCalls  # few servers have long calls

        return SqliteLongCalls(where)

    return open_store


class _Stop(Enum):
    """Why the task of a call is cancelled."""

    CANCELLED = auto()
    LOST = auto()


class _Run:
    """A call that runs here, with the pieces that its tool has sent. ``dropped`` counts deleted pieces."""

    def __init__(self, lease: Lease, task: asyncio.Task[None] | None) -> None:
        self.lease = lease
        self.task = task
        self.stop: _Stop | None = None
        self.stores_all = False
        self.pieces: list[Progress] = []
        self.dropped = 0
        self.progress: float | None = None
        self.message: str | None = None
        self.is_new = False
        self.has_news = asyncio.Event()

    def add(self, piece: Progress) -> None:
        """Store a piece, and the progress that it reports."""
        self.pieces.append(piece)
        # A streaming tool's items are its result, which is stored anyway. Of progress, only the last report is useful.
        if not self.stores_all and len(self.pieces) > _MAX_PIECES:
            del self.pieces[: _MAX_PIECES // 2]
            self.dropped += _MAX_PIECES // 2
        progress, message = read_progress(piece)
        if progress is not None or message is not None:
            self.progress = self.progress if progress is None else progress
            self.message = self.message if message is None else message
            self.has_news.set()


def _end_stopped_run(run: _Run, name: str, error: asyncio.CancelledError) -> Problem:
    """Return the result of a run that ``error`` ended, or raise ``error`` if the server stops.

    The call is then left as if the process had crashed.
    """
    if run.stop is None:
        raise error
    if run.task is not None:
        run.task.uncancel()
    return build_cancellation(name)


class LongCalls:
    """The long calls of one server. ``execute`` runs the tool of a call.

    ``open_store`` opens the store on first use. ``engine`` gets the accepted calls. Without it, they run in this
    process. In ``inbox``, users decide about calls whose clients cannot ask them. If ``is_removed`` returns True for a
    caller, this server no longer admits that caller, and their calls are cancelled. ``toolbox`` offers each caller's
    tools, and says whether it asks callers for consent itself.
    """

    def __init__(
        self,
        *,
        open_store: Callable[[], LongCallStore],
        engine: CallEngine | None,
        execute: Execute,
        limits: ServerLimits,
        inbox: Inbox | None = None,
        is_removed: Callable[[str], bool] | None = None,
        toolbox: Toolbox,
    ) -> None:
        self._is_removed = is_removed
        self._toolbox = toolbox
        self._removal_checks = 0 if is_removed is None else 2
        self._removal_check_at = 0.0
        self._open_store = open_store
        self._inbox = inbox
        self._engine = engine
        self._execute = execute
        self._limits = limits
        self._store: LongCallStore | None = None
        self._opening = asyncio.Lock()
        self._outages = OutageLog(_log, "Long calls that wait for their users can be read again.")
        self._maintenance: asyncio.Task[None] | None = None
        self._bound: dict[str, Call] = {}
        self._contexts: OrderedDict[str, TaskContext] = OrderedDict()
        self._running: dict[str, _Run] = {}
        self._changed: dict[str, set[asyncio.Event]] = {}
        self._waiters: Counter[str] = Counter()
        # D-34: one caller's calls use at most half of the slots. Further calls wait in order.
        self._ready: frozenset[str] = frozenset()
        self._find_owner = (limits.long_running + 1) // 2
        self._offered: dict[str, str] = {}
        self._queued_each: Counter[str] = Counter()
        self._queued: dict[str, deque[str]] = {}

    def prepare(self) -> None:
        """Open the store now, so that a server with long tools does not start without it.

        Raises:
            DefinitionError: the store cannot be opened.
        """
        if self._store is None:
            self._store = self._open_store()

    async def begin(self) -> None:
        """Start to run calls. If the store is open, calls that earlier processes left come first."""
        if self._store is not None:
            await self._begin(self._store)

    async def end(self) -> None:
        """Stop. Running calls are left to another process, or to the next start."""
        if self._maintenance is None:
            return
        self._maintenance.cancel()
        with suppress(asyncio.CancelledError):
            await self._maintenance
        self._maintenance = None
        if self._engine is not None:
            await self._engine.end(0.0)
        await end_lifespan(self._store)

    async def start(self, call: Call, notify: Notify, count: Count | None) -> Result:
        """Accept ``call``, and return its result if it ends while its caller waits, or else a Problem with its ID.

        ``count`` returns the refusal of a call beyond a rate limit. A call that was accepted before is not counted.
        Without it, no limit applies.
        """
        store = await self._use_store()
        if isinstance(store, Problem):
            return store
        context, tool = call.context, call.tool
        name = build_key(call).tool
        key = digest_call_key(context.principal, name, call.key) if call.key else ""
        known = await store.find(key) if key else None
        if known is None:
            # CR-01: asked before the call is accepted, because a caller who has left would see the question too late.
            asks = not context.confirmation and not context.needs_inbox
            refusal = await find_missing_consent(self._toolbox, call) if asks else None
            if refusal is None and count is not None:
                refusal = await count(call)
            if refusal is not None:
                return refusal
        is_bound = bool(context.tokens or context.secrets)
        # CR-01: if the Toolbox itself asks for consent, the caller's token is redeemed when the call runs.
        is_bound |= bool(context.confirmation) and find_consent_handling(self._toolbox)(tool)
        new = NewCall(
            principal=context.principal,
            id=secrets.token_hex(20),
            key=key,
            tool=tool.id,
            fingerprint=sha256(jsontext.write_canonical((tool.id, call.arguments, context.user_id))).digest(),
            # D-26: tokens, one-time tokens and secrets are never stored, so only this process can run a call with any
            # of them.
            request=b"" if is_bound else _write_request(call),
            can_rerun=can_rerun(tool),
            keep_s=tool.keep_s or self._limits.keep_s,
            is_queued=self._engine is not None and self._engine.is_shared,
        )
        self._add_context(new.id, call if is_bound else None)  # before it is stored: it can begin at once
        status = await store.accept(new)
        if isinstance(status, Problem) or status.id != new.id:
            self._forget(new.id)
        if isinstance(status, Problem):
            return status
        if status.state is LongCallState.ACCEPTED:
            await self._enqueue(status.id, context.principal)
        result = await self._await_end(store, call, status, notify)
        return result if status.id == new.id else _mark_replayed(result)

    async def read(
        self, principal: str, call_id: str, wait_s: float = 0.0, *, awaits_consent: bool = False
    ) -> CallStatus | Problem:
        """Return the status of a caller's call when it is over or asks its user, or after ``wait_s`` seconds.

        With ``awaits_consent``, this also waits for questions in the inbox.
        """
        store = await self._use_store()
        if isinstance(store, Problem):
            return store
        status = await store.read(principal, call_id)
        if isinstance(status, CallStatus) and wait_s > 0 and not status.is_over:
            with self._wait_turn(principal) as has_turn:
                if has_turn:
                    status = await self._follow(
                        store, principal, status, min(wait_s, MAX_WAIT_S), awaits_consent=awaits_consent
                    )
        return NO_CALL if status is None else status

    async def watch(self, principal: str, call_id: str) -> AsyncGenerator[CallStatus | Problem, None]:
        """Yield a call's status, and again after each change, until the call is over. A Problem also ends it."""
        store = await self._use_store()
        with self._wait_turn(principal) as has_turn, self._subscribe(call_id) as changed:
            status = store if isinstance(store, Problem) else await store.read(principal, call_id)
            if isinstance(status, Problem) or status is None or isinstance(store, Problem):
                yield status if isinstance(status, Problem) else NO_CALL
                return
            yield status
            while not status.is_over:
                if not has_turn:
                    yield _TOO_MANY_WAIT
                    return
                before = status.revision
                found = await self._await_change(store, principal, status, changed)
                if isinstance(found, Problem) or found is None:
                    yield found or NO_CALL
                    return
                status = found
                if status.revision != before:
                    yield status

    async def list_calls(self, principal: str, limit: int, cursor: str) -> CallPage | Problem:
        """Return the calls of a caller, newest first."""
        store = await self._use_store()
        return store if isinstance(store, Problem) else await store.list_calls(principal, limit, cursor)

    async def cancel(self, principal: str, call_id: str) -> CallStatus | Problem:
        """Cancel a caller's call. Return its status, which changes when its tool has stopped."""
        store = await self._use_store()
        if isinstance(store, Problem):
            return store
        status = await store.cancel(principal, call_id)
        if isinstance(status, CallStatus) and status.cancel_asked and not status.is_over:
            self._stop(call_id, _Stop.CANCELLED)
        self._notify(call_id)
        return NO_CALL if status is None else status

    async def answer(self, principal: str, call_id: str, answers: Mapping[str, Json]) -> CallStatus | Problem:
        """Record the user's answers to a waiting call. It resumes after the last answer."""
        store = await self._use_store()
        if isinstance(store, Problem):
            return store
        status = await store.answer(principal, call_id, answers)
        if isinstance(status, CallStatus) and status.state is LongCallState.ACCEPTED:
            await self._enqueue(call_id, principal)
        self._notify(call_id)
        return NO_CALL if status is None else status

    async def run(self, call_id: str) -> None:
        """Run the call if it can run here and now. Return when it is over, waits for its user, or runs elsewhere."""
        store = await self._use_store()
        if isinstance(store, Problem) or call_id in self._running:
            return
        try:
            # D-09: another caller's request, or a task that it began, can offer the call.
            context = self._contexts.get(call_id) or TaskContext()
            await asyncio.create_task(self._run_claimed(store, call_id), context=context)
        finally:
            await self._release(call_id)

    def _add_context(self, call_id: str, bound: Call | None) -> None:
        """Remember what a call of this request needs to run here and what is never stored."""
        self._contexts[call_id] = copy_context()
        if bound is not None:
            self._bound[call_id] = bound
        if len(self._contexts) > _MAX_CONTEXTS:  # other processes have run those calls
            self._contexts.popitem(last=False)

    def _forget(self, call_id: str) -> None:
        self._contexts.pop(call_id, None)
        self._bound.pop(call_id, None)

    async def _run_claimed(self, store: LongCallStore, call_id: str) -> None:
        # A call that was accepted here has not run yet, so its questions do not matter.
        asked = frozenset() if call_id in self._offered else await self._find_questions(call_id)
        lease = None if asked is None else await store.claim(call_id, asked)
        if not isinstance(lease, Lease):
            self._notify(call_id)
            return
        run = self._running[call_id] = _Run(lease, asyncio.current_task())
        self._notify(call_id)
        try:
            change = await self._run_lease(store, run, (asked or frozenset()) - lease.answers.keys())
            if change is not None:
                await self._record_end(store, lease, change)
                if change.result is not None:
                    self._forget(lease.id)
        finally:
            del self._running[call_id]
            self._notify(call_id)

    async def _find_questions(self, call_id: str) -> frozenset[str] | None:
        """Return the names of the inbox questions that a call waits for, or None if they cannot be read now."""
        if self._inbox is None:
            return frozenset()
        try:
            waits = await to_thread.run_sync(self._inbox.list_waits, call_id)
        except list_store_errors() as error:
            self._outages.record_failure("Long calls that wait for their users cannot be read (%s).", error)
            return None
        return frozenset(f"{_CONSENT}{one.question}" for one in waits)

    async def _run_lease(self, store: LongCallStore, run: _Run, asked: Set[str]) -> CallChange | None:
        """Return how the call ended or what it asks, or None if another process has it now.

        ``asked`` names the unanswered questions that the call waited for before it was claimed.
        """
        try:
            call = await self._restore(run.lease)
            # Another process can have run it and crashed before the claim. From the claim on, nobody else runs it.
            if (
                asked
                and isinstance(call, Call)
                and not asked <= (await self._find_questions(run.lease.id) or frozenset())
            ):
                call = build_interruption(call.tool.name, has_started=True)
        except asyncio.CancelledError as error:
            call = _end_stopped_run(run, "The tool", error)
        if isinstance(call, Problem):
            return None if run.stop is _Stop.LOST else CallChange(result=call)
        run.stores_all = call.tool.streams
        return await self._run_tool(store, call, run)

    async def _run_tool(self, store: LongCallStore, call: Call, run: _Run) -> CallChange | None:
        """Run the call's tool, and return what ``_run_lease`` returns."""

        async def notify(piece: Progress) -> None:
            run.add(piece)
            self._notify(call.call_id)

        # A connection to another server can run the call. It cancels the call there only if it is cancelled here.
        waits_for = run.lease.id if self._inbox is not None and call.context.needs_inbox else ""
        context = replace(call.context, is_over=lambda: run.stop is not None, inbox_call_id=waits_for)
        call = call._replace(context=context)
        has_secrets = bool(call.context.tokens or call.context.secrets)
        reporting = asyncio.create_task(self._report(store, run))
        try:
            with hide_secrets(call.context) if has_secrets else nullcontext():
                result = await self._execute(call, notify)
        except asyncio.CancelledError as error:
            result = _end_stopped_run(run, call.tool.name, error)
        finally:
            reporting.cancel()
        if run.stop is _Stop.LOST:
            return None
        asked = get_object(result.details, INPUT_REQUEST) if isinstance(result, Problem) else {}
        if asked:
            return CallChange(input=_write_question(asked, run.lease.answers))
        if self._inbox is not None and call.context.needs_inbox and (question := find_question(result)):
            return await self._wait_for_inbox(self._inbox, run.lease, question, result)
        ending = build_ending(call.tool, result)
        # The tool's last progress before its end has not been written yet.
        pinned = ending is None or ending.pinned
        return CallChange(progress=run.progress, message=run.message, result=result, pinned=pinned)

    async def _wait_for_inbox(self, inbox: Inbox, lease: Lease, question: str, result: Result) -> CallChange:
        """Return the change that makes the call wait until ``question`` is over."""
        # The question has it already, unless the asker did not get the call's context.
        try:
            from toolwire.stores.consent.approvals import ResumableCall  # loads sqlite3

            await to_thread.run_sync(inbox.add_call, ResumableCall(question, lease.principal, lease.id))
        except list_store_errors() as error:
            self._outages.record_failure("A long call was ended: its question cannot be stored (%s).", error)
            return CallChange(result=result, pinned=False)
        problem = result if isinstance(result, Problem) else NO_CALL
        asked = get_object(problem.details, "inbox")
        form: dict[str, Json] = {
            "mode": "form",
            "message": problem.message.removesuffix(_SEND_AGAIN),
            "requestedSchema": {"type": "object", "properties": {}},
        }
        if url := get_text(asked, "url"):
            form["url"] = url
        return CallChange(input={f"{_CONSENT}{question}": form})

    async def _report(self, store: LongCallStore, run: _Run) -> None:
        """Write to the store how far the call is, at most five times a second."""
        while True:
            await run.has_news.wait()
            run.has_news.clear()
            await store.change(run.lease, CallChange(progress=run.progress, message=run.message))
            self._notify(run.lease.id)
            await asyncio.sleep(_REPORT_EVERY_S)

    async def _record_end(self, store: LongCallStore, lease: Lease, change: CallChange) -> None:
        """Record how a run ended, as soon as the store is writable. After a lost lease, nothing changes."""
        pause = _FIRST_PAUSE_S
        while isinstance(await store.change(lease, change), Problem):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_RETRY_S)

    async def _restore(self, lease: Lease) -> Call | Problem:
        """Return the lease's call with its user's answers, or why it cannot run here."""
        call = self._bound.get(lease.id)
        if call is None:
            restored = _read_request(lease, await find_own_catalog(self._toolbox, lease.principal))
            if isinstance(restored, Problem):
                return restored
            call = restored
        given = lease.answers.items()
        answers = {name.partition(_AGAIN)[0]: one for name, one in given if not name.startswith(_CONSENT)}
        if any(
            name.startswith(_CONSENT) and get_object({"": one}, "").get("action") != "accept" for name, one in given
        ):
            return build_unanswered(call.tool.name)
        context = replace(call.context, input_responses=answers, call_id=lease.id)
        return call._replace(context=context, call_id=lease.id, key="")

    async def _await_end(self, store: LongCallStore, call: Call, status: CallStatus, notify: Notify) -> Result:
        """Return the result of an accepted call, or that it continues."""
        principal, wanted = call.context.principal, call.context.wait_s
        wait_s = self._limits.repeat_s if wanted is None else min(wanted, MAX_WAIT_S)
        if wait_s > 0 and not status.is_over:
            # A caller that can neither answer nor poll waits until its user has answered in the inbox.
            is_in_inbox = call.context.needs_inbox and bool(wanted)
            found = await self._follow(store, principal, status, wait_s, call, notify, awaits_consent=is_in_inbox)
            status = found if isinstance(found, CallStatus) else status
        elif status.result is not None:
            await _replay(call.tool, status.result, notify, 0)
        if status.result is not None:
            return status.result
        problem = build_continuation(status, has_key=bool(call.key), retry_after_ms=1_000 * RETRY_AFTER_S)
        return replace(problem, details={"call": write_status(status)})

    async def _follow(
        self,
        store: LongCallStore,
        principal: str,
        status: CallStatus,
        wait_s: float,
        call: Call | None = None,
        notify: Notify | None = None,
        *,
        awaits_consent: bool = False,
    ) -> CallStatus | Problem | None:
        """Return a call's status when it is over or asks its user, or after ``wait_s`` seconds.

        With ``awaits_consent``, this also waits for questions in the inbox. Meanwhile, ``notify`` gets everything that
        the tool sends, from the first piece on.
        """
        loop = asyncio.get_running_loop()
        until, sent = loop.time() + wait_s, 0
        run: _Run | None = None
        found: CallStatus | Problem | None = status
        with self._subscribe(status.id) as changed:
            while True:
                if notify is not None and (run := self._running.get(status.id, run)) is not None:
                    sent = await _send_pieces(run, notify, sent)
                left = until - loop.time()
                if not isinstance(found, CallStatus) or found.is_over or left <= 0:
                    break
                if found.state is LongCallState.WAITING and not (awaits_consent and _waits_for_consent(found)):
                    break
                most_s = min(left, _MAX_LOCAL_PAUSE_S)
                found = await self._await_change(store, principal, found, changed, most_s=most_s, run=run, sent=sent)
        if isinstance(found, CallStatus) and found.result is not None and call is not None and notify is not None:
            await _replay(call.tool, found.result, notify, sent)
        return found

    async def _await_change(
        self,
        store: LongCallStore,
        principal: str,
        status: CallStatus,
        changed: asyncio.Event,
        *,
        most_s: float = _MAX_LOCAL_PAUSE_S,
        run: _Run | None = None,
        sent: int = 0,
    ) -> CallStatus | Problem | None:
        """Return the status of a call after its next change or piece, or after ``most_s`` seconds."""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + most_s, _FIRST_PAUSE_S
        while True:
            # Another process cannot notify this one, so its calls are polled.
            left, is_here = until - loop.time(), status.id in self._running
            with suppress(TimeoutError):
                async with asyncio.timeout(left if is_here else min(pause, left)):
                    await changed.wait()
            has_changed = changed.is_set()
            changed.clear()  # before the read, so that changes meanwhile are also read
            if run is not None and run.dropped + len(run.pieces) > sent:
                return status
            found = await store.read(principal, status.id)
            if not isinstance(found, CallStatus) or found.revision != status.revision or loop.time() >= until:
                return found
            if has_changed and run is None:  # it can run here now, and have pieces
                return found
            pause = min(2 * pause, _MAX_PAUSE_S)

    @contextmanager
    def _subscribe(self, call_id: str) -> Generator[asyncio.Event, None, None]:
        """Give an event that is set each time that a call changes in this process."""
        changed = asyncio.Event()
        events = self._changed.setdefault(call_id, set())
        events.add(changed)
        try:
            yield changed
        finally:
            events.discard(changed)
            if not events and self._changed.get(call_id) is events:
                del self._changed[call_id]

    def _notify(self, call_id: str) -> None:
        for changed in self._changed.get(call_id, ()):
            changed.set()

    def _wait_turn(self, principal: str) -> WaitTurn:
        return WaitTurn(self._waiters, principal)

    def _stop(self, call_id: str, why: _Stop) -> None:
        run = self._running.get(call_id)
        if run is not None and run.task is not None and run.stop is None:
            run.stop = why
            run.task.cancel()

    async def _enqueue(self, call_id: str, principal: str) -> None:
        """Offer an accepted call to the engine, now or when the caller's earlier calls leave room."""
        if self._engine is None:
            return
        if self._engine.is_shared:
            await self._engine.enqueue(call_id)
        elif self._queued_each[principal] >= self._find_owner:
            self._queued.setdefault(principal, deque()).append(call_id)
        elif call_id not in self._offered:
            self._offered[call_id] = principal
            self._queued_each[principal] += 1
            if not await self._engine.enqueue(call_id):  # it stays in the store, and is found there later
                await self._release(call_id)

    async def _release(self, call_id: str) -> None:
        """Give a call's slot to the same caller's next call."""
        principal = self._offered.pop(call_id, None)
        if principal is None:
            return
        self._queued_each[principal] -= 1
        if not self._queued_each[principal]:
            del self._queued_each[principal]
        queued = self._queued.get(principal)
        if queued:
            following = queued.popleft()
            if not queued:
                del self._queued[principal]
            await self._enqueue(following, principal)

    async def _use_store(self) -> LongCallStore | Problem:
        """Return the store. If the server had no long tools when it started, the first call opens it."""
        if self._store is not None and self._maintenance is not None and not self._maintenance.done():
            return self._store
        async with self._opening:
            if self._store is None:
                try:
                    self._store = await to_thread.run_sync(self._open_store)
                except Exception:  # noqa: BLE001 - whatever it is, the call is answered
                    _log.exception("the store of long calls cannot be opened")
                    return UNAVAILABLE
            await self._begin(self._store)
        return self._store

    async def _begin(self, store: LongCallStore) -> None:
        # It has ended with its event loop if an application runs in one loop after another.
        if self._maintenance is None or self._maintenance.done():
            await begin_lifespan(store)
            if self._engine is None:
                self._engine = LocalEngine(self._limits.long_running)
            # It works for all callers, and this can be one caller's request.
            self._maintenance = asyncio.create_task(self._maintain(store), context=TaskContext())
            await asyncio.create_task(self._engine.begin(self), context=TaskContext())

    async def _maintain(self, store: LongCallStore) -> None:
        """Renew the leases of this process's calls, and run the calls that no process runs."""
        while True:
            pause_s = _POLL_INTERVAL_S
            try:
                if self._is_removed is not None and self._removal_checks:
                    await self._cancel_removed(store, self._is_removed)
                if await self._poll(store):
                    pause_s = _FIRST_PAUSE_S
            except Exception:  # noqa: BLE001 - it goes on with the next second
                _log.exception("looking after long calls failed")
            await asyncio.sleep(pause_s)

    async def _poll(self, store: LongCallStore) -> bool:
        """Update the calls of this process, and offer the ready ones. Return whether there are more."""
        known = dict(self._running)
        mine = await store.renew()
        if not isinstance(mine, Problem):
            for call_id, run in known.items():
                if self._running.get(call_id) is not run:
                    continue
                if call_id not in mine:
                    self._stop(call_id, _Stop.LOST)
                elif mine[call_id]:
                    self._stop(call_id, _Stop.CANCELLED)
        ready = await store.find_ready(_READY_AT_ONCE)
        if isinstance(ready, Problem) or self._engine is None:
            return False
        # GR-06: after a restart, thousands of ready calls might only need to be marked as interrupted. While most of
        # the found calls are new, search for more at once.
        before, self._ready = self._ready, frozenset(ready)
        has_more = len(ready) == _READY_AT_ONCE and 2 * len(self._ready - before) > _READY_AT_ONCE
        queued = {call_id for calls in self._queued.values() for call_id in calls}
        for call_id in ready:
            if call_id not in self._offered and call_id not in queued:
                await self._engine.enqueue(call_id)
        if self._inbox is not None:
            await self._take_decisions(self._inbox)
        return has_more

    async def _cancel_removed(self, store: LongCallStore, is_removed: Callable[[str], bool]) -> None:
        """Cancel the calls of callers for whom ``is_removed`` returns True, now and again a minute later."""
        # D-38: they would continue with the server's credentials. A process with earlier settings can still accept some
        # until it has ended. Later checks would find calls of keys that only newer processes know.
        now = asyncio.get_running_loop().time()
        if now < self._removal_check_at:
            return
        count = await store.cancel_removed(is_removed)
        if isinstance(count, Problem):
            return
        if count:
            _log.warning("%s long calls are cancelled: their callers had keys that this server does not take", count)
        self._removal_checks -= 1
        self._removal_check_at = now + _REMOVAL_S

    async def _take_decisions(self, inbox: Inbox) -> None:
        """Resume the calls whose inbox questions are over."""
        try:
            for waiting, is_answered in await to_thread.run_sync(inbox.list_over_calls, _READY_AT_ONCE):
                # After a yes or a no, the call is checked again and uses the answer. Without an answer, it ends.
                answer: Json = {"action": "accept" if is_answered else "cancel"}
                status = await self.answer(waiting.principal, waiting.call, {f"{_CONSENT}{waiting.question}": answer})
                # A running call has not begun to wait yet. A call that cannot be read is tried again.
                if isinstance(status, CallStatus) and status.state is LongCallState.RUNNING:
                    continue
                if not isinstance(status, Problem) or status.kind is Kind.NOT_FOUND:
                    await to_thread.run_sync(inbox.remove_call, waiting)
        except list_store_errors() as error:
            self._outages.record_failure("Long calls that wait for their users cannot be read (%s).", error)
        else:
            self._outages.record_success()


_CONSENT = "consent-"
"""The prefix of an inbox question's name. The rest is its ID there."""
_SEND_AGAIN = " Then send the same call again."
_AGAIN = "~"
"""The suffix of the key of a question that is asked again."""

_TOO_MANY_WAIT = Problem(
    kind=Kind.RATE_LIMITED,
    message="You are waiting for too many calls at the same time. Read this one later.",
    can_retry=True,
    retry_after_ms=10_000,
)


def _write_question(asked: Mapping[str, Json], answers: Mapping[str, Json]) -> dict[str, Json]:
    """Return a tool's questions, each under a name that no earlier question of the call had."""
    questions: dict[str, Json] = {}
    for one in (asked, *asked.get("others", ())):
        key = str(one["key"])
        number = sum(1 for name in answers if name.partition(_AGAIN)[0] == key)
        name = f"{key}{_AGAIN}{number + 1}" if number else key
        questions[name] = {"mode": "form", "message": one["message"], "requestedSchema": one["schema"]}
    return questions


async def _send_pieces(run: _Run, notify: Notify, sent: int) -> int:
    """Send the pieces of ``run`` from number ``sent`` on. Return how many were sent or dropped."""
    while sent < run.dropped + len(run.pieces):
        sent = max(sent, run.dropped)
        await notify(run.pieces[sent - run.dropped])
        sent += 1
    return sent


async def _replay(tool: Tool, result: Result, notify: Notify, sent: int) -> None:
    """Send the items of a stream that were not sent yet. They are the result."""
    if tool.streams and isinstance(result, Value) and isinstance(result.value, list):
        for piece in result.value[sent:]:
            await notify(Progress(piece))


def _mark_replayed(result: Result) -> Result:
    """Return the result of a call that was sent before, marked as replayed."""
    if isinstance(result, Value):
        return Value(result.value, mark_replayed(result.notes))
    return result if result.kind is Kind.ACCEPTED else replace(result, details=mark_replayed(result.details))


def _write_request(call: Call) -> bytes:
    """Return what another process needs to run ``call``. It never contains a token or a secret."""
    context = call.context
    return jsontext.write(
        {
            "tool": call.tool.id,
            "arguments": dict(call.arguments),
            "scopes": None if context.scopes is None else sorted(context.scopes),
            "client_id": context.client_id,
            "group": context.group,
            "user_id": context.user_id,
            "user_info": dict(context.user_info),
            "takes_input": context.takes_input,
            "needs_inbox": context.needs_inbox,
            "traceparent": context.traceparent,
            "trace_id": context.trace_id,
        }
    )


def _waits_for_consent(status: CallStatus) -> bool:
    return all(name.startswith(_CONSENT) for name in status.input or ())


def _read_request(lease: Lease, catalog: Catalog) -> Call | Problem:
    """Return the call that ``_write_request`` wrote, with the tool that is served now."""
    data = jsontext.read(lease.request) if lease.request else None
    if not isinstance(data, dict):
        return build_interruption("The tool", has_started=False)
    tool = catalog.find_or_suggest(get_text(data, "tool"))
    if isinstance(tool, Problem):
        return tool
    scopes, user_id = data.get("scopes"), data.get("user_id")
    context = Context(
        principal=lease.principal,
        scopes=frozenset(scopes) if isinstance(scopes, list) else None,
        client_id=get_text(data, "client_id"),
        group=get_text(data, "group"),
        user_id=user_id if isinstance(user_id, str) else None,
        user_info=get_object(data, "user_info"),
        takes_input=data.get("takes_input") is True,
        must_confirm=data.get("needs_inbox") is True,
        needs_inbox=data.get("needs_inbox") is True,
        traceparent=get_text(data, "traceparent"),
        trace_id=get_text(data, "trace_id"),
    )
    return Call(tool, get_object(data, "arguments"), lease.id, context)
