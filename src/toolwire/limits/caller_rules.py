"""Say what one caller of a server may do: its scopes and tools, how often it calls, and who answers for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from toolwire.core.model import Condition, RateLimit

EVERY_CALLER = "*"
"""The name of the rules for all callers that have none of their own."""

USER_PREFIX = "user:"
"""How the name in calls begins of a person who signed in at the server: ``user:NAME:DIGITS``."""

_PREFIXES = ("key:", "jwt:")
_NAME_IN_CALLS = re.compile(r"key:|jwt:|user:.*:[0-9a-f]+\Z|(?:key|jwt)-[0-9a-f]{12,64}\Z|\*\Z", re.DOTALL)


def list_rule_names(principal: str) -> tuple[str, ...]:
    """Return by which names a file may mean the caller who is ``principal`` in calls; the first one in it counts.

    ``key:ann`` is also ``ann``, and so is ``user:ann:DIGITS``; everybody is ``*`` at last.
    """
    if principal.startswith(_PREFIXES):
        short = principal[4:]
        # D-09: who issues tokens chooses their subjects, and none of them is the name in calls of another caller.
        return (principal, EVERY_CALLER) if _NAME_IN_CALLS.match(short) else (principal, short, EVERY_CALLER)
    if principal.startswith(USER_PREFIX):
        return principal, read_user_name(principal), EVERY_CALLER
    return principal, EVERY_CALLER


Effect: TypeAlias = Literal["reads", "writes", "destructive", "costs"]
"""What a call of a tool does: it only reads, changes something, destroys something, or costs something."""

EFFECTS: Final[tuple[Effect, ...]] = ("reads", "writes", "destructive", "costs")


class ToolBound(NamedTuple):
    """The most that somebody may use of the tools of a gateway; ``None`` does not limit.

    ``tools`` are patterns: ``UPSTREAM``, or ``UPSTREAM.TOOL``, each with ``*`` and ``?``. Where there are no upstreams,
    a toolkit stands for one. ``effects`` are all that a
    tool may have. ``arguments`` are conditions that the arguments of a call must meet, for the tools of a pattern.
    """

    # PL-02

    tools: tuple[str, ...] | None = None
    effects: frozenset[str] | None = None
    arguments: tuple[tuple[str, tuple[Condition, ...]], ...] = ()


NO_BOUND: Final = ToolBound()


class ToolBundle(NamedTuple):
    """Some of the tools of a server under a ``title``, at a URL of their own."""

    bound: ToolBound
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerRules:
    """The rules for one caller. ``None`` means no rule.

    - ``scopes``: replaces the scopes of the caller's credentials.
    - ``rate``: the rate limit of all the caller's calls together.
    - ``running``: how many of the caller's calls can run at once.
    - ``inbox``: send each question to the caller's inbox, so that no client can confirm a call itself.
    - ``answered_by``: other callers and users who answer this caller's questions in the inbox.
    - ``bound``: the most that the caller can use, whatever scopes, consent and permissions allow.
    - ``claims``: conditions. The rules also apply to every caller whose claims meet all conditions and who has no rules
      of their own.
    - ``member_of``: the group whose rules these are.
    - ``self_approval``: if false, users cannot answer questions about their own calls.
    """

    # GW-01, AT-35, PL-02

    scopes: frozenset[str] | None = None
    rate: RateLimit | None = None
    running: int | None = None
    inbox: bool = False
    answered_by: frozenset[str] = frozenset()
    bound: ToolBound = NO_BOUND
    claims: tuple[Condition, ...] = ()
    member_of: str = ""
    self_approval: bool = True


NO_RULES = CallerRules()


class RulesByCaller:
    """The rules of each caller by name: ``ann`` is the owner of a key, the subject of a token, or who signed in.

    The rules of a group are for the callers that are not named, and whose claims put them into it. Those called ``*``
    are for all others.
    """

    def __init__(self, rules: Mapping[str, CallerRules]) -> None:
        self._rules = dict(rules)
        self._others = self._rules.pop(EVERY_CALLER, NO_RULES)
        self.has_scopes: bool = any(one.scopes is not None for one in rules.values())
        self.has_inbox: bool = any(one.inbox for one in rules.values())
        self.has_bounds: bool = any(one.bound != NO_BOUND for one in rules.values())
        self.deciders: frozenset[str] = frozenset().union(*(one.answered_by for one in rules.values()))
        self.groups: Mapping[str, tuple[Condition, ...]] = {
            name: one.claims for name, one in self._rules.items() if one.claims
        }
        """The conditions of each group that callers belong to by their claims, in the order of the rules."""

    def find(self, principal: str, group: str = "") -> CallerRules:
        """Return the rules of the caller whose name in calls is ``principal``, such as ``key:ann``.

        ``group`` is the name of the group that the caller belongs to by its claims, if any.
        """
        found = self.find_named(principal)
        if found is None and group in self.groups:
            found = self._rules[group]
        return self._others if found is None else found

    def find_named(self, principal: str) -> CallerRules | None:
        """Return the rules that name the caller ``principal``, or None."""
        found = self._rules.get(principal)
        if found is None:
            known = (self._rules.get(name) for name in list_rule_names(principal)[1:])
            found = next((one for one in known if one is not None), None)
        return found

    def has_table(self, name: str) -> bool:
        """Return whether there are rules of this name."""
        return name in self._rules

    def find_member_groups(self, principal: str) -> frozenset[str]:
        """Return the group of which the rules name the caller ``principal`` as a member."""
        found = self.find_named(principal)
        return frozenset((found.member_of,)) if found is not None and found.member_of else frozenset()

    def can_answer(
        self,
        decider: str,
        principal: str,
        *,
        has_account: bool,
        approvers: Collection[str] = (),
        groups: Collection[str] = (),
    ) -> bool:
        """Return whether ``decider`` may answer the questions of ``principal``; both are names in calls.

        ``has_account`` says that ``decider`` signed in as a user, and not with a credential for calls. A user answers
        the own questions. A credential answers those of other callers alone, where their rules name it. If a question
        is for the groups ``approvers``, only those answer it who are in one: ``groups`` are those of ``decider``.
        """
        rules, names = self.find(principal), frozenset(list_rule_names(decider)[:-1])
        is_own = not names.isdisjoint(list_rule_names(principal)[:-1])
        # AT-35: the program that makes the call holds the credential, so its answer would be no user's.
        # PL-03: of the calls of a user's apps, the file can say the same.
        if is_own and not (has_account and rules.self_approval):
            return False
        if approvers:
            return not frozenset(approvers).isdisjoint(groups)
        return (has_account and decider == principal) or not names.isdisjoint(rules.answered_by)

    def choose_scopes(self, principal: str, granted: frozenset[str] | None, group: str = "") -> frozenset[str] | None:
        """Return the scopes of a caller whose credentials have ``granted``; None means all."""
        scopes = self.find(principal, group).scopes
        if scopes is None:
            return granted
        # GW-02: a person allowed an app a part of what they may do, to which no rule adds.
        return scopes & granted if granted is not None and principal.startswith(USER_PREFIX) else scopes


def read_user_name(principal: str) -> str:
    """Return with which name the person signed in who is called ``principal`` in calls."""
    return principal.removeprefix(USER_PREFIX).rpartition(":")[0]
