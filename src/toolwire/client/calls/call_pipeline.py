"""Run a call of one connection: checks, consent, limits, then the server.

Rules:
- The request is built before the user is asked. If it cannot be sent, the call is refused without a question.
- The request that was shown is the one that is sent, if nothing that it is bound to has changed meanwhile.
- If a later request of the same call differs or goes to another URL, it needs a new question.
- A redirect to another path needs a new question, unless the call only reads and no question was asked.
- Only calls that are sent count against the limits.
"""

# XL-050, D-20: an answer permits a single request. XL-064: a refused call costs nothing.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from toolwire.client.calls.budget import CostBudget
from toolwire.client.transport.redirects import redirect_loop
from toolwire.consent import NO_PREFERENCES, DefinitionLock, Preferences, build_consent_check, build_denial
from toolwire.consent.binding import NO_CREDENTIAL, CredentialRef, is_covered
from toolwire.consent.consent_check import OPERATOR_REASON
from toolwire.consent.data_flow import DataFlow, list_texts, model_content
from toolwire.consent.policy import (
    CurrentPreferences,
    PreferenceStore,
    can_rule_lift,
    effective_level,
    merge_preferences,
)
from toolwire.core.call_status import CallPage
from toolwire.core.check import PERMITTED, Answer, Ask, Check, Deny, KnownResult, Question, Verdict, apply_checks
from toolwire.core.codec import (
    BlockingTask,
    Codec,
    Flow,
    FlowEnd,
    FlowStep,
    Listen,
    Pause,
    Peer,
    StreamItem,
    resume_flow,
)
from toolwire.core.http import Request, Response, get_header
from toolwire.core.lazy_import import load_function
from toolwire.core.model import NO_REQUIREMENTS, Approval, Call, Json, Kind, Problem, Progress, Result, Tool
from toolwire.core.url_origin import get_origin
from toolwire.core.user_input import InputRequest
from toolwire.framing import jsontext
from toolwire.framing.jsontext import LARGE_BYTES
from toolwire.limits.throttle import Throttle
from toolwire.validation import build_arguments_check, copy_arguments
from toolwire.validation.requirements import check_own_context

from .agreements import Agreements, CallParties, ClaimedRead, CurrentDefinitions, build_lock_check
from .api_keys import explain_missing_key
from .budget import Budget, build_budget
from .input_requests import CallInput
from .long_calls import LongCall, WaitLimits, find_call_id, list_calls
from .prepared_call import (
    CallState,
    PreparedCall,
    add_answer_notes,
    extend_approval,
    find_request,
    mark_approved,
    prepare_call,
    read_large,
    replace_url,
)
from .questions import Questions, build_origin_question
from .receipt_signing import build_unseen_refusal, find_signing_refusal, sign_decision
from .response_fields import add_response_fields
from .retry import DEFAULT_RETRIES, REPEAT_NOTICE, RetryLimits, relies_on_claim
from .session import Session

T = TypeVar("T")

DEFAULT_WAIT_S = 100.0
"""How long a call waits by default for a call that continues on the server, in seconds."""

_MAX_REDIRECTS = 3
_REDIRECTED = "The server redirects this call to an address that you have not seen."
_NOT_SHOWN = "The call continues with a request that was not shown before."


class _CheckedCall(NamedTuple):
    """A call that no check refuses, the question that it needs, or None, and the verdict of the checks."""

    prepared: PreparedCall
    question: Question | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTerms:
    """The settings of one connection's calls. They stay the same when its server is fetched again.

    ``name`` is the connection's name in ``session``. ``preference_store`` contains the user's stored rules for sites.
    ``credential`` returns how a tool's requests are signed at that moment. ``locked`` refuses tools that differ from
    their locked definitions. ``wait_s`` is how long to wait for a call that continues on the server. ``program`` is the
    command, if a local program is called.
    """

    session: Session
    name: str
    preferences: Preferences = NO_PREFERENCES
    preference_store: PreferenceStore | None = None
    credential: Callable[[Tool], CredentialRef] = lambda _: NO_CREDENTIAL
    retries: RetryLimits = DEFAULT_RETRIES
    locked: DefinitionLock | None = None
    wait_s: float = DEFAULT_WAIT_S
    program: str = ""


