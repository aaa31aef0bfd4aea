"""Say what one caller of a server may do: which scopes it has, how often it calls, and how many calls it may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolwire.core.model import RateLimit

EVERY_CALLER = "*"
"""The name of the rules for all callers that have none of their own."""

_PREFIXES = ("key:", "jwt:")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerRules:
    """The rules for a caller: ``None`` leaves what holds without them.

    ``scopes`` stand for those of the caller's credentials. ``rate`` counts all calls of the caller, and ``running`` is
    how many of them may run at a time.
    """

    # GW-01

    scopes: frozenset[str] | None = None
    rate: RateLimit | None = None
    running: int | None = None


NO_RULES = CallerRules()


class RulesByCaller:
    """The rules of each caller by name: ``ann`` is the owner of a key, the subject of a token, or who signed in.

    The rules called ``*`` are for the callers that are not named.
    """

    def __init__(self, rules: Mapping[str, CallerRules]) -> None:
        self._rules = dict(rules)
        self._others = self._rules.pop(EVERY_CALLER, NO_RULES)
        self.has_scopes = any(one.scopes is not None for one in rules.values())

    def find(self, principal: str) -> CallerRules:
        """Return the rules of the caller whose name in calls is ``principal``, such as ``key:ann``."""
        found = self._rules.get(principal)
        if found is None and principal.startswith(_PREFIXES):
            found = self._rules.get(principal[4:])
        return self._others if found is None else found
