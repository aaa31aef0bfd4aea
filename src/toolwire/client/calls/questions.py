"""Ask the user about a prepared call, and return what the answer permits.

Rules:
- An answer permits the request that was shown, if nothing that it is bound to has changed meanwhile.
- An approval covers a repetition of the call within five minutes, unless there is a new reason to ask.
- A user who said no too often, or was asked too often, is not asked.
"""

# XL-050, D-20: an answer is bound to what was shown.

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace

from toolwire.client.transport.drivers import NO_APPROVER
from toolwire.consent import ClientRules, build_denial
from toolwire.consent.binding import DECISION_VALID_S, compute_binding
from toolwire.consent.change_description import describe_change
from toolwire.consent.policy import explain_unkept, find_always, user_level
from toolwire.consent.tool_definition import compute_digest, to_plain_json
from toolwire.core.check import Answer, Check, Deny, Question
from toolwire.core.codec import Codec, Flow, Peer, ask, pause
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.http import Request
from toolwire.core.model import Approval, Call, Cost, Json, Kind, Problem, Result, Tool
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_origin
from toolwire.limits.throttle import build_rate_limited
from toolwire.validation import copy_arguments

from .agreements import Agreements, CallParties, CurrentDefinitions
from .asked_calls import reuse_result
from .budget import Budget
from .prepared_call import CallState, PreparedCall, build_refusal, prepare_call
from .retry import RetryLimits

