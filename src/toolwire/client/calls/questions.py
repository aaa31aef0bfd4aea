"""The question about a call that is made and not yet sent, and what the user's answer to it permits.

Rules:
- An answer permits what was shown, if nothing it was bound to has changed meanwhile. [XL-050, D-20]
- Who said no too often, or is asked too often, is not asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

from toolwire.client.transport.drivers import NO_APPROVER
from toolwire.consent import ClientRules, build_denial
from toolwire.consent.binding import DECISION_VALID_S, compute_binding
from toolwire.consent.policy import can_allow_always
from toolwire.core.check import Answer, Check, Deny, Question
from toolwire.core.codec import Flow, ask
from toolwire.core.http import Request
from toolwire.core.model import Approval, Call, Kind, Problem, Result, Tool
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_origin
from toolwire.limits.throttle import build_rate_limited
from toolwire.validation import copy_arguments

from .agreements import Agreements, CallParties
from .budget import Budget
from .prepared_call import PreparedCall, build_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Asks the user of one connection.

    ``begin`` makes a call anew and sends nothing; ``arguments`` checks what the user put in place of the model's;
    ``places`` says where each argument of a call goes. ``defined`` returns the digest of a tool as its server defines
    it now, or ``""``.
    """

    parties: CallParties
    agreements: Agreements
    budget: Budget
    check_arguments: Check
    prepare: Callable[[Call], PreparedCall | Result]
    places: Callable[[Call], Mapping[str, str]]
    find_definition: Callable[[Tool], str]

    def ask_permission(self, prepared: PreparedCall, question: Question) -> Flow[PreparedCall | Problem]:
        """Return the conversation the user allowed, perhaps with arguments of their own, or why there is none."""
        tool, session, note = prepared.call.tool, self.parties.session, self.agreements.record
        refusal = self._find_refusal(tool)
        if refusal is not None:
            return refusal
        bound = self._compute_binding(prepared)
        full = self._complete_question(prepared, question, bound)
        asked_at = session.clock()
        answer = yield from ask(full)
        took_s = session.clock() - asked_at
        if answer.allowed is not True:
            unasked = answer is NO_APPROVER or answer.problem is not None
            decision = "unasked" if unasked else "timeout" if answer.reason == "timeout" else "denied"
            note(tool, bound, decision, answer, took_s)
            if decision == "denied":
                session.patience.record_denial(self._subject(tool))
            elif decision == "unasked":
                session.patience.undo_prompt()
            return answer.problem or build_refusal(tool, answer)
        if took_s >= DECISION_VALID_S:
            note(tool, bound, "timeout", answer, took_s)
            return build_denial(f"{tool.name} was not called: the answer came too late.", reason="timeout")
        if self._compute_binding(prepared) != bound:
            note(tool, bound, "changed", answer, took_s)
            return _CHANGED
        permitted: PreparedCall | Problem = prepared
        if answer.arguments is not None:
            permitted = self._with_arguments(prepared, answer)
            if isinstance(permitted, Problem):
                return permitted
            bound = self._compute_binding(permitted)
        note(tool, bound, "allowed", answer, took_s)
        self.agreements.remember(tool, always=answer.always is True and full.always_allowed)
        return permitted

    def _find_refusal(self, tool: Tool) -> Problem | None:
        """Return why the user is not even asked, or None."""
        refusal = self.budget.find_refusal(tool)
        if refusal is not None:
            return refusal
        session = self.parties.session
        patience = session.patience
        if patience.is_blocked(self._subject(tool)):
            self.agreements.record(tool, "", "blocked", NO_APPROVER)
            return build_denial(f"{tool.name} was refused too often to be asked about again.", reason=_BLOCKED)
        wait = patience.reserve_prompt()
        if wait > 0.0:
            self.agreements.record(tool, "", "throttled", NO_APPROVER)
            return replace(
                build_rate_limited(tool, wait), message=_explain_limit(tool, session.rules.questions_a_minute)
            )
        return None

    def _subject(self, tool: Tool) -> str:
        return f"{self.parties.name}\0{tool.id}"

    def _complete_question(self, prepared: PreparedCall, question: Question, bound: str) -> Question:
        """Return ``question`` with everything the user is shown."""
        parties, tool, request = self.parties, prepared.call.tool, prepared.request
        session = parties.session
        elsewhere = request is not None and get_origin(request.url) != parties.site
        left = self.budget.costs.count_remaining(tool)
        costs = () if left is None else (f"You allow {left} more calls of this connection that cost something.",)
        always = question.always_allowed and can_allow_always(
            tool, parties.preferences, session.rules, elsewhere=elsewhere
        )
        return replace(
            question,
            call=deepcopy(prepared.call),
            target="" if request is None else f"{request.method} {show_url(request.url)}",
            always_allowed=always,
            reasons=(*question.reasons, *costs),
            request=request,
            places=self.places(prepared.call),
            secrets=parties.preferences.secrets,
            connection=parties.name,
            principal=session.principal,
            title=parties.title,
            credential=str(parties.credential(tool)),
            changes=tuple(change.sentence for change in self.agreements.find_changes(tool)),
            remaining=self.budget.throttle.count_remaining(tool),
            binding=bound,
            id=secrets.token_hex(8),
        )

    def _with_arguments(self, prepared: PreparedCall, answer: Answer) -> PreparedCall | Problem:
        """Return the conversation with the user's own arguments, checked like anybody's. [XL-051]"""
        assert answer.arguments is not None  # noqa: S101 - the caller looked
        taken = copy_arguments(prepared.call._replace(arguments=answer.arguments))
        if isinstance(taken, Problem):
            return taken
        verdict = self.check_arguments(taken)
        if isinstance(verdict, Deny):
            return verdict.problem
        again = self.prepare(taken)
        if isinstance(again, PreparedCall):
            return again
        return again if isinstance(again, Problem) else _CHANGED

    def _compute_binding(self, prepared: PreparedCall) -> str:
        """Return the digest of what would be sent now, by everything as it is now, also what was looked at since."""
        parties = self.parties
        return compute_binding(
            prepared.call,
            prepared.request or Request("", ""),
            connection=parties.name,
            principal=parties.session.principal,
            definition=self.find_definition(prepared.call.tool),
            credential=parties.credential(prepared.call.tool),
        )


def build_origin_question(prepared: PreparedCall, site: str, rules: ClientRules) -> Question | None:
    """Return the question of a call that was let through for good, and yet changes something on another origin."""
    tool, request = prepared.call.tool, prepared.request
    if tool.safe or request is None or rules.always_elsewhere or request.url.startswith(site + "/"):
        return None
    there = get_origin(request.url)
    if there == site:
        return None
    return Question(prepared.call, site, "", Approval.PER_CALL, reasons=(f"This goes to {there}, not to {site}.",))


def _explain_limit(tool: Tool, most: int) -> str:
    """Say why nobody was asked; a program that answers for a user learns which setting is for it."""
    return (
        f"{tool.name} was not called: {max(most, 1)} questions were asked within a minute, and no more are. "
        "Where a program answers them, Session(rules=ClientRules(questions_a_minute=...)) allows more."
    )


_BLOCKED = "blocked for this session"
_CHANGED = Problem(
    kind=Kind.CONFLICT,
    message="What was approved is not what would be sent any more; nothing was sent. Call it again to be asked again.",
    details={"reason": "changed"},
)
