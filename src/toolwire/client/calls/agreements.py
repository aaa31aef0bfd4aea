"""Hold the user's agreements about one connection's tools, by tool definition, and record each decision.

Rules:
- A server's declarations can only require more consent. The claim that a tool only reads counts if the request method
  proves it, or after the user agreed to the list of these tools.
- An agreement is bound to one definition of one tool. If any part of the definition changes, the agreement is void.
- Each decision is recorded, even if there was no approver to ask.
"""
# QF-01. XL-044: a site's own claim cannot waive consent. XL-048, D-04: an approval covers one definition.

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

from toolwire.client.transport.drivers import NO_APPROVER
from toolwire.consent import Decision, DefinitionLock
from toolwire.consent.binding import CredentialRef
from toolwire.consent.change_description import describe_change
from toolwire.consent.grant import UNASKED, GrantKey
from toolwire.consent.policy import (
    CurrentPreferences,
    can_allow_always,
    can_rule_lift,
    find_unasked_writes,
    runs_unasked,
)
from toolwire.consent.similar_tools import add_permission, find_covered, list_similar
from toolwire.consent.tool_definition import Change, build_definition, definition_hash, find_changes
from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW, Answer, Check, Deny, SimilarTool, Verdict
from toolwire.core.codec import Peer
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Call, Json, Kind, Problem, Tool, copy_tool
from toolwire.stores.consent.operator_trust import OPERATORS

from .session import Session

_log = logging.getLogger("toolwire.client")
_MAX_DEFINITIONS = 50_000
_ALLOWING = ("allowed", "agreed", "signed", "answered")
_CHANGED = "The server has changed this tool since you approved it."
_TARGET_CHANGED = "You approved this tool at another address or over another protocol."
_CREDENTIAL_CHANGED = "You approved this tool with other credentials, or with none."


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParties:
    """The caller and the server of a call.

    ``site`` is the server's origin, and ``title`` is its own name for itself. ``name`` is the connection's name in
    ``session``. ``preferences`` combines the session's and the connection's. ``credential`` returns how a tool's
    requests are signed at that moment. ``program`` is the command, if a program is called instead.
    """

    session: Session
    name: str
    site: str
    title: str
    preferences: CurrentPreferences
    credential: Callable[[Tool], CredentialRef]
    program: str = ""


class DefinedTool(NamedTuple):
    """A tool with its definition, which is slow to compute and needed for each question.

    ``key`` identifies its grants, and ``agreement`` the user's trust in the site's claims.
    """

    tool: Tool
    parts: dict[str, Json]
    key: GrantKey
    agreement: GrantKey


class ClaimedRead(NamedTuple):
    """A tool that only its site calls read-only: what an operator would trust, and what has changed since."""

    tool: Tool
    key: GrantKey
    definition: Mapping[str, Json]
    changes: tuple[str, ...]


