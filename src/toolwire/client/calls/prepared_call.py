"""Prepare a call: build its first request without sending it, and describe how a refused or edited call ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from toolwire.client.transport.drivers import NO_APPROVER
from toolwire.consent import build_denial
from toolwire.consent.binding import DECISION_VALID_S
from toolwire.consent.consent_check import NO_APPROVER_REASON
from toolwire.core.check import Answer, Question
from toolwire.core.codec import (
    BlockingTask,
    Codec,
    Flow,
    FlowEnd,
    FlowStep,
    Listen,
    Peer,
    change_requests,
    map_request,
    resume_flow,
)
from toolwire.core.http import Request, Response
from toolwire.core.interpreter import pause_collection
from toolwire.core.model import Call, Json, Problem, Result, Tool, Value

from .asked_calls import AskedCall
from .long_calls import LongCall, WaitLimits, prefer_async
from .retry import RetryLimits
from .server_confirmation import send_call


class CallState:
    """The state of one call while it runs: the last response's status, and what the user approved.

    ``status`` is None if no response arrived. ``is_large`` means that the last response is slow to read. ``files`` says
    which files its arguments are. An approval covers a repetition of the same request. If the server continues the call
    after its response, the caller waits as long as ``waits`` says. With None, the caller only starts the call.
    ``long_call`` is then the call that continues. ``can_ask`` means that the server can ask the user meanwhile.
    ``asked`` represents this call for identical calls while its user is asked. ``always_fault`` says why the user's
    "always" was not stored.
    """

    # XL-050: bound to the definition, the arguments, the credential and the request, like the answer itself.

    __slots__ = (
        "_approved_at",
        "_binding",
        "_reasons",
        "_unseen",
        "always_fault",
        "asked",
        "can_ask",
        "files",
        "is_large",
        "long_call",
        "prefers_async",
        "status",
        "waits",
    )

    def __init__(self, waits: WaitLimits | None = None, *, can_ask: bool = False) -> None:
        self.can_ask: bool = can_ask
        self.waits: WaitLimits | None = waits
        # Whether the server should report at once that it accepted a long call, and its ID.
        self.prefers_async: bool = waits is None or waits.is_patient
        self.long_call: LongCall | None = None
        self.files: Mapping[str, str] = {}
        self.status: int | None = None
        self.asked: AskedCall | None = None
        self.always_fault: str = ""
        self.is_large: bool = False
        self._binding = ""
        self._reasons: frozenset[str] = frozenset()
        self._approved_at = 0.0
        self._unseen = False

    def note_answer(self, *, is_refused: bool = False, is_permitted: bool = False) -> None:
        """Tell waiting identical calls what the user decided."""
        if self.asked is not None:
            self.asked.is_refused, self.asked.is_permitted = is_refused, is_permitted

    def end(self, result: Result | None) -> None:
        """Pass ``result`` to waiting identical calls, or None if this call was abandoned."""
        if self.asked is not None:
            self.asked.end(result)
            self.asked = None

    @property
    def last_binding(self) -> str:
        """The digest of the user's last approval, or ``""``."""
        return self._binding

    @property
    def is_seen(self) -> bool:
        """Whether a user was shown the last approved request."""
        return bool(self._binding) and not self._unseen

    def add_approval(self, question: Question, binding: str, now: float, *, unseen: bool = False) -> None:
        """Record that the user allowed what ``question`` showed. ``binding`` is the digest of what is sent.

        With ``unseen``, the user did not see this call, so it answers no question of the server.
        """
        # A request that was not shown, such as one that a grant covered, is not part of a later approval.
        if self._unseen:
            self._reasons = frozenset()
        self._unseen = unseen
        self._binding, self._reasons, self._approved_at = binding, self._reasons.union(question.reasons), now

    def is_approved(self, question: Question, binding: str, now: float) -> bool:
        """Return whether the user allowed this request, for every reason of ``question``, within five minutes."""
        if not self._binding or self._binding != binding or now - self._approved_at >= DECISION_VALID_S:
            return False
        # XL-056: a server that asks for consent needs the user's answer to this call. A grant is older than the call.
        if self._unseen and question.consent_reasons is not None:
            return False
        reasons = question.reasons if question.consent_reasons is None else question.consent_reasons
        return self._reasons.issuperset(reasons)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call whose flow has run up to its first request, which has not been sent. ``request`` is that request."""

    call: Call
    flow: Flow[Result]
    step: FlowStep
    request: Request | None

    def replace_step(self, step: FlowStep) -> PreparedCall:
        """Return the same call at a different step of its flow."""
        return PreparedCall(self.call, self.flow, step, find_request(step))


def prepare_call(
    codec: Codec, peer: Peer, call: Call, retries: RetryLimits, *, is_held: bool = True, is_start: bool = False
) -> PreparedCall | Result:
    """Return ``call`` with its first request built, or its result if it ends without a request.

    With ``is_held``, none of the call's requests follows a redirect to another path before the user is asked.
    ``is_start`` asks the server to respond as soon as it has accepted a long call.
    """
    # The flow runs up to its first request and stops there: nothing is sent until it is resumed.
    flow = send_call(codec, peer, call, retries)
    if is_start:
        flow = change_requests(flow, prefer_async)
    try:
        step = next(flow)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    if is_held:
        step = mark_approved(step)
    # In line, because every call passes here.
    request = step if isinstance(step, Request) else step.request if isinstance(step, Listen) else None
    return PreparedCall(call, flow, step, request)


def read_large(flow: Flow[Result], response: Response) -> Flow[FlowEnd | FlowStep]:
    """Let ``flow`` read a large ``response`` in a thread, and return its next step, or a FlowEnd with its value."""
    step: FlowEnd | FlowStep = yield BlockingTask(partial(_read_in_pause, flow, response))
    return step


def _read_in_pause(flow: Flow[Result], response: Response) -> FlowEnd | FlowStep:
    # All objects of the response stay alive, so that collecting garbage meanwhile is wasted time (docs/decisions/0022).
    with pause_collection():
        step: FlowEnd | FlowStep = resume_flow(flow, response)
        return step


def find_request(step: FlowStep) -> Request | None:
    """Return the step's request, or None."""
    if isinstance(step, Listen):
        return step.request
    return step if isinstance(step, Request) else None


