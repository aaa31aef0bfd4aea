"""The only place where a codec meets a Toolbox: one call, from what was read to how it ended.

Rules:
- What may refuse a call is one ordered tuple of checks, run by one loop.
- Nothing raises out of here but cancellation: a bug is a Problem outside and a record in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter
from typing import assert_never

from toolwire.core.check import ALLOW, Allow, Ask, Check, Deny, KnownResult, Verdict
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem, Result
from toolwire.core.toolbox import Notify, Toolbox, ignore_progress
from toolwire.server.developer_messages import expose_developer_message
from toolwire.server.limits import ServerLimits
from toolwire.telemetry.redaction import scrub_problem

from .deadline_scheduler import DeadlineExceeded, DeadlineScheduler
from .idempotency import IdempotencyRunner
from .rate_count import Count

_log = logging.getLogger("toolwire")
_NOBODY = ANONYMOUS.principal


class Service:
    """Runs calls of one Toolbox within limits. ``running`` is the number of calls in flight now.

    With ``once`` a call that has a key is recorded, and runs once; ``count`` holds tools to their limits. With
    ``debug`` callers are told what is else only for the log. [A-53]
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        checks: Sequence[Check],
        limits: ServerLimits,
        watch: DeadlineScheduler,
        once: IdempotencyRunner | None = None,
        count: Count | None = None,
        debug: bool = False,
    ) -> None:
        self._toolbox = toolbox
        self._once = once
        self._checks = tuple(checks)
        self._count = count
        self._most = limits.running
        self._tool_s = limits.tool_s
        self._watch = watch
        self._debug = debug
        self._each = limits.running_each if limits.running_each is not None else (limits.running + 1) // 2
        self._running_of: dict[str, int] = {}
        self.running = 0
        self.draining = False

    def refusal(self) -> Problem | None:
        """Return why no new call is taken now, or None. Nothing has run then: the caller may come back. [A-41, R1]"""
        if self.draining:
            return Problem(
                kind=Kind.OVERLOADED,
                message="This server is shutting down; the call did not run.",
                can_retry=True,
                retry_after_ms=5_000,
            )
        if self.running >= self._most:
            return Problem(
                kind=Kind.OVERLOADED,
                message="This server is busy; the call did not run.",
                can_retry=True,
                retry_after_ms=1_000,
            )
        return None

    async def run(self, call: Call, notify: Notify = ignore_progress) -> tuple[Result, float]:
        """Return how ``call`` ended, and the milliseconds it took."""
        started = perf_counter()
        caller = call.context.principal
        somebody = caller != _NOBODY
        if self.draining or self.running >= self._most or (somebody and self._running_of.get(caller, 0) >= self._each):
            return self.refusal() or self._crowding(), 0.0
        for check in self._checks:
            verdict = check(call)
            if verdict is not ALLOW:
                stopped = _stopped(verdict)
                if stopped is not None:
                    return stopped, 0.0
        self.running += 1
        if somebody:
            self._running_of[caller] = self._running_of.get(caller, 0) + 1
        try:
            work = self._bounded if call.tool.rate_limit is None else self._counted
            if call.key and self._once is not None:
                result = await self._once.run(call, notify, work)
            else:
                result = await work(call, notify)
        finally:
            self.running -= 1
            if somebody:
                self._left(caller)
        if self._debug:
            result = expose_developer_message(result)
        return result, (perf_counter() - started) * 1_000

    def _crowding(self) -> Problem:
        """Return why a caller has no more calls taken now: what is left is for the others. [D-34]"""
        return Problem(
            kind=Kind.RATE_LIMITED,
            message=f"{self._each} of your calls are running here already; this one did not run.",
            can_retry=True,
            retry_after_ms=1_000,
        )

    def _left(self, caller: str) -> None:
        left = self._running_of[caller] - 1
        if left:
            self._running_of[caller] = left
        else:
            del self._running_of[caller]

    async def _counted(self, call: Call, notify: Notify) -> Result:
        """Count ``call`` and run it, or return why it was called too often: inside what the ledger runs once."""
        refusal = None if self._count is None else await self._count(call)
        return await self._bounded(call, notify) if refusal is None else refusal

    async def _bounded(self, call: Call, notify: Notify) -> Result:
        limit = call.tool.timeout_s or self._tool_s
        try:
            result = await self._watch.over(self._toolbox.run(call, notify), limit)
        except DeadlineExceeded:
            return _timed_out(call, limit)
        except asyncio.CancelledError:
            if self.draining:  # the grace of a stop is over: the caller still gets an answer
                return Problem(kind=Kind.CANCELLED, message=f"{call.tool.name} was cancelled: the server stopped.")
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a Toolbox that raises has a bug; the caller is answered
            _log.exception("running %s failed in call %s", call.tool.id, call.call_id)
            text = "The server failed; its log has the details."
            return Problem(kind=Kind.INTERNAL, message=text, developer_message=type(error).__name__)
        return scrub_problem(result) if isinstance(result, Problem) else result  # before anybody keeps it


def _timed_out(call: Call, limit: float) -> Problem:
    return Problem(
        kind=Kind.TIMEOUT,
        message=f"{call.tool.name} was cancelled: it took longer than {limit:g} seconds.",
    )


def _stopped(verdict: Verdict) -> Result | None:
    match verdict:
        case Allow():
            return None
        case Deny(problem):
            return problem
        case KnownResult(result):
            return result
        case Ask(question):
            return Problem(
                kind=Kind.DENIED,
                message=f"{question.call.tool.name} needs a person's consent, and this server has no way to ask.",
                details={"denied": True},
            )
        case _:
            assert_never(verdict)