class CallPipeline:
    """Everything that each call of one connection passes before it is sent.

    ``earlier`` is the connection's pipeline before its server was fetched again. Limits keep their counts. ``known``
    contains the definitions of the peer's tools, if they have not changed.
    """

    def __init__(
        self,
        terms: CallTerms,
        peer: Peer,
        codec: Codec,
        *,
        earlier: CallPipeline | None = None,
        known: Agreements | None = None,
    ) -> None:
        self._terms = terms
        self.session: Session = terms.session
        self.name: str = terms.name
        self.peer: Peer = peer
        # As the site declares it. Claims are removed from self.peer below, and agree() needs them again.
        self._declared_peer = peer
        self.site: str = get_origin(peer.url)
        self._home = f"{self.site}/"
        self._budget: Budget = build_budget(terms.session, codec) if earlier is None else earlier._budget
        self._current: CurrentDefinitions = CurrentDefinitions() if earlier is None else earlier._current
        self.throttle: Throttle = self._budget.throttle
        self.costs: CostBudget = self._budget.costs
        given = merge_preferences(terms.session.preferences, terms.preferences)
        self.preferences: CurrentPreferences = CurrentPreferences(given, terms.preference_store, self.site)
        # Loaded here once, because the name in a codec costs one more function call each time (docs/decisions/0049).
        self._codec = codec = replace(codec, send=load_function(codec.send))
        wait_s = terms.wait_s
        self.waits: WaitLimits = WaitLimits(
            total_s=wait_s, clock=self.session.clock, server_wait_s=min(20.0, wait_s / 2)
        )
        self._parties = parties = CallParties(
            session=terms.session,
            name=terms.name,
            site=self.site,
            title=peer.site,
            preferences=self.preferences,
            credential=terms.credential,
            program=terms.program,
        )
        self._trusted_tools: set[str] = set()
        self._agreements = agreements = Agreements(
            parties,
            target=lambda tool: codec.target(self.peer, Call(tool, {})),
            plan=lambda tool: None if codec.plan is None else codec.plan(self.peer, tool),
            before=known,
        )
        # Only in HTTP does the method itself show that a call only reads. Elsewhere, the site just claims it.
        if not codec.safe_by_method:
            self.peer = replace(peer, catalog=agreements.check_claims(peer.catalog))
        arguments = build_arguments_check()
        self._questions = Questions(
            parties=parties,
            agreements=agreements,
            budget=self._budget,
            check_arguments=arguments,
            codec=codec,
            peer=self.peer,
            retries=terms.retries,
            definitions=self._current,
        )
        consent = build_consent_check(
            site=self.site,
            preferences=self.preferences,
            rules=self.session.rules,
            grants=self.session.grants,
            key=lambda tool: agreements.define(tool).key,
            has_agreement=agreements.is_agreed,
            notices=agreements.find_reasons,
            operator=self.session.operator,
        )
        # The lock, the arguments and the tool's requirements come first, because a refusal by them needs no user.
        lock = () if terms.locked is None else (build_lock_check(terms.locked, peer.url, self.definitions()),)
        # Without such a tool, calls skip the check.
        has_needs = any(tool.requirements is not NO_REQUIREMENTS for tool in self.peer.catalog.tools)
        context = (check_own_context,) if has_needs else ()
        self.checks: tuple[Check, ...] = (*lock, arguments, *context, consent)
        agreements.revoke_changed(self.peer.catalog.tools)
        # Questions that wait compare with these definitions before their answer counts.
        self._current.update(self.peer, agreements)

    def cancel(self, request: Request) -> Request | None:
        """Return the message that cancels ``request``, or None if closing its connection does."""
        cancel = self._codec.cancel
        return None if cancel is None else cancel(self.peer, request)

    def end_session(self) -> Request | None:
        """Return the request that ends the session on the server, or None without a session."""
        end_session = self._codec.end_session
        return None if end_session is None else end_session(self.peer)

    def rebuild(self, peer: Peer, known: Agreements | None = None) -> CallPipeline:
        """Return this connection's pipeline after its server was fetched again as ``peer``.

        Limits keep their counts. A grant stays valid only if the definition is the same. The user is asked again about
        a tool that the site lets run without a question, unless they agreed to this definition. ``known`` contains the
        definitions of the peer's tools, if they have not changed.
        """
        # XL-048, D-04: consent covers a definition, so a changed definition ends it.
        pipeline = CallPipeline(self._terms, peer, self._codec, earlier=self, known=known)
        # Called for its side effect: it marks the tools whose current definition the user has agreed to.
        pipeline.find_unapproved()
        self.session.renew(self.name, pipeline.peer.catalog)
        return pipeline

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool, as ``toolwire.lock`` holds it."""
        return self._agreements.definitions(self.peer.catalog.tools)

    def find_unapproved(self) -> tuple[Tool, ...]:
        """Return the tools that would run without a question because only the site says so."""
        # XL-044: the user agrees to them as a list, or each call of them is asked about.
        return self._agreements.find_unapproved(self.peer.catalog.tools)

    def find_claims(self) -> list[ClaimedRead]:
        """Return the tools that an operator could trust to be read-only, but does not trust yet. It can block."""
        return self._agreements.find_claims(self.peer.catalog.tools)

    def trust_claims(self, claims: Iterable[ClaimedRead]) -> None:
        """Store that operators trust ``claims`` as they are defined now. It can block.

        Raises:
            ConnectionError: it cannot be stored.
        """
        if (trust := self.session.trust) is not None:
            for one in claims:
                trust.add(one.key, one.definition)

    def depends_on_trust(self, tool: Tool) -> bool:
        """Return whether a word of an operator decides if ``tool`` runs without a question."""
        return self._agreements.depends_on_trust(tool)

    def has_trust_changed(self, tool: Tool) -> bool:
        """Return whether operators have begun or stopped to trust ``tool``. It can block."""
        return self._agreements.has_trust_changed(tool)

    def has_grant(self, tool: Tool) -> bool:
        """Return whether the user's "always" covers calls of ``tool``, or some of them."""
        if tool.blanket_allowed is False:
            return False
        grants, key = self.session.grants, self._agreements.define(tool).key
        return (tool.blanket_allowed is True and grants.has_grant(key)) or grants.has_bounded_grant(key)

    def needs_consent(self, tool: Tool) -> bool:
        """Return whether each call of ``tool`` needs an answer of the user, whatever its arguments."""
        return self.find_level(tool) is not Approval.AUTO

    def may_run_unasked(self, tool: Tool) -> bool:
        """Return whether some calls of ``tool`` run without a question now."""
        operator = self.session.operator
        if operator is not None and self._agreements.is_agreed(tool) and operator.may_run(tool):
            return True
        return not self.needs_consent(tool) or self.has_grant(tool)

    def find_level(self, tool: Tool) -> Approval:
        """Return the level that a call of ``tool`` needs: the strictest of site, user and client."""
        # XL-040
        is_agreed, operator, preferences = (
            self._agreements.is_agreed(tool),
            self.session.operator,
            self.preferences.get(),
        )
        if operator is not None and is_agreed and operator.runs_always(tool) and can_rule_lift(tool, preferences):
            return Approval.AUTO
        return effective_level(tool, preferences, has_agreement=is_agreed)

    def agree(self, tools: tuple[Tool, ...]) -> CallPipeline:
        """Return a pipeline in which ``tools`` run as the site declares, until their definitions change."""
        self._agreements.agree(tools)
        return self.rebuild(self._declared_peer, self._agreements)

    def run(self, call: Call, state: CallState | None = None) -> Flow[Result]:
        """Check ``call``, ask the user if needed, call the server, and return the result.

        ``state`` is updated. It can contain what the user approved in an earlier run of this call.
        """
        state = CallState(waits=self.waits) if state is None else state
        flows: list[Flow[Result]] = []
        result: Result | None = None
        try:
            begun = self._check(call, state)
            if not isinstance(begun, _CheckedCall):
                return begun
            prepared, question, verdict = begun
            permitted, tool = prepared, prepared.call.tool
            flows.append(prepared.flow)
            if question is not None:
                question = self._add_notices(question, prepared)
                answered = yield from self._questions.ask_once(prepared, question, state)
                if not isinstance(answered, PreparedCall):
                    result = answered
                    return answered
                permitted = answered
                flows.append(permitted.flow)  # arguments that the user changed make a second flow
            # XL-064: counted after the answer of the user, just before it is sent.
            result = self._budget.take(tool)
            if result is None:
                if question is None and (verdict is PERMITTED or self._agreements.is_agreed(tool)):
                    yield from self._record_unasked(prepared.call, verdict)
                result = yield from self._converse(permitted, question, state)
                self.session.marks.add_result(self.name, permitted.call, self.preferences.initial)
                if isinstance(result, Problem):
                    result = yield from self._finish_problem(tool, result, state)
                if self.session.data_flow is not None:
                    yield from self._record_texts(self.session.data_flow, result, state)
            is_plain = permitted is prepared and not state.always_fault
            result = result if is_plain else add_answer_notes(result, state, is_edited=permitted is not prepared)
            return result
        # Only a store of decisions raises it: requests are sent by the driver.
        except ConnectionError as error:
            # XL-055: if the decision cannot be recorded, the call is not sent.
            text = f"{call.tool.name} was not called, because decisions cannot be stored now ({error})."
            return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=5_000)
        finally:
            state.end(result)
            for flow in flows:
                flow.close()

    def _check(self, call: Call, state: CallState) -> _CheckedCall | Result:
        """Return ``call`` with its built request and the question that it needs, or how it ends without them."""
        copied = copy_arguments(call)  # the caller could change its own arguments while the user reads them
        if isinstance(copied, Problem):
            return copied
        verdict = apply_checks(copied, self.checks)
        if isinstance(verdict, Deny):
            operator = self.session.operator
            if operator is not None and verdict.problem.details.get("reason") == OPERATOR_REASON:
                operator.record(copied, "denied")
            return verdict.problem
        if isinstance(verdict, KnownResult):
            return verdict.result
        question = verdict.question if isinstance(verdict, Ask) else None
        is_held, is_start = question is not None or not copied.tool.safe, state.prefers_async
        prepared = prepare_call(self._codec, self.peer, copied, self._terms.retries, is_held=is_held, is_start=is_start)
        if not isinstance(prepared, PreparedCall):
            return prepared
        # Compare the texts first. That is cheap, and nearly every call stays on its site.
        if question is None and prepared.request is not None and not prepared.request.url.startswith(self._home):
            question = build_origin_question(prepared, self.site, self.session.rules)
        return _CheckedCall(prepared, question, verdict)

    def _record_unasked(self, call: Call, verdict: Verdict) -> Flow[None]:
        """Count a use of the permission or trust that lets ``call`` run, and record the operator's rule.

        A rule for a tool whose site is trusted is recorded once.
        """
        # QF-02, QF-03
        # A call that a limit refuses does not count as a use.
        operator, tool = self.session.operator, call.tool
        if (count := self._agreements.count_use(tool, by_trust=verdict is not PERMITTED)) is not None:
            yield BlockingTask(count)  # the place can be a database
        if operator is None or not self._agreements.is_agreed(tool) or operator.find(call) is None:
            return
        if effective_level(tool, self.preferences.get(), has_agreement=True) is not Approval.AUTO:
            operator.record(call, "allowed")
        elif tool.id not in self._trusted_tools:
            self._trusted_tools.add(tool.id)
            operator.record(call, "agreed")

    def find_question(self, call: Call) -> Question | None:
        """Return the question that ``call`` would cause now, or None. Nothing is asked, counted or sent.

        Questions that arise while the call runs, such as the server's, are not included.
        """
        copied = copy_arguments(call)
        verdict = None if isinstance(copied, Problem) else apply_checks(copied, self.checks)
        if isinstance(copied, Problem) or isinstance(verdict, (Deny, KnownResult)):
            return None
        question = verdict.question if isinstance(verdict, Ask) else None
        prepared = prepare_call(self._codec, self.peer, copied, self._terms.retries)
        if not isinstance(prepared, PreparedCall):
            return None
        try:
            if question is None:
                question = build_origin_question(prepared, self.site, self.session.rules)
            if question is None:
                return None
            return self._questions.preview(prepared, self._add_notices(question, prepared))
        finally:
            prepared.flow.close()

    def admit_input(self, flow: Flow[T], call: Call, running: list[CallInput] | None = None) -> Flow[T]:
        """Run ``flow``, which runs ``call``, and admit the server's questions to the user meanwhile.

        Its questions are in ``running`` until it ends.
        """
        return CallInput(self._parties, self._agreements, call).run(flow, running)

    def asks_while_listening(self) -> bool:
        """Return whether the server can ask the user on its change stream."""
        asks = self._codec.asks_while_listening
        return asks is not None and asks(self.peer)

    def find_long_call(self, call_id: str, tool: Tool | None, *, can_ask: bool) -> LongCall:
        """Return the long call with this ID. Another program of the same user can have started it."""
        return LongCall(self._codec, self.peer, call_id, tool, can_ask=can_ask)

    def list_long_calls(self, limit: int, cursor: str) -> Flow[CallPage | Problem]:
        """Return at most ``limit`` long calls of this caller, newest first, from ``cursor`` on."""
        return list_calls(self._codec, self.peer, limit, cursor)

    def record_end(self, result: Result) -> Result:
        """Return ``result``, a long call's result, and remember its texts."""
        data_flow = self.session.data_flow
        if data_flow is not None:
            data_flow.add_texts(self.name, list_texts(model_content(result)))
        return result

    def _finish_problem(self, tool: Tool, problem: Problem, state: CallState) -> Flow[Result]:
        """Return the result of a call that ended with ``problem``, or that continues on the server."""
        result: Result = problem
        call_id = find_call_id(problem)
        if call_id:
            # LC-05: the call's questions are over. From here on, only its status is read.
            state.long_call = long_call = LongCall(self._codec, self.peer, call_id, tool, can_ask=state.can_ask)
            if state.waits is not None and self._codec.long_calls is not None:
                wait_ms = problem.retry_after_ms
                flow = long_call.wait(state.waits, None if wait_ms is None else wait_ms / 1_000)
                data_flow = self.session.data_flow
                result = yield from flow if data_flow is None else _record_progress(flow, data_flow, self.name)
        if isinstance(result, Problem):
            self._budget.record_problem(tool, result)
            if result.kind in (Kind.UNAUTHORIZED, Kind.FORBIDDEN) and (missing := self._explain_missing_key(tool)):
                result = replace(result, message=f"{result.message.rstrip('. ')}. {missing}")
        return result

    def _record_texts(self, data_flow: DataFlow, result: Result, state: CallState) -> Flow[None]:
        data_flow.end_stream(self.name)
        content = model_content(result)
        texts = (yield BlockingTask(partial(list_texts, content))) if state.is_large else list_texts(content)
        data_flow.add_texts(self.name, texts)

    def _add_notices(self, question: Question, prepared: PreparedCall) -> Question:
        tool, reasons = prepared.call.tool, question.reasons
        # Do not refuse the call: a document can require more than its server does.
        if missing := self._explain_missing_key(tool):
            reasons = (*reasons, missing)
        if relies_on_claim(self.peer, tool, prepared.request, self._terms.retries):
            reasons = (*reasons, REPEAT_NOTICE)
        return question if reasons is question.reasons else replace(question, reasons=reasons)

    def _explain_missing_key(self, tool: Tool) -> str:
        return explain_missing_key(tool, self._terms.credential(tool))

    def _converse(self, prepared: PreparedCall, question: Question | None, state: CallState) -> Flow[Result]:
        """Run ``prepared`` to its end. The approved request is sent unchanged. Any other request needs a question."""
        tool, approved, step = prepared.call.tool, prepared.request, prepared.step
        sent = approved
        data_flow = self.session.data_flow
        while True:
            reply: Any
            if isinstance(step, Question):
                # XL-056: the server's own question is about the request that was sent before it.
                reply = yield from self._answer_server(prepared.replace_step(approved or step), step, state)
                if isinstance(reply, Problem):
                    return reply
            else:
                reply = yield step if data_flow is None else _record_stream(step, data_flow, self.name)
                if isinstance(reply, Problem) and "onward" in reply.details:
                    reply = yield from self._follow_redirects(prepared.replace_step(step), reply, question, state)
            self._record_reply(tool, step, reply, state)
            # A confirmation belongs to the same call. Protocols without header fields send it in the body.
            is_answered = isinstance(step, (InputRequest, Question)) or (isinstance(step, Pause) and step.is_poll)
            end = (yield from read_large(prepared.flow, reply)) if state.is_large else resume_flow(prepared.flow, reply)
            if isinstance(end, FlowEnd):
                return add_response_fields(end.value, self.peer.url if sent is None else sent.url, reply, self.site)
            # A request that equals the approved one, such as a retry, needs no further question.
            step = mark_approved(end, like=approved)
            following = find_request(step)
            sent = following or sent
            approved = extend_approval(approved, following, is_answered=is_answered)
            if question is None or approved is None or following is None or is_covered(approved, following):
                continue
            reasons = (*question.reasons, _NOT_SHOWN)
            problem = yield from self._ask_again(
                prepared.replace_step(step), replace(question, reasons=reasons, always_allowed=False), state
            )
            if problem is not None:
                return problem
            approved = following

    def _answer_server(self, prepared: PreparedCall, question: Question, state: CallState) -> Flow[Answer | Problem]:
        """Return the user's yes to the server's ``question``, signed if required, or why the call ends."""
        terms, tool, session = question.receipt, prepared.call.tool, self.session
        if terms is not None and (refusal := find_signing_refusal(session.receipt_key, terms, tool)) is not None:
            return refusal
        problem = yield from self._ask_again(prepared, question, state)
        if problem is not None:
            return problem
        if terms is not None and not state.is_seen:
            return build_unseen_refusal(tool)
        key = session.receipt_key() if terms is not None and session.receipt_key is not None else None
        if terms is None or key is None:
            return Answer(allowed=terms is None)
        # CC-06: only here is the user's decision about exactly this call known.
        bound, request = state.last_binding, prepared.request or Request("", self._home)
        signed = sign_decision(key, prepared.call, request, terms, now=session.wall(), shown=bound)
        answer = Answer(allowed=True, channel="receipt", receipt=signed.receipt)
        self._agreements.record(tool, bound, "signed", answer, receipt=jsontext.write(signed.to_json()).decode())
        return answer

    def _record_reply(self, tool: Tool, step: FlowStep, reply: Any, state: CallState) -> None:
        state.is_large = isinstance(reply, Response) and len(reply.body) > LARGE_BYTES
        if isinstance(reply, Response):
            state.status = reply.status
            # LC-05: a server can report a call that continues with 503 and its URL. That does not mean too many calls.
            if reply.status >= 400 and not get_header(reply.headers, b"location"):
                self.throttle.record_response(tool, reply)
        elif isinstance(step, Pause):  # the server asked for this wait; the next request is another call
            self.throttle.take(tool, has_waited=True)

    def _ask_again(self, prepared: PreparedCall, question: Question, state: CallState) -> Flow[Problem | None]:
        """Ask about a call that has begun. Return the Problem that ends it, or None if it can continue."""
        permitted = yield from self._questions.ask_permission(prepared, question, state)
        if permitted is prepared:
            return None
        if isinstance(permitted, Problem):
            return permitted
        permitted.flow.close()  # its first request was sent with different arguments
        return build_denial(
            f"{prepared.call.tool.name} was stopped: arguments cannot change while the call is being prepared."
        )

    def _follow_redirects(
        self, prepared: PreparedCall, reply: Any, question: Question | None, state: CallState
    ) -> Flow[Any]:
        """Ask about each redirect of the request of ``prepared``, follow it, and return the last reply."""
        before = question or Question(prepared.call, self.site, "", Approval.PER_CALL)
        before = replace(before, reasons=(*before.reasons, _REDIRECTED), always_allowed=False)
        for number in range(1, _MAX_REDIRECTS + 1):
            prepared = prepared.replace_step(replace_url(prepared.step, reply.details["onward"]))
            problem = yield from self._ask_again(prepared, before, state)
            if problem is not None:
                return problem
            if number == _MAX_REDIRECTS:
                break
            reply = yield prepared.step
            if not isinstance(reply, Problem) or "onward" not in reply.details:
                return reply
        return redirect_loop(self.site, _MAX_REDIRECTS)


def _record_progress(flow: Flow[Result], data_flow: DataFlow, name: str) -> Flow[Result]:
    """Run ``flow`` and return its value. The texts of its progress are remembered."""
    reply: Any = None
    try:
        while True:
            step = flow.send(reply)
            if isinstance(step, Progress):
                data_flow.add_piece(name, step.value)  # D-33
            reply = yield step
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        flow.close()


def _record_stream(step: FlowStep, data_flow: DataFlow, name: str) -> FlowStep:
    """Return ``step`` so that the texts of a stream are remembered as they arrive."""
    if not isinstance(step, Listen):
        return step

    def read_chunk(piece: bytes) -> Iterator[StreamItem]:
        for item in step.read_chunk(piece):
            if isinstance(item, Progress):
                data_flow.add_piece(name, item.value)  # D-33: progress reaches the model as well as a result does
            yield item

    return step._replace(read_chunk=read_chunk)