class Agreements:
    """The user's agreements about one connection's tools.

    ``target`` returns a tool's method and URL. ``plan`` returns everything else that decides what a call sends.
    ``before`` are the previous agreements of this connection, if its tools are the same. Their definitions are reused.
    """

    def __init__(
        self,
        parties: CallParties,
        target: Callable[[Tool], str],
        plan: Callable[[Tool], Any],
        before: Agreements | None = None,
    ) -> None:
        self._parties = parties
        self._session = parties.session
        self._target = target
        self._plan = plan
        self._defined: dict[int, DefinedTool] = {} if before is None else dict(before._defined)
        self._unchanged: dict[int, Tool] = {}
        self._agreed: set[int] = set()
        self._trusted: dict[int, GrantKey] = {}

    def definitions(self, tools: Iterable[Tool]) -> list[dict[str, Json]]:
        """Return the definition of each tool, as ``toolwire.lock`` holds it."""
        # FU-01: a key that the user adds later does not change the site.
        return [{**self.define(tool).parts, "credential": ""} for tool in tools]

    def check_claims(self, catalog: Catalog) -> Catalog:
        """Return ``catalog``. Tools that the user has not agreed to get ``claimed_safe`` instead of ``safe``."""
        tools = tuple(self._check_claim(tool) for tool in catalog.tools)
        unchanged = all(one is other for one, other in zip(tools, catalog.tools, strict=True))
        return catalog if unchanged else replace(catalog, tools=tools)

    def _check_claim(self, tool: Tool) -> Tool:
        if not tool.safe:
            return tool
        if runs_unasked(tool) and self._session.grants.has_grant(self.define(tool).agreement):
            self._agreed.add(id(tool))
            return tool
        trust = self._session.trust
        if trust is not None and runs_unasked(tool) and trust.has(key := self._define_trust(tool)[0]):
            self._agreed.add(id(tool))
            self._trusted[id(tool)] = key
            return tool
        # The claim stays next to the fact, so that a question can say why it is asked.
        doubted = copy_tool(tool, safe=False, claimed_safe=True)
        # GR-04: a definition contains the claim, not whether it is trusted, so both forms have the same definition.
        self._defined[id(doubted)] = self.define(tool)._replace(tool=doubted)
        return doubted

    def find_claims(self, tools: Iterable[Tool]) -> list[ClaimedRead]:
        """Return the ``tools`` that an operator could trust to be read-only, but does not trust yet. It can block."""
        # QF-01
        trust, found = self._session.trust, list[ClaimedRead]()
        for tool in tools if trust is not None else ():
            if tool.claimed_safe and runs_unasked(tool):
                key, parts = self._define_trust(tool)
                before = trust.find_trusted(key) if trust is not None else None
                changes = () if before is None else tuple(map(describe_change, find_changes(before, parts)))
                found.append(ClaimedRead(tool, key, parts, changes))
        return found

    def depends_on_trust(self, tool: Tool) -> bool:
        """Return whether a word of an operator decides if ``tool`` runs without a question."""
        return self._session.trust is not None and (tool.claimed_safe or id(tool) in self._trusted)

    def has_trust_changed(self, tool: Tool) -> bool:
        """Return whether operators have begun or stopped to trust ``tool``. It can block."""
        trust = self._session.trust
        return trust is not None and trust.read_now(self._define_trust(tool)[0]) is not (id(tool) in self._trusted)

    def is_agreed(self, tool: Tool) -> bool:
        """Return whether the user or the operator trusts ``tool``, as it is defined now, to run without a question."""
        return id(tool) in self._agreed

    def find_unapproved(self, tools: Iterable[Tool]) -> UntrustedTools:
        """Return the tools that would run without a question only because the site or an operator's rule says so."""
        waiting: list[Tool] = []
        tools, operator = tuple(tools), self._session.operator
        unasked = find_unasked_writes(tools)
        if operator is not None:  # QF-02: a rule is about a name, and trust is about what the name means now
            ids = set(map(id, unasked))
            ruled = (tool for tool in tools if id(tool) not in ids and operator.may_run(tool) and can_rule_lift(tool))
            unasked = (*unasked, *ruled)
        for tool in unasked:
            if self._session.grants.has_grant(self.define(tool).agreement):
                self._agreed.add(id(tool))
            else:
                waiting.append(tool)
        changed = {tool.id: tuple(map(describe_change, self._find_changes_since_trust(tool))) for tool in waiting}
        return UntrustedTools(waiting, {id_: changes for id_, changes in changed.items() if changes})

    def agree(self, tools: Iterable[Tool]) -> None:
        """Let ``tools`` run as the site declares, until their definitions change."""
        for tool in tools:
            # XL-055: each one has its own record, so that readers of the log can find it by tool.
            self._agreed.add(id(tool))
            key = self.define(tool).agreement
            self._session.grants.add(key)
            # QF-01: changes are shown against it. It does not cause questions, because the site was never approved.
            self._session.grants.pin_definition(key, self.define(tool).parts)
            self.record(tool, "", "agreed", NO_APPROVER)

    def revoke_changed(self, tools: Iterable[Tool]) -> None:
        """Revoke the grants for other definitions of ``tools``."""
        # XL-048: a grant must not survive a change to what it allows.
        grants, name = self._session.grants, self._parties.name
        # The key of an agreement has a suffix after the ID. See define().
        granted = {grant.key.tool.partition(" ")[0] for grant in grants.list_grants() if grant.key.connection == name}
        for tool in tools if granted else ():
            if tool.id in granted:
                grants.revoke_outdated(self.define(tool).key)

    def find_changes(self, tool: Tool) -> tuple[Change, ...]:
        """Return how ``tool`` differs from its last approved definition. Empty if none was approved."""
        known = self.define(tool)
        before = self._session.grants.find_pinned(known.key)
        return () if before is None else find_changes(before, known.parts)

    def _find_changes_since_trust(self, tool: Tool) -> tuple[Change, ...]:
        """Return how ``tool`` differs from the definition that was trusted last, or else approved."""
        before = self._session.grants.find_pinned(self.define(tool).agreement)
        return self.find_changes(tool) if before is None else find_changes(before, self.define(tool).parts)

    def find_reasons(self, call: Call) -> tuple[str, ...]:
        """Return the reasons to ask about this call, whatever was allowed before."""
        tool, found = call.tool, []
        # A tool object does not change, so it is compared once with the definition that was approved.
        if self._unchanged.get(id(tool)) is not tool:
            changed = self.find_changes(tool)
            if changed:
                found.append(_explain_changes({one.part for one in changed}))
            else:
                self._unchanged[id(tool)] = tool
        if self._session.data_flow is not None:  # D-33: a GET carries text away as well as a POST does
            name = self._parties.name
            sources = self._session.data_flow.find_sources(name, call.arguments)
            found += [f"This sends text from {source} to {name}." for source in sources]
        if leaving := self._session.marks.find_reason(call):
            found.append(leaving)
        return tuple(found)

    def count_use(self, tool: Tool, *, by_trust: bool = False) -> Callable[[], None] | None:
        """Count a call of ``tool`` that is covered by a grant without bounds or by trust in its site.

        If an operator trusts the tool, return the function that counts the call. It can block.
        """
        trust, key = self._session.trust, self._trusted.get(id(tool)) if by_trust else None
        if trust is not None and key is not None:
            return partial(trust.count_use, key)
        known = self.define(tool)
        self._session.grants.count_use(known.agreement if by_trust else known.key)
        return None

    def find_similar(self, tool: Tool, tools: Iterable[Tool]) -> list[SimilarTool]:
        """Return up to 100 of ``tools`` with the effect of ``tool`` that one permission can cover with it."""
        # QF-03
        session, preferences = self._session, self._parties.preferences.get()
        covered = find_covered(session.grants.list_grants())

        def can_allow(one: Tool) -> bool:
            is_open = self.define(one).key not in covered and not self.is_agreed(one)
            return is_open and can_allow_always(one, preferences, session.rules)

        found = list_similar(tool, tools, lambda one: self.define(one).key, can_allow)
        return [
            each._replace(changes=tuple(map(describe_change, self._find_changes_since_trust(one))))
            for one, each in found
        ]

    def spend_grant(self, call: Call) -> str:
        """Spend one use of a bounded grant that covers ``call``. Return the grant's ID, or an empty string."""
        # CC-03
        return self._session.grants.spend(self.define(call.tool).key, call.arguments)

    def remember(
        self,
        call: Call,
        *,
        always: bool,
        bounds: GrantBounds | None = None,
        similar: Sequence[SimilarTool] = (),
        tools: Iterable[Tool] = (),
    ) -> None:
        """Store the definition of the call's tool as approved. With ``always``, add a grant for later calls.

        ``similar`` are the other tools that ``bounds`` can cover.
        """
        known, grants = self.define(call.tool), self._session.grants
        self._pin(call.tool)
        if not always:
            return
        chosen = {one.definition for one in add_permission(grants, known.key, call, bounds, similar)}
        for tool in tools if chosen else ():
            if self.define(tool).key.definition in chosen:
                self._pin(tool)

    def _pin(self, tool: Tool) -> None:
        known = self.define(tool)
        self._session.grants.pin_definition(known.key, known.parts)
        self._unchanged.pop(id(tool), None)

    def record(
        self, tool: Tool, bound: str, decision: str, answer: Answer, took_s: float = 0.0, *, receipt: str = ""
    ) -> None:
        """Record a decision. ``bound`` is the digest of what was shown, and ``took_s`` is how long, in seconds.

        ``receipt`` is the signed receipt, as JSON text.

        Raises:
            ConnectionError: a decision that allows something cannot be stored. A refusal holds without its record.
        """
        record = Decision(
            at=self._session.wall(),
            principal=answer.decided_by or self._session.principal,
            caller=self._session.principal if answer.decided_by else "",
            connection=self._parties.name,
            tool=tool.id,
            binding=bound,
            decision=decision,
            channel=answer.channel,
            always=answer.always is True and decision == "allowed",
            shown_ms=int(took_s * 1_000),
            site=self._parties.site,
            receipt=receipt,
        )
        try:
            self._session.audit.append(record)
        except ConnectionError as error:
            if decision in _ALLOWING:
                raise
            _log.warning("%s: the decision %r cannot be stored now: %s.", tool.name, decision, error)

    def define(self, tool: Tool) -> DefinedTool:
        """Return the current definition of ``tool``, with the key of its grants."""
        # The identity is a safe key, since the entry keeps the tool alive.
        known = self._defined.get(id(tool))
        if known is None or known.tool is not tool:
            # Emptying the table at its limit saves bookkeeping for each call.
            if len(self._defined) >= _MAX_DEFINITIONS:
                self._defined.clear()
            parties = self._parties
            parts = build_definition(
                tool,
                target=_mask_query(self._target(tool)),
                plan=self._plan(tool),
                credential=parties.credential(tool).scheme,
            )
            key = GrantKey(self._session.principal, parties.name, parties.site, tool.id, definition_hash(parts))
            # A separate name, because an agreement must not be mistaken for a grant, which is the user's "always".
            agreement = key._replace(tool=f"{key.tool}{UNASKED}")
            known = self._defined[id(tool)] = DefinedTool(tool, parts, key, agreement)
        return known

    def _define_trust(self, tool: Tool) -> tuple[GrantKey, dict[str, Json]]:
        """Return what an operator trusts for all callers, even if each caller has their own credentials."""
        known = self.define(tool)
        parts = {**known.parts, "credential": ""}
        return known.agreement._replace(principal=OPERATORS, definition=definition_hash(parts)), parts


