"""Identify callers by their access tokens, for the server that the tokens are for.

Rules:
- A token must be a Bearer token in the Authorization field.
- A valid token is cached by digest for a few seconds. A revocation in this process clears the cache.
"""
# AS-15

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic

from toolwire.auth.challenge import write_challenge
from toolwire.auth.clients import hash_secret
from toolwire.auth.grants import OAuthGrant, Token
from toolwire.auth.scopes import write_scopes
from toolwire.auth.server_metadata import RESOURCE_PATH, build_server_metadata, well_known_url
from toolwire.core.check import ALLOW, Deny, Verdict
from toolwire.core.http import Headers
from toolwire.core.model import Call, Json, Kind, Problem
from toolwire.server.access.callers import Caller, Fields
from toolwire.server.asking.confirmation import DeferredVerdict
from toolwire.server.http.response_stream import REVOKED
from toolwire.stores.oauth.database import StoreUnavailableError
from toolwire.stores.outage_log import OutageLog

from .server_context import ServerContext
from .token_issuing import find_access_token

_log = logging.getLogger("toolwire.oauth")
_MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class CachedCaller:
    """A caller and the time until which the cache is used, in seconds of a monotonic clock."""

    caller: Caller
    expires_at: float


class TokenCallers:
    """Identifies callers by access tokens of one authorization server. See ``toolwire.server.access.callers``."""

    needs_credentials = True

    def __init__(self, context: ServerContext, clock: Callable[[], float] = monotonic) -> None:
        self._context = context
        self._outages = OutageLog(_log, "Tokens can be looked up again.")
        self._clock = clock
        self._cache: dict[str, CachedCaller] = {}
        self._generation = 0
        context.on_revoke.append(self._forget)

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return the cached caller, the Problem of a missing token, or None if ``verify`` must be asked."""
        token = _read_token(fields)
        if not token:
            return _NO_TOKEN
        cached = self._cache.get(hash_secret(token))
        return cached.caller if cached is not None and self._clock() < cached.expires_at else None

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return the caller whose token it is, or the Problem if the token is not valid for our resource now."""
        # AS-08, AS-10
        token = _read_token(fields)
        if not token:
            return _NO_TOKEN
        generation, context = self._generation, self._context
        try:
            found = await context.run_in_thread(_find_grant, context, token)
        except StoreUnavailableError as error:
            self._outages.record_failure("a token cannot be looked up: %s.", error)
            return _NOT_NOW
        self._outages.record_success()
        if found is None:
            return _BAD_TOKEN
        known, grant, claims = found
        until = min(known.until, grant.until)
        caller = Caller(grant.user, frozenset(known.scopes), grant.client_id, claims=claims, until=until)
        left_s = min(context.settings.cache_s, until - context.now())
        # A revocation during the lookup may be about this token: then it is not cached.
        if left_s > 0 and generation == self._generation:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[hash_secret(token)] = CachedCaller(caller, self._clock() + left_s)
        return caller

    def check_accepted(self, call: Call) -> DeferredVerdict:
        """Refuse a long call that was accepted if its caller revoked the access of its app before it begins."""
        # D-38

        def decide() -> Verdict:
            with self._context.store.read_transaction() as rows:
                is_revoked = rows.is_revoked(call.context.principal, call.context.client_id)
            return Deny(replace(REVOKED, kind=Kind.DENIED)) if is_revoked else ALLOW

        return DeferredVerdict(decide)

    @property
    def security_scheme(self) -> dict[str, Json]:
        """OpenAPI's security scheme, from which a client learns where its user signs in."""
        # I-31
        settings = self._context.settings
        metadata = build_server_metadata(settings.issuer, settings.scopes)
        page, token = metadata["authorization_endpoint"], metadata["token_endpoint"]
        flow = {"authorizationUrl": page, "tokenUrl": token, "refreshUrl": token, "scopes": dict(settings.scopes)}
        return {"type": "oauth2", "flows": {"authorizationCode": flow}}

    def challenge(self, problem: Problem, _path: str, /) -> Headers:
        """Return the ``WWW-Authenticate`` field of a refused request: it asks for a token, or for more scopes.

        Without a valid token it names the scopes in ``problem.details["scopes"]``, or else every scope, of which the
        user chooses.
        """
        # AS-15, I-22: an MCP host asks for what the first refusal names, and seldom again for more.
        settings = self._context.settings
        parameters = {"resource_metadata": well_known_url(RESOURCE_PATH, settings.resource)}
        if problem.kind is Kind.FORBIDDEN:
            if "scopes" not in problem.details:  # it is not the token that was refused
                return ()
            parameters |= {"error": "insufficient_scope", "scope": write_scopes(problem.details["scopes"])}
        else:
            parameters |= {"error": "invalid_token"} if problem.details.get("error") == "invalid_token" else {}
            named = problem.details.get("scopes")
            wanted = [scope for scope in named if scope in settings.scopes] if isinstance(named, list) else []
            parameters |= {"scope": write_scopes(wanted or settings.supported_scopes.scopes)}
        return ((b"www-authenticate", write_challenge("Bearer", parameters).encode("latin-1", "replace")),)

    def _forget(self) -> None:
        self._generation += 1
        self._cache.clear()


def _find_grant(context: ServerContext, text: str) -> tuple[Token, OAuthGrant, Mapping[str, Json]] | None:
    """Return a valid token with its grant, and what the issuer says of its user where users sign in at one."""
    found = find_access_token(context, text)
    if found is None or context.identity_provider is None:
        return None if found is None else (*found, {})
    # PL-03: the groups of a user are those of the last sign-in, which must not be too old.
    account = context.users.find(found[1].user)
    return None if account is None else (*found, getattr(account, "claims", {}))


def _read_token(fields: Fields) -> str:
    scheme, _, rest = fields.get(b"authorization", b"").partition(b" ")
    return rest.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


_NO_TOKEN = Problem(kind=Kind.UNAUTHORIZED, message="Send an access token: Authorization: Bearer TOKEN.")
_NOT_NOW = Problem(
    kind=Kind.OVERLOADED,
    message="The call did not run: tokens cannot be verified now.",
    can_retry=True,
    retry_after_ms=1_000,
)
_BAD_TOKEN = Problem(
    kind=Kind.UNAUTHORIZED,
    message="Invalid access token: it has expired, was revoked, or is for another server.",
    details={"error": "invalid_token"},
)
