"""Apply the operator's rules to callers: set their group, and replace their credentials' scopes."""
# GW-01, PL-02

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolwire.core.http import Headers
from toolwire.core.json_pointer import MISSING, resolve_pointer
from toolwire.core.model import Condition, Json, Problem, Tool
from toolwire.limits import RulesByCaller

from .callers import ANONYMOUS_CALLER, Caller, Callers, Fields

_MAX_CALLERS = 4_096
_NO_TOOL = Tool(name="claims")
"""Conditions look up an argument's default in its tool. Claims have no tool."""


class CallersWithRules:
    """The callers that ``source`` identifies, with the group and the scopes that ``rules`` set for them.

    A signed-in user has at most the scopes that they gave the calling app.
    """

    def __init__(self, source: Callers, rules: RulesByCaller) -> None:
        self._source, self._rules = source, rules
        self._known: dict[int, tuple[Caller, Caller]] = {}

    @property
    def needs_credentials(self) -> bool:
        """Whether requests need credentials."""
        return self._source.needs_credentials

    def find_caller(self, fields: Fields, /) -> Caller | Problem | None:
        """Return the caller as the rules say; see ``Callers``."""
        found = self._source.find_caller(fields)
        return self._apply(found) if isinstance(found, Caller) else found

    async def verify(self, fields: Fields, /) -> Caller | Problem:
        """Return the caller as the rules say; see ``Callers``."""
        found = await self._source.verify(fields)
        return self._apply(found) if isinstance(found, Caller) else found

    def challenge(self, problem: Problem, path: str, /) -> Headers:
        """Return the challenge of the source."""
        return self._source.challenge(problem, path)

    def _apply(self, caller: Caller) -> Caller:
        if caller is ANONYMOUS_CALLER:
            return caller
        # A source returns the same object for the same credentials, and the entry keeps it alive.
        known = self._known.get(id(caller))
        if known is not None and known[0] is caller:
            return known[1]
        applied = apply_rules(caller, self._rules)
        if len(self._known) >= _MAX_CALLERS:
            self._known.clear()
        self._known[id(caller)] = caller, applied
        return applied


def apply_rules(caller: Caller, rules: RulesByCaller) -> Caller:
    """Return ``caller`` with the group that its claims select and the scopes that its rules set."""
    group = find_group(caller, rules)
    scopes = rules.choose_scopes(caller.name, caller.scopes, group)
    if scopes == caller.scopes and group == caller.group:
        return caller
    return Caller(caller.name, scopes, caller.client_id, group, caller.claims, caller.until)


def find_group(caller: Caller, rules: RulesByCaller) -> str:
    """Return the first group whose conditions the caller's claims meet. It is empty if rules name the caller."""
    if not rules.groups or rules.find_named(caller.name) is not None:
        return ""
    for group, conditions in rules.groups.items():
        if meets_claims(conditions, caller.claims):
            return group
    return ""


def list_groups(caller: Caller, rules: RulesByCaller, groups_claim: str = "") -> frozenset[str]:
    """Return all groups of ``caller``: those defined in ``rules``, and those that the issuer names.

    If the rules define a group that the issuer also names, only the rules decide who belongs to it.
    """
    # PL-03: some issuers let users create groups, which must not pass for groups of the file.
    groups = caller.claims.get(groups_claim) if groups_claim else None
    named = groups if isinstance(groups, list) else [groups]
    found = {one for one in named if isinstance(one, str) and one and not rules.has_table(one)}
    found |= {group for group, conditions in rules.groups.items() if meets_claims(conditions, caller.claims)}
    return frozenset(found) | rules.find_member_groups(caller.name)


def meets_claims(conditions: Sequence[Condition], claims: Mapping[str, Json]) -> bool:
    """Return whether ``claims`` meet all ``conditions``."""
    return all(_is_claimed(condition, claims) for condition in conditions)


def _is_claimed(condition: Condition, claims: Mapping[str, Json]) -> bool:
    """Return whether ``condition`` holds for a claim, or for an item of a list claim such as ``groups``."""
    from toolwire.consent.conditions import is_met  # few servers define groups by claims

    found = resolve_pointer(claims, condition.pointer)
    if found is MISSING or not isinstance(found, list) or condition.op == "present":
        return is_met(condition, _NO_TOOL, claims) is True
    one = Condition("/item", condition.op, condition.value)
    return any(is_met(one, _NO_TOOL, {"item": item}) is True for item in found)
