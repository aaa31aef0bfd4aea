"""Who calls, by the access token they show: the half of OAuth that the protected server has.

Rules:
- A token counts in the Authorization field as a Bearer token, nowhere else.
- A token that was good is remembered by digest for a few seconds; a revocation in this process forgets all at once.
"""
# AS-15

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from toolwire.auth.challenge import write_challenge
from toolwire.auth.clients import digest
from toolwire.auth.scopes import write_scopes
from toolwire.auth.server_metadata import RESOURCE, well_known
from toolwire.core.http import Headers
from toolwire.core.model import Kind, Problem
from toolwire.server.access.callers import Caller, Fields
from toolwire.stores.oauth.database import StoreGoneError

from .server_context import ServerContext
from .token_issuing import look_up

_log = logging.getLogger("toolwire.oauth")
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class CachedCaller:
    """A caller that was found, and until when that is taken for true."""

    caller: Caller
    until: float


class TokenCallers:
    """Callers with an access token of one authorization server. See ``toolwire.server.access.callers``."""

    wanted = True

    def __init__(self, desk: ServerContext, clock: Callable[[], float] = monotonic) -> None:
        self._desk = desk
        self._clock = clock
        self._seen: dict[str, CachedCaller] = {}
        self._generation = 0
        desk.revoked.append(self._forget)

    def known(self, fields: Fields) -> Caller | Problem | None:
        """Return the caller of a token seen a moment ago, the Problem of no token, or None: ask ``verify``."""
        token = _token(fields)
        if not token:
            return _NO_TOKEN
        seen = self._seen.get(digest(token))
        return seen.caller if seen is not None and self._clock() < seen.until else None

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return whose token it is, if it is good at our resource now."""
        # AS-08, AS-10
        token = _token(fields)
        if not token:
            return _NO_TOKEN
        generation, desk = self._generation, self._desk
        try:
            found = await desk.run_in_thread(look_up, desk, token)
        except StoreGoneError as error:
            _log.error("a token cannot be looked up: %s", error)
            return _NOT_NOW
        if found is None:
            return _BAD_TOKEN
        known, grant = found
        caller = Caller(grant.user, frozenset(known.scopes))
        left_s = min(desk.settings.cache_s, known.until - desk.now(), grant.until - desk.now())
        if left_s > 0 and generation == self._generation:  # else something was revoked while we looked
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[digest(token)] = CachedCaller(caller, self._clock() + left_s)
        return caller

    def challenge(self, problem: Problem, path: str) -> Headers:  # noqa: ARG002 - one resource, whatever the path
        """Return what a refused request is asked for: a token, another token, or one with more scopes."""
        # AS-15
        settings = self._desk.settings
        said = {"resource_metadata": well_known(RESOURCE, settings.resource)}
        if problem.kind is Kind.FORBIDDEN:
            said |= {"error": "insufficient_scope", "scope": write_scopes(problem.details.get("scopes", ()))}
        else:
            said |= {"error": "invalid_token"} if problem.details.get("error") == "invalid_token" else {}
            said |= {"scope": write_scopes(settings.offer.first)}
        return ((b"www-authenticate", write_challenge("Bearer", said).encode("latin-1", "replace")),)

    def _forget(self) -> None:
        self._generation += 1
        self._seen.clear()


def _token(fields: Fields) -> str:
    scheme, _, rest = fields.get(b"authorization", b"").partition(b" ")
    return rest.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


_NO_TOKEN = Problem(kind=Kind.UNAUTHORIZED, message="Send an access token: Authorization: Bearer TOKEN.")
_NOT_NOW = Problem(
    kind=Kind.OVERLOADED,
    message="Tokens cannot be looked up at the moment; the call did not run.",
    can_retry=True,
    retry_after_ms=1_000,
)
_BAD_TOKEN = Problem(
    kind=Kind.UNAUTHORIZED,
    message="This access token is not good here: it has expired, was revoked, or is for another server.",
    details={"error": "invalid_token"},
)
