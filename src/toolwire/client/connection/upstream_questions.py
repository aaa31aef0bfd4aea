"""Pass the questions of a server on to the caller of a server in front of it, which holds the call until the answer.

To the caller the call ends with the question, as that of any tool that asks, and is made again with the answer. To the
server it is one call that goes on.

Rules:
- An answer is for the one question that waits. The state that comes with it is signed, valid once, and bound to the
  caller, the tool and the arguments; the server in front checks that before it gets here.
- A question waits for five minutes; then the user counts as one who left. At most 200 calls are held, 20 of one caller.
- The caller is told who asks: first the origin, then what the server calls itself. A page to open is not passed on.
- A held call lives in this process. After a restart, or in another worker, its answer is refused.
"""
# MC-09

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Final, TypeAlias

from toolwire.consent.input_display import describe_asker
from toolwire.core.model import Call, Kind, Problem, Progress, Result
from toolwire.core.no_user_input import INPUT_REQUEST
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.core.user_input import CANCELLED, InputAction, InputReply, InputRequest, InputResponse
from toolwire.framing.form_schema import write_fields
from toolwire.framing.jsontext import get_object

WAIT_S: Final = 300.0
MAX_PENDING: Final = 200
MAX_PENDING_PER_CALLER: Final = 20

Run: TypeAlias = Callable[[Call, Notify], Awaitable[Result]]


class _PendingCall:
    """One call that goes on while its caller is asked. ``question`` is what waits for an answer, if something does."""

    def __init__(self, call: Call, notify: Notify) -> None:
        self.id = secrets.token_urlsafe(16)
        self.principal = call.context.principal
        self.notify = notify
        self.task: asyncio.Task[Result] | None = None
        self.question: InputRequest | None = None
        self.number = 0
        self._asked = asyncio.Event()
        self._answer: asyncio.Future[InputReply] | None = None

    @property
    def key(self) -> str:
        """The name of the answer to the question that waits."""
        return f"{self.id}-{self.number}"

    async def ask(self, asked: InputRequest) -> InputReply:
        """Return the answer of the caller to ``asked``."""
        self.number += 1
        self.question = asked
        self._answer = asyncio.get_running_loop().create_future()
        self._asked.set()
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._answer
        except TimeoutError:
            return CANCELLED
        finally:
            self.question = self._answer = None

    def answer(self, reply: InputReply) -> None:
        """Give the answer to the question that waits."""
        self._asked.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    async def wait_for_question(self) -> None:
        """Return when a question waits."""
        await self._asked.wait()


_CURRENT: ContextVar[_PendingCall | None] = ContextVar("toolwire_held_call", default=None)


async def ask_caller(asked: InputRequest) -> InputReply:
    """Ask the caller of the call that runs; decline if it cannot be asked. This is a ``provide_input``."""
    pending = _CURRENT.get()
    return None if pending is None or asked.url else await pending.ask(asked)


class UpstreamQuestions:
    """The calls of one connection that wait for an answer of their caller."""

    def __init__(self) -> None:
        self._pending: dict[str, _PendingCall] = {}

    async def run(self, call: Call, notify: Notify, run: Run) -> Result:
        """Return the result of ``call``, which ``run`` makes, or the Problem with a question to its caller."""
        pending = self._find(call)
        if isinstance(pending, Problem):
            return pending
        if pending is None or pending.task is None:
            if not self._has_room(call):
                # CR-01: nobody can be asked, which is not what the user declined.
                return await run(call._replace(context=replace(call.context, takes_input=False)), notify)
            pending = _PendingCall(call, notify)
            task = pending.task = asyncio.create_task(self._run_pending(pending, call, run))
            task.add_done_callback(_take_outcome)
        else:
            task = pending.task
            pending.notify = notify
            pending.answer(_read_answer(get_object(call.context.input_responses or {}, pending.key)))
        return await self._wait(pending, task)

    async def _run_pending(self, pending: _PendingCall, call: Call, run: Run) -> Result:
        # No method: a question to the user is a copy of the call, with all that it holds.
        async def report(progress: Progress) -> None:
            """Give ``progress`` to the request that the caller has made last."""
            await pending.notify(progress)

        _CURRENT.set(pending)
        try:
            return await run(call, report)
        finally:
            self._pending.pop(pending.id, None)

    async def _wait(self, pending: _PendingCall, task: asyncio.Task[Result]) -> Result:
        question = asyncio.create_task(pending.wait_for_question())
        try:
            await asyncio.wait({task, question}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()  # the caller has gone
            raise
        finally:
            question.cancel()
        asked = pending.question
        if task.done() or asked is None:
            return await task
        pending.notify = ignore_progress
        self._pending[pending.id] = pending
        # AT-41: first in our words who asks, for the caller's user sees this as a form of the server in front.
        message = f"{describe_asker(asked)} It asks:\n\n{asked.message}"
        if asked.faults:
            faults = "; ".join(f"{field} {fault}" for field, fault in asked.faults.items())
            message = f"{message}\n\nYour previous answer was not accepted: {faults}."
        details = {"key": pending.key, "name": pending.key, "message": message, "schema": write_fields(asked.fields)}
        return Problem(kind=Kind.MISSING_REQUIREMENTS, message=message, details={INPUT_REQUEST: details})

    def _find(self, call: Call) -> _PendingCall | Problem | None:
        """Return the held call that ``call`` answers; None if it is a new one, and why there is none any more."""
        responses = call.context.input_responses
        if not responses:
            return None
        for key in responses:
            pending = self._pending.get(key.rpartition("-")[0])
            if pending is not None and pending.principal == call.context.principal and pending.key in responses:
                return self._pending.pop(pending.id)
        text = f"{call.tool.name} was not continued: its question has expired, or another process is handling it."
        return Problem(kind=Kind.CONFLICT, message=f"{text} Send the call again without its state.")

    def _has_room(self, call: Call) -> bool:
        own = sum(pending.principal == call.context.principal for pending in self._pending.values())
        return len(self._pending) < MAX_PENDING and own < MAX_PENDING_PER_CALLER


def _take_outcome(task: asyncio.Task[Result]) -> None:
    """Take what a call raised whose caller never came back."""
    if not task.cancelled():
        task.exception()


def _read_answer(given: object) -> InputReply:
    """Return what the caller's client says that its user did."""
    if isinstance(given, dict) and given.get("action") == "accept":
        content = given.get("content")
        return content if isinstance(content, dict) else {}
    is_cancelled = isinstance(given, dict) and given.get("action") == "cancel"
    return InputResponse(InputAction.CANCEL) if is_cancelled else None
