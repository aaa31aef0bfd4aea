"""Let a call wait until its user has decided in the inbox, and then continue.

Rules:
- A waiting call does not count as a running one. It is checked again before it runs, and then uses the answer.
- If its client disconnects while it waits, nothing runs.
- One task polls the inbox for all waiting calls of a server, and only while there are any.
- At most 1,000 calls wait at a time, and at most 50 for one caller. Further calls are answered at once.
"""
# GW-04

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable
from typing import Final

from toolwire.core.check import ALLOW, Verdict
from toolwire.core.model import Call, Kind, Problem, Result
from toolwire.core.toolbox import Notify, StartCall, ignore_progress
from toolwire.framing.jsontext import get_object, get_text
from toolwire.server.http.exchange import Exchange
from toolwire.server.http.response_stream import REVOKED, IsStillAuthorized
from toolwire.server.limits import QUESTION_WAIT_S
from toolwire.stores.outage_log import OutageLog, list_store_errors

from .confirmation import ConfirmationCheck, DeferredVerdict, is_declined
from .inbox import Inbox

_POLL_INTERVAL_S: Final = 0.25
_REMOTE_POLL_INTERVAL_S: Final = 1.0
_WAITERS: Final = 1_000
_WAITERS_EACH: Final = 50

_log = logging.getLogger("toolwire")


class WaitTurn:
    """A caller's slot for a waiting call, as a context manager. It is false if too many calls wait already.

    At most 1,000 calls that share ``waiters`` can wait, and at most 50 of one ``principal``.
    """

    # D-34

    def __init__(self, waiters: Counter[str], principal: str) -> None:
        self._waiters = waiters
        self._principal = principal
        self._has_turn = waiters.total() < _WAITERS and waiters[principal] < _WAITERS_EACH

    def __enter__(self) -> bool:
        if self._has_turn:
            self._waiters[self._principal] += 1
        return self._has_turn

    def __exit__(self, *_: object) -> None:
        if self._has_turn:
            self._waiters[self._principal] -= 1
            if not self._waiters[self._principal]:
                del self._waiters[self._principal]


class InboxWaiters:
    """One server's calls that wait for answers in ``inbox``."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._outages = OutageLog(_log, "Questions of waiting calls can be read again.")
        self._poll_interval_s = _REMOTE_POLL_INTERVAL_S if inbox.is_remote else _POLL_INTERVAL_S
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._waiters: Counter[str] = Counter()
        self._looking: asyncio.Task[None] | None = None
        self._is_draining = False

    def drain(self) -> None:
        """Let each call that waits be answered now, without a decision."""
        self._is_draining = True
        self._notify(self._waiting)

    async def wait(self, question: str, principal: str, wait_s: float) -> bool:
        """Return whether ``question`` is answered within ``wait_s`` seconds."""
        turn = WaitTurn(self._waiters, principal)
        with turn as has_turn:
            if not has_turn or self._is_draining:
                return False
            over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(question, set()).add(over)
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._poll())
            try:
                await asyncio.wait({over}, timeout=wait_s)
            finally:
                others = self._waiting.get(question, set())
                others.discard(over)
                if not others:
                    self._waiting.pop(question, None)
            if not over.done() or self._is_draining:
                return False
            try:
                is_answered = await asyncio.to_thread(self._inbox.is_answered, question)
            except list_store_errors() as error:
                self._outages.record_failure("A call stopped waiting: its question cannot be read (%s).", error)
                return False
            self._outages.record_success()
            return is_answered

    async def _poll(self) -> None:
        """Wake the calls whose questions are over, until no call waits."""
        while self._waiting:
            await asyncio.sleep(self._poll_interval_s)
            # A question that arrives while the inbox is read can be missing from the result. It is not over.
            asked = frozenset(self._waiting)
            try:
                still_open = await asyncio.to_thread(self._inbox.list_open)
            except list_store_errors() as error:
                _log.debug("looking for answers failed: %s", error)
                continue
            self._notify(asked - still_open)

    def _notify(self, questions: Iterable[str]) -> None:
        for question in questions:
            for over in self._waiting.get(question, ()):
                if not over.done():
                    over.set_result(None)


class InboxWaiter:
    """A call that waits for its user, and then runs.

    ``exchange`` is set if the call, once it runs, continues without its client. While it waits, it ends with its
    client. It does not run if ``is_unrevoked`` returns False then.
    """

    def __init__(
        self,
        waits: InboxWaiters,
        call: Call,
        start: StartCall,
        exchange: Exchange | None,
        is_unrevoked: IsStillAuthorized | None,
    ) -> None:
        self._waits, self._call, self._start, self._exchange = waits, call, start, exchange
        self._is_unrevoked = is_unrevoked
        self._is_waiting = self._has_left = False

    def survives_disconnect(self) -> bool:
        """Return whether the call continues after its client disconnects: it is recorded and does not wait."""
        self._has_left = True
        return bool(self._call.key) and not self._is_waiting

    async def run(self, notify: Notify = ignore_progress) -> tuple[Result, float]:
        """Return the call's result or, without an answer in time, the question to its user."""
        context, loop = self._call.context, asyncio.get_running_loop()
        until = loop.time() + min(context.inbox_wait_s, QUESTION_WAIT_S)
        result, duration_ms = await self._start(notify)
        while (question := find_question(result)) and (left := until - loop.time()) > 0:
            # The client can have disconnected before the call began to wait.
            if self._is_alone() or not await self._wait(self._waits.wait(question, context.principal, left)):
                break
            if self._is_unrevoked is not None and not await self._is_unrevoked():  # D-38
                return REVOKED, duration_ms
            result, duration_ms = await self._start(notify)
        return result, duration_ms

    def _is_alone(self) -> bool:
        return self._has_left or (self._exchange is not None and self._exchange.is_disconnected())

    async def _wait(self, answered: Awaitable[bool]) -> bool:
        self._is_waiting = True
        if self._exchange is not None:
            self._exchange.cancel_on_disconnect()
        try:
            return await answered and not self._is_alone()
        finally:
            self._is_waiting = False
            if self._exchange is not None:
                self._exchange.ignore_disconnect()


def leave_long_calls(check: ConfirmationCheck) -> ConfirmationCheck:
    """Return ``check``, changed to accept a long call whose user decides in the inbox. The call then waits there."""
    # GW-04

    def check_others(call: Call) -> Verdict | DeferredVerdict:
        waits = call.tool.long and call.context.needs_inbox and not is_declined(call)
        return ALLOW if waits else check(call)

    return check_others


def find_question(result: Result) -> str:
    """Return the ID of the inbox question that ``result`` waits for, or an empty string if it waits for none."""
    if not isinstance(result, Problem) or result.kind is not Kind.UNCONFIRMED:
        return ""
    return get_text(get_object(result.details, "inbox"), "id")
