"""What every call of one connection passes before it is sent, and how a person's decision is bound to the request.

Rules:
- The request is made before anybody is asked; what cannot be sent is refused without a question.
- What was shown is what is sent: the stored request, if nothing it was bound to has changed meanwhile. [XL-050, D-20]
- A later request of the same call that says something else, or goes elsewhere, is asked about anew.
- Only what is sent counts against the limits. [XL-064]
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, assert_never

from toolwire.consent import Lock, Preferences, Record, consent_check, denied
from toolwire.consent.allowance import Allowance, spent
from toolwire.consent.binding import VALID_S, Credential, binding, goes_on
from toolwire.consent.definition import Change, changes, definition, definition_hash
from toolwire.consent.grant import GrantKey
from toolwire.consent.policy import joined, may_be_always, unasked_writes
from toolwire.core.check import ALLOW, Allow, Answer, Ask, Check, Deny, Known, Question, Verdict, review
from toolwire.core.codec import Codec, Flow, Pause, Peer, ask
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Json, Kind, Problem, Result, Tool, Value
from toolwire.limits import CLIENT_DEFAULTS, NO_DEFAULTS, Throttle
from toolwire.limits.throttle import rate_limited
from toolwire.validation import arguments_check, snapshot

from .begun import Asked, Begun, edited, refused, requested, without_user
from .confirming import send
from .discover import origin
from .drive import UNASKED
from .retry import Retries
from .session import Session


class _Known(NamedTuple):
    tool: Tool
    parts: dict[str, Json]
    key: GrantKey


class Gate:
    """The checks, the consent and the limits of one connection. ``name`` is its name in the session."""

    def __init__(
        self,
        *,
        session: Session,
        peer: Peer,
        codec: Codec,
        name: str,
        preferences: Preferences,
        credential: Callable[[], Credential],
        retries: Retries,
        locked: Lock | None = None,
    ) -> None:
        self.session = session
        self.name = name
        self.peer = peer
        self.site = origin(peer.url)
        unsaid = CLIENT_DEFAULTS if codec.default_limits else NO_DEFAULTS
        limits = unsaid if session.limits is None else session.limits
        self.throttle = Throttle(clock=session.clock, wall=session.wall, defaults=limits)
        self.allowance = Allowance(session.rules.costly_calls)
        self.preferences = joined(session.preferences, preferences)
        self._codec = codec
        self._locked = locked
        self._successor: Gate | None = None
        self._credential = credential
        self._retries = retries
        self._known: dict[int, _Known] = {}
        self._settled: dict[int, Tool] = {}
        self._agreed: set[int] = set()
        self._arguments = arguments_check()
        consent = consent_check(
            site=self.site,
            preferences=self.preferences,
            rules=session.rules,
            grants=session.grants,
            key=lambda tool: self._definition(tool).key,
            agreed=lambda tool: id(tool) in self._agreed,
            notices=self._notices,
        )
        lock = () if locked is None else (self._lock_check(locked),)
        self.checks: tuple[Check, ...] = (*lock, self._arguments, consent)
        granted = {
            grant.key.tool.partition(" ")[0] for grant in session.grants.listed() if grant.key.connection == name
        }
        for tool in peer.catalog.tools if granted else ():
            if tool.id in granted:  # what was allowed of another definition is void
                session.grants.renewed(self._definition(tool).key)

    def renewed(self, peer: Peer) -> Gate:
        """Return the gate of the same connection to what its server is now; what was asked here counts there.

        Limits go on counting. A grant holds on where the definition is the same, and is void where it is not. A tool
        that the site would run unasked is asked about, unless that was agreed to as it is now. [XL-048, D-04]
        """
        gate = Gate(
            session=self.session,
            peer=peer,
            codec=self._codec,
            name=self.name,
            preferences=self.preferences,
            credential=self._credential,
            retries=self._retries,
            locked=self._locked,
        )
        gate.throttle, gate.allowance = self.throttle, self.allowance
        gate.unasked()
        self.session.renew(self.name, peer.catalog)
        self._successor = gate
        return gate

    def definitions(self) -> list[dict[str, Json]]:
        """Return the definition of each tool, as a lock pins it."""
        return [{**self._definition(tool).parts, "credential": ""} for tool in self.peer.catalog.tools]

    def unasked(self) -> tuple[Tool, ...]:
        """Return the tools that write and that the site would run unasked, and nobody here has agreed to. [XL-044]"""
        waiting: list[Tool] = []
        for tool in unasked_writes(self.peer.catalog.tools):
            if self.session.grants.holds(self._agreement(tool)):
                self._agreed.add(id(tool))
            else:
                waiting.append(tool)
        return tuple(waiting)

    def agree(self, tools: tuple[Tool, ...]) -> None:
        """Let the site's word stand for ``tools``, until their definitions change."""
        for tool in tools:
            self._agreed.add(id(tool))
            self.session.grants.add(self._agreement(tool))
            self._note(tool, "", "agreed", UNASKED)

    def calling(self, call: Call) -> Flow[Result]:  # noqa: PLR0911 - each way in which a call ends before it is sent
        """Return the result of ``call``: checks first, then the person if they must be asked, then the server."""
        taken = snapshot(call)
        if isinstance(taken, Problem):
            return taken
        verdict = review(taken, self.checks)
        match verdict:
            case Allow() | Ask():
                pass
            case Deny(problem):
                return problem
            case Known(result):
                return result
            case _:
                assert_never(verdict)
        begun = self._begin(taken)
        if not isinstance(begun, Begun):
            return begun
        try:
            question = verdict.question if isinstance(verdict, Ask) else self._elsewhere(begun)
            if question is None:
                return (yield from self._sent(begun, None))
            permitted = yield from self._permission(begun, question)
            if isinstance(permitted, Problem):
                return permitted
            if permitted is begun:
                return (yield from self._sent(begun, question))
            try:
                return edited((yield from self._sent(permitted, question)))
            finally:
                permitted.flow.close()
        finally:
            begun.flow.close()

    def _sent(self, begun: Begun, question: Question | None) -> Flow[Result]:
        """Return what came of a call that may be sent, if its limit lets it."""
        tool = begun.call.tool
        wait = self.throttle.take(tool)
        if wait > 0.0:
            return rate_limited(tool, wait)
        if not self.allowance.take(tool):
            return spent(tool)
        result = yield from self._carried(begun, question)
        if isinstance(result, Value):
            if self.session.traces is not None:
                self.session.traces.heard(self.name, result.value)
        elif result.kind in (Kind.RATE_LIMITED, Kind.OVERLOADED) and result.retry_after_ms:
            self.throttle.pause(tool, min(result.retry_after_ms / 1_000, _LONGEST_PAUSE_S))
        return result

    def _begin(self, call: Call) -> Begun | Result:
        """Return the conversation of ``call`` before its first request, or how it ended without one."""
        flow = send(self._codec, self.peer, call, self._retries)
        try:
            return Begun(call, flow, next(flow))
        except StopIteration as stop:
            result: Result = stop.value
            return result

    def _carried(self, begun: Begun, question: Question | None) -> Flow[Result]:
        """Return the end of a conversation; what was approved is sent as it was, and nothing else unasked."""
        approved = begun.request
        asked: Asked = begun.asked
        while True:
            if isinstance(asked, Question):  # the server's own: asked like ours, about the request that was sent
                again = replace(begun, asked=approved or asked)
                permitted = yield from self._permission(again, asked)
                if permitted is not again:
                    return permitted if isinstance(permitted, Problem) else _halfway(begun.call.tool, permitted)
                came: Any = Answer(allowed=True)
            else:
                came = yield asked
            if isinstance(came, Response):
                self.throttle.heard(begun.call.tool, came)
            elif isinstance(asked, Pause):  # as long as the server wished: what follows is one more call
                self.throttle.take(begun.call.tool, waited=True)
            try:
                asked = begun.flow.send(came)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            following = requested(asked)
            if question is None or approved is None or following is None or goes_on(approved, following):
                continue
            reasons = (*question.reasons, "The call goes on with a request that was not shown before.")
            again = replace(begun, asked=asked)
            permitted = yield from self._permission(again, replace(question, reasons=reasons, always_allowed=False))
            if isinstance(permitted, Problem):
                return permitted
            if permitted is not again:
                return _halfway(begun.call.tool, permitted)
            approved = following

    def _permission(self, begun: Begun, question: Question) -> Flow[Begun | Problem]:
        """Return the conversation the person allowed, perhaps with arguments of their own, or why there is none."""
        tool = begun.call.tool
        refusal = self._unasked(tool)
        if refusal is not None:
            return refusal
        bound = self._binding(begun)
        full = self._question(begun, question, bound)
        asked_at = self.session.clock()
        answer = yield from ask(full)
        took_s = self.session.clock() - asked_at
        if answer.allowed is not True:
            decision = "unasked" if answer is UNASKED else "timeout" if answer.reason == "timeout" else "denied"
            self._note(tool, bound, decision, answer, took_s)
            if decision == "denied":
                self.session.patience.denied(f"{self.name}\0{tool.id}")
            return refused(tool, answer)
        if took_s >= VALID_S:
            self._note(tool, bound, "timeout", answer, took_s)
            return denied(f"{tool.name} was not called: the answer came too late.", reason="timeout")
        if self._binding(begun) != bound:
            self._note(tool, bound, "changed", answer, took_s)
            return _CHANGED
        permitted: Begun | Problem = begun
        if answer.arguments is not None:
            permitted = self._with_arguments(begun, answer)
            if isinstance(permitted, Problem):
                return permitted
            bound = self._binding(permitted)
        self._note(tool, bound, "allowed", answer, took_s)
        self._remember(tool, always=answer.always is True and full.always_allowed)
        return permitted

    def _unasked(self, tool: Tool) -> Problem | None:
        """Return why the person is not even asked, or None."""
        if self.allowance.left(tool) == 0:
            return spent(tool)
        wait = self.throttle.wait_s(tool)
        if wait > 0.0:
            return rate_limited(tool, wait)
        if self.session.patience.blocked(f"{self.name}\0{tool.id}"):
            self._note(tool, "", "blocked", UNASKED)
            return denied(f"{tool.name} was refused too often to be asked about again.", reason=_BLOCKED)
        wait = self.session.patience.wait_s()
        if wait > 0.0:
            self._note(tool, "", "throttled", UNASKED)
            return replace(rate_limited(tool, wait), message=f"{tool.name} was not called: too many questions at once.")
        return None

    def _question(self, begun: Begun, question: Question, bound: str) -> Question:
        tool, request = begun.call.tool, begun.request
        elsewhere = request is not None and origin(request.url) != self.site
        left = self.allowance.left(tool)
        budget = () if left is None else (f"You allow {left} more calls of this connection that cost something.",)
        always = question.always_allowed and may_be_always(
            tool, self.preferences, self.session.rules, elsewhere=elsewhere
        )
        return replace(
            question,
            call=deepcopy(begun.call),
            target="" if request is None else f"{request.method} {without_user(request.url)}",
            always_allowed=always,
            reasons=(*question.reasons, *budget),
            request=request,
            connection=self.name,
            principal=self.session.principal,
            title=self.peer.site,
            credential=str(self._credential()),
            changes=tuple(change.sentence for change in self._changes(tool)),
            remaining=self.throttle.left(tool),
            binding=bound,
            id=secrets.token_hex(8),
        )

    def _with_arguments(self, begun: Begun, answer: Answer) -> Begun | Problem:
        """Return the conversation with the person's own arguments, checked like anybody's. [XL-051]"""
        assert answer.arguments is not None  # noqa: S101 - the caller looked
        taken = snapshot(begun.call._replace(arguments=answer.arguments))
        if isinstance(taken, Problem):
            return taken
        verdict = self._arguments(taken)
        if isinstance(verdict, Deny):
            return verdict.problem
        again = self._begin(taken)
        if isinstance(again, Begun):
            return again
        return again if isinstance(again, Problem) else _CHANGED

    def _elsewhere(self, begun: Begun) -> Question | None:
        """Return the question of a call that was let through for good, and yet changes something on another origin."""
        tool, request = begun.call.tool, begun.request
        if (
            tool.safe
            or request is None
            or self.session.rules.always_elsewhere
            or request.url.startswith(self.site + "/")
        ):
            return None
        if origin(request.url) == self.site:
            return None
        reasons = (f"This goes to {origin(request.url)}, not to {self.site}.",)
        return Question(begun.call, self.site, "", Approval.PER_CALL, reasons=reasons)

    def _binding(self, begun: Begun) -> str:
        """Return the digest of what would be sent now, by everything as it is now, also what was looked at since."""
        now = self
        while now._successor is not None:
            now = now._successor
        tool = now.peer.catalog.find(begun.call.tool.id)
        request = begun.request or Request("", "")
        return binding(
            begun.call,
            request,
            connection=self.name,
            principal=self.session.principal,
            definition=now._definition(tool).key.definition if isinstance(tool, Tool) else "",
            credential=self._credential(),
        )

    def _definition(self, tool: Tool) -> _Known:
        known = self._known.get(id(tool))
        if known is None or known.tool is not tool:
            if len(self._known) >= _KEPT:
                self._known.clear()
            target = self._codec.target(self.peer, Call(tool, {}))
            parts = definition(tool, target=target, credential=self._credential().scheme)
            key = GrantKey(self.session.principal, self.name, self.site, tool.id, definition_hash(parts))
            known = self._known[id(tool)] = _Known(tool, parts, key)
        return known

    def _agreement(self, tool: Tool) -> GrantKey:
        key = self._definition(tool).key
        return key._replace(tool=f"{key.tool} unasked")

    def _changes(self, tool: Tool) -> tuple[Change, ...]:
        """Return how ``tool`` differs from what was last approved; nothing where nothing was. [D-04]"""
        known = self._definition(tool)
        before = self.session.grants.pinned(known.key)
        return () if before is None else changes(before, known.parts)

    def _notices(self, call: Call) -> tuple[str, ...]:
        tool, found = call.tool, []
        if self._settled.get(id(tool)) is not tool:
            if self._changes(tool):
                found.append("The site has changed this tool since it was approved.")
            else:
                self._settled[id(tool)] = tool
        if not tool.safe and self.session.traces is not None:
            sources = self.session.traces.sources(self.name, call.arguments)
            found += [f"This carries text that came from {source} to {self.name}." for source in sources]
        return tuple(found)

    def _lock_check(self, locked: Lock) -> Check:
        """Return a check that refuses every tool that is not as ``locked`` pins it."""
        found = locked.compared(self.peer.url, self.definitions())
        changed = {one.tool: one for one in found}
        listed = self.peer.url in locked.connections

        def check(call: Call) -> Verdict:
            difference = changed.get(call.tool.id)
            if listed and difference is None:
                return ALLOW
            what = f"was {difference.what} since the lock was made" if listed and difference else "is not in the lock"
            text = f"{call.tool.name} {what}: look at `toolwire diff`, and lock it again if you agree."
            return Deny(Problem(kind=Kind.CONFLICT, message=text, details={"locked": True}))

        return check

    def _remember(self, tool: Tool, *, always: bool) -> None:
        known = self._definition(tool)
        self.session.grants.pin(known.key, known.parts)
        self._settled.pop(id(tool), None)
        if always:
            self.session.grants.add(known.key)

    def _note(self, tool: Tool, bound: str, decision: str, answer: Answer, took_s: float = 0.0) -> None:
        self.session.audit.append(
            Record(
                at=self.session.wall(),
                principal=self.session.principal,
                connection=self.name,
                tool=tool.id,
                binding=bound,
                decision=decision,
                channel=answer.channel,
                always=answer.always is True and decision == "allowed",
                shown_ms=int(took_s * 1_000),
            )
        )


def _halfway(tool: Tool, other: Begun) -> Problem:
    other.flow.close()
    return denied(f"{tool.name} was stopped: arguments cannot be changed halfway.")


_KEPT = 20_000
_LONGEST_PAUSE_S = 86_400.0
_BLOCKED = "blocked for this session"
_CHANGED = Problem(
    kind=Kind.CONFLICT,
    message="What was approved is not what would be sent any more; nothing was sent. Call it again to be asked again.",
    details={"reason": "changed"},
)