_log = logging.getLogger("toolwire.client")
_BLOCKED = "blocked for this session"
_REPEATED = Answer(allowed=False, channel="same question")
_RULE = Answer(allowed=False, channel="your rules")
_EVERY_S = 0.1
"""How often a call checks whether the identical call that waits for its answer is over, in seconds."""
_CHANGED = Problem(
    kind=Kind.CONFLICT,
    message="The request has changed since it was approved. Nothing was sent. Make the call again to be asked again.",
    details={"reason": "changed"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Asks the user about one connection's calls.

    ``check_arguments`` checks arguments that the user enters instead of the model's. ``definitions`` contains the
    server's current definitions.
    """

    parties: CallParties
    agreements: Agreements
    budget: Budget
    check_arguments: Check
    codec: Codec
    peer: Peer
    retries: RetryLimits
    definitions: CurrentDefinitions

    def ask_permission(
        self, prepared: PreparedCall, question: Question, state: CallState
    ) -> Flow[PreparedCall | Problem]:
        """Return the call that the user allows, perhaps with their arguments, or the Problem that ends it.

        ``state`` contains the user's earlier approvals of this call. The answer is added to it.
        """
        bound = self._compute_binding(prepared)
        if state.is_approved(question, bound, self.parties.session.clock()):
            return prepared
        if self._spend_grant(prepared, question, state, bound):
            return prepared
        refusal = self._find_refusal(prepared.call.tool)
        if refusal is not None:
            return refusal
        return (yield from self._ask(prepared, question, state, bound))

    def ask_once(self, prepared: PreparedCall, question: Question, state: CallState) -> Flow[PreparedCall | Result]:
        """Return what ``ask_permission`` returns. If an identical call waits or was just refused, return its result."""
        # QF-03
        calls, key = self.parties.session.asked_calls, self._find_call_key(prepared.call, state)
        if not key:
            return (yield from self.ask_permission(prepared, question, state))
        while True:
            if (refusal := calls.find_refusal(key)) is not None:
                self.agreements.record(prepared.call.tool, "", "denied", _REPEATED)
                return refusal
            asked, is_first = calls.enter(key, state)
            if is_first:
                break
            while not asked.is_over:
                yield from pause(_EVERY_S)
            if asked.is_permitted:
                if self._has_grant(prepared, question):
                    self.agreements.count_use(prepared.call.tool)
                    return prepared
            elif asked.result is not None:
                self.agreements.record(prepared.call.tool, "", "joined", _REPEATED)
                return reuse_result(asked, asked.result, state)
        state.asked = asked
        refusal = None
        try:
            answered = yield from self.ask_permission(prepared, question, state)
            refusal = answered if asked.is_refused and isinstance(answered, Problem) else None
        finally:
            calls.close(key, asked, refusal)
        return answered

    def _find_call_key(self, call: Call, state: CallState) -> str:
        """Return the digest that identical calls share, or ``""`` if the user has decided about this call."""
        context, session = call.context, self.parties.session
        is_decided = context.confirmation or context.receipt or context.user_answer or context.input_responses
        if is_decided or state.last_binding:
            return ""
        name, identity = self.parties.name, self.parties.credential(call.tool).identity
        who = [name, session.principal, context.principal, identity, call.key, state.prefers_async]
        what = [call.tool.id, self.agreements.define(call.tool).key.definition, to_plain_json(call.arguments)]
        return compute_digest([*who, *what])

    def preview(self, prepared: PreparedCall, question: Question) -> Question | None:
        """Return ``question`` as the user would see it, or None if a grant can cover it. Nothing is counted."""
        tool = prepared.call.tool
        grants, key = self.parties.session.grants, self.agreements.define(tool).key
        if self._find_always(prepared, question) is not False and grants.has_bounded_grant(key):
            return None
        return self._complete_question(prepared, question, self._compute_binding(prepared))

    def _has_grant(self, prepared: PreparedCall, question: Question) -> bool:
        grants, key = self.parties.session.grants, self.agreements.define(prepared.call.tool).key
        return bool(self._find_always(prepared, question)) and grants.has_grant(key)

    def _spend_grant(self, prepared: PreparedCall, question: Question, state: CallState, bound: str) -> bool:
        """Return whether a bounded grant covers the call, and spend one use of the grant."""
        # CC-03: a use is spent when the call is admitted. A call that a limit refuses anyway spends none.
        tool = prepared.call.tool
        if self._find_always(prepared, question) is False or self.budget.find_refusal(tool) is not None:
            return False
        id_ = self.agreements.spend_grant(prepared.call)
        if not id_:
            return False
        # QF-03: the log names the permission.
        self.agreements.record(tool, bound, "allowed", Answer(allowed=True, channel=f"grant {id_}"))
        state.add_approval(question, bound, self.parties.session.clock(), unseen=True)
        return True

    def _ask(
        self, prepared: PreparedCall, question: Question, state: CallState, bound: str
    ) -> Flow[PreparedCall | Problem]:
        """Ask the user about the request with the binding ``bound``, and return what ``ask_permission`` returns."""
        tool, session, record = prepared.call.tool, self.parties.session, self.agreements.record
        full = self._complete_question(prepared, replace(question, files=state.files), bound)
        asked_at = session.clock()
        answer = yield from ask(full)
        took_s = session.clock() - asked_at
        # Before the answer itself is evaluated: a user can deny this call and all later ones at once.
        self._store_level(tool, answer)
        is_unasked = answer is NO_APPROVER or answer.problem is not None
        session.prompt_limit.end_prompt(0.0 if is_unasked else took_s)
        if answer.allowed is not True:
            decision = "unasked" if is_unasked else "timeout" if answer.reason == "timeout" else "denied"
            record(tool, bound, decision, answer, took_s)
            if decision == "denied":
                session.prompt_limit.record_denial(self._subject(tool))
                state.note_answer(is_refused=True)
            return answer.problem or build_refusal(tool, answer)
        # An approver can ignore the question's time limit.
        if took_s >= DECISION_VALID_S:
            record(tool, bound, "timeout", answer, took_s)
            return build_denial(f"{tool.name} was not called, because the answer came too late.", reason="timeout")
        # D-20: computed again, because the tool, the credential or a policy can change while the user reads.
        if self._compute_binding(prepared) != bound:
            record(tool, bound, "changed", answer, took_s)
            return _CHANGED
        # XL-042: a rule that was set while the user read is stricter than an answer to the question of before.
        is_denied = user_level(tool, self.parties.preferences.get()) is Approval.DENY
        if is_denied and answer.keep_level is not Approval.DENY:
            record(tool, bound, "denied", _RULE, took_s)
            return build_denial(f"Your rules do not allow calls of {tool.name}.")
        permitted = prepared
        if answer.arguments is not None:
            edited = self._replace_arguments(prepared, answer.arguments, state)
            if isinstance(edited, Problem):
                return edited
            permitted, bound = edited, self._compute_binding(edited)
        # An approver is foreign code, and can answer "always" even if the question did not offer that.
        bounds = answer.bounds
        always = answer.always is True and answer.keep_level is None and isinstance(bounds, GrantBounds | None)
        if always and (fault := explain_unkept(bounds, always_allowed=full.always_allowed)):
            # I-21, QF-03: a program must learn that its "always" was not stored.
            always, state.always_fault = False, _explain_no_always(full) or f"{fault[0].lower()}{fault[1:]}"
            _log.warning("%s was called once; your always is not kept: %s", tool.name, state.always_fault)
        record(tool, bound, "allowed", replace(answer, always=always), took_s)
        self.agreements.remember(
            permitted.call,
            always=always,
            bounds=bounds,
            similar=full.find_similar() if always and bounds is not None and bounds.tools else (),
            tools=self.peer.catalog.tools,
        )
        state.note_answer(is_permitted=always)
        state.add_approval(full, bound, session.clock(), unseen=answer.unseen)
        return permitted

    def _store_level(self, tool: Tool, answer: Answer) -> None:
        # XL-042: set from the question. If the level cannot be stored, that must not end the call.
        level = answer.keep_level
        if level is Approval.PER_CALL or level is Approval.DENY:
            with suppress(DefinitionError):
                self.parties.preferences.set_level(tool, level)

    def _find_refusal(self, tool: Tool) -> Problem | None:
        """Return why the user must not be asked, or None."""
        # The limits first: the user is not asked about a call that cannot be sent anyway.
        refusal = self.budget.find_refusal(tool)
        if refusal is not None:
            return refusal
        session = self.parties.session
        prompts = session.prompt_limit
        if prompts.is_blocked(self._subject(tool)):
            self.agreements.record(tool, "", "blocked", NO_APPROVER)
            return build_denial(
                f"{tool.name} was denied too often, so you are no longer asked about it.", reason=_BLOCKED
            )
        wait = prompts.reserve_prompt()
        if wait > 0.0:
            self.agreements.record(tool, "", "throttled", NO_APPROVER)
            return replace(
                build_rate_limited(tool, wait), message=_explain_limit(tool, session.rules.questions_a_minute)
            )
        return None

    def _subject(self, tool: Tool) -> str:
        # Names contain no null characters, so two different tools never have the same subject.
        return f"{self.parties.name}\0{tool.id}"

    def _complete_question(self, prepared: PreparedCall, question: Question, bound: str) -> Question:
        """Return ``question`` with everything that the user is shown."""
        parties, tool, request = self.parties, prepared.call.tool, prepared.request
        session = parties.session
        left = self.budget.costs.count_remaining(tool)
        costs = () if left is None else (f"You allow {left} more calls that cost something on this connection.",)
        return replace(
            question,
            # An approver is foreign code, and must not be able to change the call.
            call=deepcopy(prepared.call, {id(tool): tool}),  # GR-06: not the schemas, which are large
            # D-26: show_url() leaves out the values of a query that can be a key.
            target="" if request is None else f"{request.method} {show_url(request.url)}",
            always_allowed=self._find_always(prepared, question),
            reasons=(*question.reasons, *costs),
            request=request,
            places=self.codec.places(self.peer, prepared.call),
            secrets=parties.preferences.get().secrets,
            connection=parties.name,
            principal=session.principal,
            title=parties.title,
            program=parties.program,
            credential=str(parties.credential(tool)),
            changes=tuple(map(describe_change, self.agreements.find_changes(tool))),
            remaining=self.budget.throttle.count_remaining(tool),
            binding=bound,
            can_keep_level=parties.preferences.can_keep,
            id=secrets.token_hex(8),
            definition=self.agreements.define(tool).key.definition,
            find_similar=lambda: self.agreements.find_similar(tool, self.peer.catalog.tools),
        )

    def _find_always(self, prepared: PreparedCall, question: Question) -> bool | None:
        """Return whether an answer to ``question`` can cover later calls. None means only within bounds."""
        if question.always_allowed is False:
            return False
        parties, request = self.parties, prepared.request
        # "Always" is agreed with one site, so it cannot cover a call to another site.
        elsewhere = request is not None and get_origin(request.url) != parties.site
        rules = parties.session.rules
        return find_always(prepared.call, parties.preferences.get(), rules, elsewhere=elsewhere)

    def _replace_arguments(
        self, prepared: PreparedCall, arguments: Mapping[str, Json], state: CallState
    ) -> PreparedCall | Problem:
        """Return the call with the user's own arguments, which are checked like a model's."""
        edited = copy_arguments(prepared.call._replace(arguments=arguments))  # XL-051
        if isinstance(edited, Problem):
            return edited
        verdict = self.check_arguments(edited)
        if isinstance(verdict, Deny):
            return verdict.problem
        again = prepare_call(self.codec, self.peer, edited, self.retries, is_start=state.prefers_async)
        if isinstance(again, PreparedCall):
            return again
        return again if isinstance(again, Problem) else _CHANGED

    def _compute_binding(self, prepared: PreparedCall) -> str:
        """Return the digest of what would be sent now, with the current definition and credential."""
        parties = self.parties
        return compute_binding(
            prepared.call,
            prepared.request or Request("", ""),
            connection=parties.name,
            principal=parties.session.principal,
            definition=self.definitions.find_digest(prepared.call.tool),
            credential=parties.credential(prepared.call.tool),
        )


def build_origin_question(prepared: PreparedCall, site: str, rules: ClientRules) -> Question | None:
    """Return the question for a call that needs none itself but changes something at another origin, or None."""
    tool, request = prepared.call.tool, prepared.request
    if tool.safe or request is None or rules.always_elsewhere or request.url.startswith(site + "/"):
        return None
    there = get_origin(request.url)
    if there == site:
        return None
    return Question(prepared.call, site, "", Approval.PER_CALL, reasons=(f"This goes to {there}, not to {site}.",))


def _explain_no_always(question: Question) -> str:
    """Return why an answer to ``question`` cannot cover later calls, or an empty string if it can within bounds."""
    tool = question.call.tool
    if question.always_allowed is None:
        return ""
    if tool.blanket_allowed is False:
        return "its site does not allow it."
    if tool.destructive or tool.cost not in (None, Cost.FREE):
        can_allow = ", which ClientRules(always_destructive=..., always_costly=...) can allow"
        return f"it destroys or costs something{can_allow if tool.blanket_allowed else ''}."
    return "this call needs a question for a reason of its own, or your preferences ask for one each time."


def _explain_limit(tool: Tool, most: int) -> str:
    """Return why no question was asked, and which setting a program that answers questions can change."""
    return (
        f"{tool.name} was not called. {max(most, 1)} questions were asked within a minute, which is the "
        "limit. If a slow program answers them, raise it with "
        "Session(rules=ClientRules(questions_a_minute=...))."
    )
