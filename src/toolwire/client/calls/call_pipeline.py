"""What every call of one connection passes before it is sent, and how a user's decision is bound to the request.

Rules:
- The request is made before anybody is asked; what cannot be sent is refused without a question.
- What was shown is what is sent: the stored request, if nothing it was bound to has changed meanwhile. [XL-050, D-20]
- A later request of the same call that says something else, or goes elsewhere, is asked about anew.
- A redirect to another path is asked about anew, unless the call only reads and nobody was asked.
- Only what is sent counts against the limits. [XL-064]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, assert_never

from toolwire.client.transport.redirects import redirect_loop
from toolwire.consent import DefinitionLock, Preferences, build_consent_check, build_denial
from toolwire.consent.binding import CredentialRef, is_covered
from toolwire.consent.data_flow import model_content
from toolwire.consent.policy import effective_level, merge_preferences
from toolwire.core.check import Allow, Answer, Ask, Check, Deny, KnownResult, Question, apply_checks
from toolwire.core.codec import Codec, Flow, Listen, Pause, Peer
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Json, Problem, Progress, Result, Tool
from toolwire.core.url_origin import get_origin
from toolwire.validation import build_arguments_check, copy_arguments

from .agreements import Agreements, CallParties, lock_check
from .budget import Budget, build_budget
from .prepared_call import FlowStep, PreparedCall, find_request, mark_approved, mark_edited, replace_url
from .questions import Questions, build_origin_question
from .retry import SENT_AGAIN, RetryLimits, relies_on_claim
from .server_confirmation import send
from .session import Session


class CallPipeline:
    """The checks, the consent and the limits of one connection. ``name`` is its name in the session.

    ``counted`` is what was counted before, where the connection is not new.
    """

    def __init__(
        self,
        *,
        session: Session,
        peer: Peer,
        codec: Codec,
        name: str,
        preferences: Preferences,
        credential: Callable[[Tool], CredentialRef],
        retries: RetryLimits,
        locked: DefinitionLock | None = None,
        counted: Budget | None = None,
    ) -> None:
        self.session = session
        self.name = name
        self.peer = peer
        self._declared_peer = peer
        self.site = get_origin(peer.url)
        self._budget = build_budget(session, codec) if counted is None else counted
        self.throttle, self.costs = self._budget
        self.preferences = merge_preferences(session.preferences, preferences)
        self._codec = codec
        self._locked = locked
        self._successor: CallPipeline | None = None
        self._credential = credential
        self._retries = retries
        parties = CallParties(
            session=session,
            name=name,
            site=self.site,
            title=peer.site,
            preferences=self.preferences,
            credential=credential,
        )
        self._agreements = agreements = Agreements(
            parties,
            target=lambda tool: codec.target(self.peer, Call(tool, {})),
            plan=lambda tool: None if codec.plan is None else codec.plan(self.peer, tool),
        )
        if not codec.safe_by_method:
            self.peer = replace(peer, catalog=agreements.check_claims(peer.catalog))
        arguments = build_arguments_check()
        self._questions = Questions(
            parties=parties,
            agreements=agreements,
            budget=self._budget,
            check_arguments=arguments,
            prepare=self._prepare,
            places=lambda call: codec.places(self.peer, call),
            find_definition=self._find_definition,
        )
        consent = build_consent_check(
            site=self.site,
            preferences=self.preferences,
            rules=session.rules,
            grants=session.grants,
            key=agreements.grant_key,
            has_agreement=agreements.is_agreed,
            notices=agreements.find_reasons,
        )
        lock = () if locked is None else (lock_check(locked, peer.url, self.definitions()),)
        self.checks: tuple[Check, ...] = (*lock, arguments, consent)
        agreements.revoke_changed(self.peer.catalog.tools)

    def cancel(self, request: Request) -> Request | None:
        """Return the message that ``request`` is cancelled, or None where its closed connection says so."""
        cancel = self._codec.cancel
        return None if cancel is None else cancel(self.peer, request)

    def end_session(self) -> Request | None:
        """Return the request that ends the server's memory of this connection, or None where it has none."""
        end_session = self._codec.end_session
        return None if end_session is None else end_session(self.peer)

    def rebuild(self, peer: Peer) -> CallPipeline:
        """Return the pipeline of the same connection to what its server is now; what was asked here counts there.

        Limits go on counting. A grant holds on where the definition is the same, and is void where it is not. A tool
        that the site would run unasked is asked about, unless that was agreed to as it is now. [XL-048, D-04]
        """
        pipeline = CallPipeline(
            session=self.session,
            peer=peer,
            codec=self._codec,
            name=self.name,
            preferences=self.preferences,
            credential=self._credential,
            retries=self._retries,
            locked=self._locked,
            counted=self._budget,
        )
        pipeline.find_unapproved()
        self.session.renew(self.name, pipeline.peer.catalog)
        self._successor = pipeline
        return pipeline

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool, as a lock pins it."""
        return self._agreements.definitions(self.peer.catalog.tools)

    def find_unapproved(self) -> tuple[Tool, ...]:
        """Return the tools that would run unasked by the site's word alone, and nobody here has agreed to. [XL-044]"""
        return self._agreements.find_unapproved(self.peer.catalog.tools)

    def needs_consent(self, tool: Tool) -> bool:
        """Return whether a call of ``tool`` is asked about, whatever its arguments."""
        return (
            effective_level(tool, self.preferences, has_agreement=self._agreements.is_agreed(tool)) is not Approval.AUTO
        )

    def agree(self, tools: tuple[Tool, ...]) -> CallPipeline:
        """Return the pipeline at which the site's word stands for ``tools``, until their definitions change."""
        self._agreements.agree(tools)
        return self.rebuild(self._declared_peer)

    def run(self, call: Call) -> Flow[Result]:  # noqa: PLR0911 - each way in which a call ends before it is sent
        """Return the result of ``call``: checks first, then the user if they must be asked, then the server."""
        taken = copy_arguments(call)
        if isinstance(taken, Problem):
            return taken
        verdict = apply_checks(taken, self.checks)
        match verdict:
            case Allow() | Ask():
                pass
            case Deny(problem):
                return problem
            case KnownResult(result):
                return result
            case _:
                assert_never(verdict)
        prepared = self._prepare(taken, held=isinstance(verdict, Ask) or not taken.tool.safe)
        if not isinstance(prepared, PreparedCall):
            return prepared
        try:
            question = (
                verdict.question
                if isinstance(verdict, Ask)
                else build_origin_question(prepared, self.site, self.session.rules)
            )
            if question is None:
                return (yield from self._send_in_budget(prepared, None))
            if relies_on_claim(self.peer, prepared.call.tool, prepared.request, self._retries):
                question = replace(question, reasons=(*question.reasons, SENT_AGAIN))
            permitted = yield from self._questions.ask_permission(prepared, question)
            if isinstance(permitted, Problem):
                return permitted
            if permitted is prepared:
                return (yield from self._send_in_budget(prepared, question))
            try:
                return mark_edited((yield from self._send_in_budget(permitted, question)))
            finally:
                permitted.flow.close()
        finally:
            prepared.flow.close()

    def _send_in_budget(self, prepared: PreparedCall, question: Question | None) -> Flow[Result]:
        """Return what came of a call that may be sent, if its limit lets it."""
        refusal = self._budget.take(prepared.call.tool)
        if refusal is not None:
            return refusal
        result = yield from self._converse(prepared, question)
        if self.session.traces is not None:
            self.session.traces.end_stream(self.name)
            self.session.traces.add_texts(self.name, model_content(result))
        self._budget.record_result(prepared.call.tool, result)
        return result

    def _prepare(self, call: Call, *, held: bool = True) -> PreparedCall | Result:
        """Return the conversation of ``call`` before its first request, or how it ended without one.

        ``held`` means that no request of it goes to another path than its own before somebody is asked.
        """
        flow = send(self._codec, self.peer, call, self._retries)
        try:
            asked = next(flow)
            return PreparedCall(call, flow, mark_approved(asked) if held else asked)
        except StopIteration as stop:
            result: Result = stop.value
            return result

    def _converse(self, prepared: PreparedCall, question: Question | None) -> Flow[Result]:
        """Return the end of a conversation; what was approved is sent as it was, and nothing else unasked."""
        approved = prepared.request
        asked: FlowStep = prepared.step
        while True:
            if isinstance(asked, Question):  # the server's own: asked like ours, about the request that was sent
                again = replace(prepared, step=approved or asked)
                permitted = yield from self._questions.ask_permission(again, asked)
                if permitted is not again:
                    return permitted if isinstance(permitted, Problem) else _refuse_edit(prepared.call.tool, permitted)
                came: Any = Answer(allowed=True)
            else:
                came = yield from self._exchange(replace(prepared, step=asked), question)
            if isinstance(came, Response):
                self.throttle.record_response(prepared.call.tool, came)
            elif isinstance(asked, Pause):  # as long as the server wished: what follows is one more call
                self.throttle.take(prepared.call.tool, has_waited=True)
            try:
                asked = prepared.flow.send(came)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            asked = mark_approved(asked, like=approved)
            following = find_request(asked)
            if question is None or approved is None or following is None or is_covered(approved, following):
                continue
            reasons = (*question.reasons, "The call goes on with a request that was not shown before.")
            again = replace(prepared, step=asked)
            permitted = yield from self._questions.ask_permission(
                again, replace(question, reasons=reasons, always_allowed=False)
            )
            if isinstance(permitted, Problem):
                return permitted
            if permitted is not again:
                return _refuse_edit(prepared.call.tool, permitted)
            approved = following

    def _exchange(self, prepared: PreparedCall, question: Question | None) -> Flow[Any]:
        """Return what came of the request of ``prepared``; where its server redirects it, that is asked about first."""
        for _ in range(_MAX_REDIRECTS):
            came = yield self._trace_stream(prepared.step)
            if not isinstance(came, Problem) or "onward" not in came.details:
                return came
            before = question or Question(prepared.call, self.site, "", Approval.PER_CALL)
            before = replace(before, reasons=(*before.reasons, _REDIRECTED), always_allowed=False)
            prepared = replace(prepared, step=replace_url(prepared.step, came.details["onward"]))
            permitted = yield from self._questions.ask_permission(prepared, before)
            if permitted is not prepared:
                return permitted if isinstance(permitted, Problem) else _refuse_edit(prepared.call.tool, permitted)
        return redirect_loop(self.site, _MAX_REDIRECTS)

    def _trace_stream(self, asked: FlowStep) -> FlowStep:
        """Return ``asked``, with the texts of a stream remembered as they arrive. [D-33]"""
        traces = self.session.traces
        if traces is None or not isinstance(asked, Listen):
            return asked

        def hear(piece: bytes) -> Iterator[Progress | Request]:
            for said in asked.read_chunk(piece):
                if isinstance(said, Progress):
                    traces.add_piece(self.name, said.value)
                yield said

        return asked._replace(read_chunk=hear)

    def _find_definition(self, tool: Tool) -> str:
        """Return the digest of ``tool`` as it is defined now, also what was looked at since, or ``""``."""
        now = self
        while now._successor is not None:
            now = now._successor
        current = now.peer.find_current(tool)
        return now._agreements.grant_key(current).definition if isinstance(current, Tool) else ""


def _refuse_edit(tool: Tool, other: PreparedCall) -> Problem:
    other.flow.close()
    return build_denial(f"{tool.name} was stopped: arguments cannot be changed halfway.")


_MAX_REDIRECTS = 3
_REDIRECTED = "The site redirects this call: the address is not the one that you saw before."