def extend_approval(approved: Request | None, following: Request | None, *, is_answered: bool) -> Request | None:
    """Return the approved request: ``following`` if it only adds what the user entered, else ``approved``."""
    # MC-09: the answers go with the same call to the same address.
    if not is_answered or approved is None or following is None:
        return approved
    return following if (following.method, following.url) == (approved.method, approved.url) else approved


def mark_approved(step: FlowStep, like: Request | None = None) -> FlowStep:
    """Return ``step`` with its request marked, so that it is sent exactly as shown and to no other path.

    With ``like``, the request is marked only if ``like`` is marked.
    """
    if not isinstance(step, (Request, Listen)) or (like is not None and not like.approved):
        return step
    return map_request(step, lambda request: request._replace(approved=True))


def replace_url(step: FlowStep, url: str) -> FlowStep:
    """Return ``step`` with ``url`` as its request's URL."""
    if not isinstance(step, (Request, Listen)):
        return step
    return map_request(step, lambda request: request._replace(url=url))


def add_answer_notes(result: Result, state: CallState, *, is_edited: bool) -> Result:
    """Return ``result`` with notes that the user changed the arguments, and why an "always" was not kept."""
    # XL-051: the model learns that the result does not belong to its own arguments.
    notes: dict[str, Json] = {"arguments_changed_by_user": True} if is_edited else {}
    if state.always_fault:
        notes["always_not_kept"] = state.always_fault
    if isinstance(result, Value):
        return Value(result.value, {**(result.notes or {}), **notes})
    return replace(result, details={**result.details, **notes})


def build_refusal(tool: Tool, answer: Answer) -> Problem:
    """Return the result of a call that the user did not allow, or that has no approver."""
    if answer is NO_APPROVER and tool.claimed_safe:
        return build_denial(
            (
                f"{tool.name} needs approval, and no approver is configured. Only its server says that it is "
                "read-only. Connect with agree=... to run such tools, or with approve=... to be asked."
            ),
            reason=NO_APPROVER_REASON,
        )
    if answer is NO_APPROVER:
        return build_denial(
            f"{tool.name} needs approval, and no approver is configured. Connect with approve=... to be asked.",
            reason=NO_APPROVER_REASON,
        )
    if answer.reason:
        return build_denial(f"{tool.name} was not called: {answer.reason.rstrip('.')}.", reason=answer.reason)
    return build_denial(f"{tool.name} was not called: it was not allowed.")
