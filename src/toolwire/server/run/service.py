"""Run one call: capacity, checks, idempotency, rate limit, deadline, tool. Only here a protocol meets a Toolbox.

Rules:
- All checks that may refuse a call are in one ordered tuple.
- Only a cancellation is raised: any other failure is returned as a Problem and logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple, assert_never

from toolwire.core.call_by_name import TOOLKIT
from toolwire.core.check import ALLOW, Allow, Ask, Check, Deny, KnownResult, Verdict
from toolwire.core.model import ANONYMOUS, Call, Kind, Problem, Result
from toolwire.core.toolbox import Notify, StoresResources, Toolbox, embed_stored_bytes, ignore_progress
from toolwire.framing.response_fields import HEADERS, REFUSED_BY
from toolwire.limits import RulesByCaller
from toolwire.server.asking.confirmation import ConfirmationCheck, ConfirmationTokens, DeferredVerdict, decide_in_thread
from toolwire.server.asking.user_asker import InputStates
from toolwire.server.deadline_scheduler import DeadlineExceeded, DeadlineScheduler
from toolwire.server.limits import ServerLimits
from toolwire.server.long_calls.long_calls import LongCalls
from toolwire.telemetry.redaction import scrub_problem

from .idempotency import IdempotencyRunner, Run
from .own_tools import OwnTools
from .rate_count import CountCall
from .stored_items import store_items

_log = logging.getLogger("toolwire")
_ANONYMOUS = ANONYMOUS.principal
_CANCELLING_S = 2.0
_MAX_DEVELOPER_MESSAGE = 1_000
_TRACEBACK = "Traceback (most recent call last)"


class RunningCall(NamedTuple):
    """A call that runs: its id, the name of its tool, the name of its caller, and for how many seconds it has run."""

    id: str
    tool: str
    caller: str
    running_s: float


class Service:
    """Runs the calls of one Toolbox within limits. ``active_calls`` is the number of calls that run now.

    With ``idempotency``, a call with a key is recorded and runs once. ``count`` enforces the rate limits of tools. With
    ``debug``, callers get developer messages, which are otherwise only logged. ``inputs`` keeps the answers of users to
    tools that ask. ``rules`` say how many calls each caller may have. ``checks_of_accepted``
    look again at a long call each time that it begins or goes on.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        checks: Sequence[Check | ConfirmationCheck],
        limits: ServerLimits,
        scheduler: DeadlineScheduler,
        idempotency: IdempotencyRunner | None = None,
        count: CountCall | None = None,
        debug: bool = False,
        inputs: InputStates | None = None,
        rules: RulesByCaller | None = None,
        checks_of_accepted: Sequence[Check | ConfirmationCheck] = (),
    ) -> None:
        self._check_unknown_key: ConfirmationCheck | None = None
        self._checks_of_accepted = tuple(checks_of_accepted)
        self._long_calls: LongCalls | None = None
        self._inputs = InputStates(ConfirmationTokens(), None) if inputs is None else inputs
        self._toolbox = toolbox
        self._own_tools: OwnTools | None = None
        self._stores_resources = isinstance(toolbox, StoresResources)
        self._idempotency = idempotency
        self._checks = tuple(checks)
        self._count = count
        self._max_running = limits.running
        self._tool_s = limits.tool_s
        self._long_s = limits.long_s
        self._scheduler = scheduler
        self._debug = debug
        self._rules = rules
        self._max_running_each = limits.running_each if limits.running_each is not None else (limits.running + 1) // 2
        self._active_by_caller: dict[str, int] = {}
        self.active_calls: int = 0
        self.draining = False

    def add_own_tools(self, own_tools: OwnTools) -> None:
        """Leave the calls of the tools that find others to ``own_tools``."""
        self._own_tools = own_tools

    def add_key_check(self, check: ConfirmationCheck) -> None:
        """Pass each call whose key is not recorded through ``check``."""
        self._check_unknown_key = check

    def add_long_calls(self, long_calls: LongCalls) -> None:
        """Leave the calls of long tools to ``long_calls``, once their checks have passed."""
        self._long_calls = long_calls

    def list_running(self, most: int) -> list[RunningCall]:
        """Return at most ``most`` of the calls that wait for their tools now, the oldest first; no long calls."""
        found = [
            RunningCall(
                one.call_id, one.tool.name, one.context.principal, (one.tool.timeout_s or self._tool_s) - left_s
            )
            for one, left_s in self._scheduler.list_running()
            if isinstance(one, Call)
        ]
        return sorted(found, key=lambda call: -call.running_s)[:most]

    def build_refusal(self) -> Problem | None:
        """Return the refusal of a new call while the server drains or is full, or None. The call may be sent again."""
        # A-41, R1
        if self.draining:
            return Problem(
                kind=Kind.OVERLOADED,
                message="The call did not run: this server is shutting down.",
                can_retry=True,
                retry_after_ms=5_000,
            )
        if self.active_calls >= self._max_running:
            return Problem(
                kind=Kind.OVERLOADED,
                message="The call did not run: this server is busy.",
                can_retry=True,
                retry_after_ms=1_000,
            )
        return None

    def run(self, call: Call, notify: Notify = ignore_progress) -> Coroutine[Any, Any, tuple[Result, float]]:
        """Run ``call``; return its result and the milliseconds that it took."""
        # No coroutine of its own: most callers have no user who can be asked.
        return self._run_asking(call, notify) if call.context.takes_input else self._run(call, notify)

    async def _run_asking(self, call: Call, notify: Notify) -> tuple[Result, float]:
        """Run ``call``, whose tool may ask the user: with the answers so far, and with the question as its result."""
        # MC-09
        # A state is redeemed once, where all who share it look: with a database, not on the event loop.
        is_slow = self._inputs.is_remote and call.context.input_responses is not None
        restored = await asyncio.to_thread(self._inputs.restore, call) if is_slow else self._inputs.restore(call)
        if isinstance(restored, Problem):
            return restored, 0.0
        result, duration_ms = await self._run(restored, notify)
        return self._inputs.add_state(restored, result), duration_ms

    async def _run(self, call: Call, notify: Notify) -> tuple[Result, float]:
        started = perf_counter()
        caller = call.context.principal
        is_named = caller != _ANONYMOUS  # callers without a name cannot be told apart, so they have no quota
        if (
            self.draining
            or self.active_calls >= self._max_running
            or (is_named and self._active_by_caller.get(caller, 0) >= self._find_max_concurrent(caller))
        ):
            return self.build_refusal() or self._build_quota_refusal(caller), 0.0
        # AT-58: before the checks, one of which may wait for a database: else calls that come meanwhile all find room.
        self.active_calls += 1
        if is_named:
            self._active_by_caller[caller] = self._active_by_caller.get(caller, 0) + 1
        try:
            stopped = await _pass_checks(self._checks, call)
            if stopped is not None:
                return stopped, 0.0
            result = await self._run_checked(call, notify)
        finally:
            self.active_calls -= 1
            if is_named:
                self._release_quota(caller)
        if self._debug:
            result = expose_developer_message(result)
        return result, (perf_counter() - started) * 1_000

    def _find_max_concurrent(self, caller: str) -> int:
        """Return how many calls ``caller`` may have at a time."""
        own = None if self._rules is None else self._rules.find(caller).running
        return self._max_running_each if own is None else own

    def _build_quota_refusal(self, caller: str) -> Problem:
        """Return the refusal of a caller who has as many running calls as allowed."""
        # D-34: the rest of the capacity is for the other callers.
        most = self._find_max_concurrent(caller)
        return Problem(
            kind=Kind.RATE_LIMITED,
            message=f"This call did not run: {most} of your calls are already running.",
            can_retry=True,
            retry_after_ms=1_000,
        )

    def _release_quota(self, caller: str) -> None:
        left = self._active_by_caller[caller] - 1
        if left:
            self._active_by_caller[caller] = left
        else:
            del self._active_by_caller[caller]

    async def run_accepted(self, call: Call, notify: Notify) -> Result:
        """Run a long call that was accepted, within its own time limit.

        Raises:
            asyncio.CancelledError: the call was cancelled, or the server stops.
        """
        # LC-04
        stopped = await _pass_checks(self._checks_of_accepted, call)
        if stopped is not None:
            return stopped
        limit = call.tool.timeout_s or self._long_s
        # A connection to another server waits for it so long, and has the rest of the time to cancel the call there.
        context = replace(call.context, wait_s=max(limit - _CANCELLING_S, limit / 2))
        return await self._run_tool(call._replace(context=context), notify, limit)

    def _run_checked(self, call: Call, notify: Notify) -> Coroutine[Any, Any, Result]:
        """Run a call that passed its checks; one of a long tool is only started."""
        is_uncounted = call.tool.rate_limit is None and self._rules is None
        if call.tool.long and self._long_calls is not None:
            return self._long_calls.start(store_items(call), notify, None if is_uncounted else self.count_call)
        work = self._run_within_deadline if is_uncounted else self._run_counted
        if call.key and self._idempotency is not None:
            return self._idempotency.run(call, notify, self._add_key_check(work))
        return work(call, notify)

    def _add_key_check(self, work: Run) -> Run:
        # PL-07: after the ledger, which gives a recorded result without a question.
        check = self._check_unknown_key
        if check is None:
            return work

        async def run(call: Call, notify: Notify) -> Result:
            stopped = await _pass_checks((check,), call)
            return await work(call, notify) if stopped is None else stopped

        return run

    async def count_call(self, call: Call) -> Problem | None:
        """Count ``call`` against the rate limit of its tool, and return a Problem if there were too many."""
        return None if self._count is None else await self._count(call)

    async def _run_counted(self, call: Call, notify: Notify) -> Result:
        """Count ``call`` against the rate limit of its tool, then run it or refuse it."""
        refusal = await self.count_call(call)
        return await self._run_within_deadline(call, notify) if refusal is None else refusal

    async def _run_within_deadline(self, call: Call, notify: Notify) -> Result:
        try:
            return await self._run_tool(call, notify, call.tool.timeout_s or self._tool_s)
        except asyncio.CancelledError:
            if self.draining:  # the grace period is over; the caller still gets an answer
                return Problem(
                    kind=Kind.CANCELLED, message=f"{call.tool.name} was cancelled because the server stopped."
                )
            raise

    async def _run_tool(self, call: Call, notify: Notify, limit: float) -> Result:
        try:
            # CO-02: a long call is listed where it is kept.
            purpose = None if call.tool.long else call
            own = self._own_tools if call.tool.toolkit == TOOLKIT else None
            running = (self._toolbox if own is None else own).run(call, notify)
            result = await self._scheduler.run_within(running, limit, purpose)
        except DeadlineExceeded:
            return _build_timeout(call, limit)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a Toolbox that raises has a bug; the caller is answered
            _log.exception("running %s failed in call %s", call.tool.id, call.call_id)
            text = "The server failed. See its log."
            return Problem(kind=Kind.INTERNAL, message=text, developer_message=type(error).__name__)
        if isinstance(result, Problem):
            if result.kind is Kind.ACCEPTED:
                result = _build_unfinished(call)
            elif REFUSED_BY in result.details:
                result = _build_foreign_refusal(call, result)
            return scrub_problem(result)  # before it is stored or logged
        return embed_stored_bytes(result, self._toolbox) if self._stores_resources else result