def _explain_changes(parts: set[str]) -> str:
    """Return why the user is asked again about a tool whose definition differs in these parts."""
    if parts == {"credential"}:
        return _CREDENTIAL_CHANGED
    # The user can have chosen another protocol, so do not blame the site for the change.
    return _TARGET_CHANGED if "target" in parts else _CHANGED


def _mask_query(target: str) -> str:
    """Return ``target`` with masked query values."""
    # A definition is stored in a file, and a query can contain a key.
    address, mark, query = target.partition("?")
    return address + mark + "&".join(f"{one.partition('=')[0]}=***" for one in query.split("&") if one)


def build_lock_check(locked: DefinitionLock, url: str, definitions: list[dict[str, Json]]) -> Check:
    """Return a check that refuses every tool of ``url`` that differs from its definition in ``locked``."""
    changed = {one.tool: one for one in locked.find_differences(url, definitions)}
    listed = locked.has_connection(url)

    def check(call: Call) -> Verdict:
        difference = changed.get(call.tool.id)
        if listed and difference is None:
            return ALLOW
        what = f"was {difference.what} since the lock was made" if listed and difference else "is not in the lock"
        text = f"{call.tool.name} {what}: check `toolwire diff`, and lock the tools again if you accept the change."
        return Deny(Problem(kind=Kind.CONFLICT, message=text, details={"locked": True}))

    return check


class CurrentDefinitions:
    """The current definitions of a connection's server.

    All pipelines of the connection share it, so that a call that waits for an answer sees later changes.
    """

    __slots__ = ("_agreements", "_peer")

    def __init__(self) -> None:
        self._peer: Peer | None = None
        self._agreements: Agreements | None = None

    def update(self, peer: Peer, agreements: Agreements) -> None:
        """Make the definitions of ``peer`` the current ones."""
        self._peer, self._agreements = peer, agreements

    def find_digest(self, tool: Tool) -> str:
        """Return the digest of the tool's current definition, or ``""`` if the server no longer offers it."""
        if self._peer is None or self._agreements is None:
            return ""
        current = self._peer.find_current(tool)
        return self._agreements.define(current).key.definition if isinstance(current, Tool) else ""


class UntrustedTools(tuple[Tool, ...]):
    """Tools that would run without a question only because their site says so.

    ``changes`` says how each tool that was trusted or approved before has changed since, by tool ID.
    """

    changes: Mapping[str, tuple[str, ...]]

    def __new__(cls, tools: Iterable[Tool], changes: Mapping[str, tuple[str, ...]]) -> Self:
        """Return the tools with their changes."""
        made = super().__new__(cls, tools)
        made.changes = changes
        return made
