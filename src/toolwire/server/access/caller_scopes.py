"""Give callers the scopes that the operator's rules name, instead of those of their credentials."""
# GW-01

from __future__ import annotations

from toolwire.core.http import Headers
from toolwire.core.model import Problem
from toolwire.limits import RulesByCaller

from .callers import ANONYMOUS_CALLER, Caller, Callers, Fields

_MOST = 4_096


class CallersWithScopes:
    """The callers that ``source`` identifies, each with the scopes that ``rules`` give it, if they give any.

    A person who signed in has at most those that they allowed the app which calls for them.
    """

    def __init__(self, source: Callers, rules: RulesByCaller) -> None:
        self._source, self._rules = source, rules
        self._known: dict[int, tuple[Caller, Caller]] = {}

    @property
    def needs_credentials(self) -> bool:
        """Whether requests need credentials."""
        return self._source.needs_credentials

    def find_caller(self, fields: Fields, /) -> Caller | Problem | None:
        """Return the caller with the scopes of the rules; see ``Callers``."""
        found = self._source.find_caller(fields)
        return self._apply(found) if isinstance(found, Caller) else found

    async def verify(self, fields: Fields, /) -> Caller | Problem:
        """Return the caller with the scopes of the rules; see ``Callers``."""
        found = await self._source.verify(fields)
        return self._apply(found) if isinstance(found, Caller) else found

    def challenge(self, problem: Problem, path: str, /) -> Headers:
        """Return the challenge of the source."""
        return self._source.challenge(problem, path)

    def _apply(self, caller: Caller) -> Caller:
        if caller is ANONYMOUS_CALLER:
            return caller
        # A source returns one object for the same credentials, and the entry keeps it alive.
        known = self._known.get(id(caller))
        if known is not None and known[0] is caller:
            return known[1]
        scopes = self._rules.choose_scopes(caller.name, caller.scopes)
        applied = caller if scopes == caller.scopes else Caller(caller.name, scopes, caller.client_id)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[id(caller)] = caller, applied
        return applied