def _build_unfinished(call: Call) -> Problem:
    """Return the Problem of a call that goes on at another server; its id there means nothing to a caller here."""
    text = (
        f"{call.tool.name} did not finish in the time that this server waits for it. Another server is processing it."
    )
    return Problem(kind=Kind.TIMEOUT, message=text)


def _build_foreign_refusal(call: Call, problem: Problem) -> Problem:
    """Return the Problem of a call for which another server refused the credentials of this program.

    The caller's own credentials are good: a 401 or a challenge would let a client throw them away, or sign in again.
    """
    # CR-04
    details = {name: value for name, value in problem.details.items() if name not in (REFUSED_BY, HEADERS)}
    text = f"{call.tool.name} did not run: the server behind it refused the credentials of this one. {problem.message}"
    return replace(problem, kind=Kind.FORBIDDEN, message=text, details=details)


def _build_timeout(call: Call, limit: float) -> Problem:
    return Problem(
        kind=Kind.TIMEOUT,
        message=f"{call.tool.name} was cancelled: it took longer than {limit:g} second{'s' * (limit != 1)}.",
    )


async def _pass_checks(checks: Sequence[Check | ConfirmationCheck], call: Call) -> Result | None:
    """Return the result of a call that does not run, else None."""
    for check in checks:
        verdict = check(call)
        if verdict is ALLOW:
            continue
        if isinstance(verdict, DeferredVerdict):
            verdict = await decide_in_thread(verdict)
        if (stopped := _convert_verdict(verdict)) is not None:
            return stopped
    return None


def _convert_verdict(verdict: Verdict) -> Result | None:
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
                message=f"{question.call.tool.name} needs a user's consent, and this server has no way to ask.",
                details={"denied": True},
            )
        case _:
            assert_never(verdict)


def expose_developer_message(result: Result) -> Result:
    """Return ``result`` with the developer message of a problem in its ``details``, which every protocol sends.

    At most 1,000 characters of it, and no traceback: it goes to callers, even if they are developers.
    """
    # the details of a failure are for the log, unless the server was started with ``debug``.
    if not isinstance(result, Problem) or not result.developer_message:
        return result
    text = result.developer_message.partition(_TRACEBACK)[0].strip()[:_MAX_DEVELOPER_MESSAGE]
    return replace(result, details={**result.details, "developer_message": text}) if text else result
