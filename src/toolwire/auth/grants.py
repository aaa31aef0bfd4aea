"""Judge codes and tokens: when each is valid, and for what.

Rules:
- Codes and tokens are identified by their digests.
- All tokens of one grant end together: by revocation, a replayed code, or a reused refresh token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .pkce import find_proof_error
from .request_parameters import OAuthError, invalid_grant
from .resource_indicators import canonical_uri, invalid_target
from .scopes import invalid_scope

CLOCK_SKEW_S = 30.0
"""How many seconds the clocks of two processes that share a database may differ."""


def is_current(since: float, until: float, now: float) -> bool:
    """Return whether ``now`` is in the time from ``since`` to ``until``, all in seconds since 1970."""
    # What was issued in the future was issued before the clock was set back. It is void: the clock would otherwise make
    # it valid for longer than its lifetime.
    return since - CLOCK_SKEW_S <= now < until


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthGrant:
    """What ``user`` let an app do at ``resource``. Times are seconds since 1970; ``until`` is the very end of it.

    ``fingerprint`` is that of the client as it was shown. ``used`` turns true when the first token is issued.
    """

    id: str
    user: str
    client_id: str
    client_name: str
    fingerprint: str
    resource: str
    scopes: tuple[str, ...]
    created: float
    until: float
    revoked: float | None = None
    used: bool = False

    def is_active(self, now: float) -> bool:
        """Return whether the grant is valid at ``now``."""
        return self.revoked is None and is_current(self.created, self.until, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationCode:
    """An authorization code: valid once, until ``until``, for the client that proves ``challenge``."""

    digest: str
    grant: str
    redirect_uri: str
    challenge: str
    until: float
    used: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An access or refresh token. ``used``: when a refresh token was exchanged, and then by which ``request``.

    ``sealed`` holds the successor for a retry, readable only with the token itself.
    """

    digest: str
    kind: Literal["access", "refresh"]
    grant: str
    scopes: tuple[str, ...]
    since: float
    until: float
    used: float | None = None
    request: str = ""
    sealed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExchange:
    """A request of an authenticated client to exchange a code for tokens."""

    client_id: str
    verifier: str
    redirect_uri: str = ""
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRefresh:
    """A request of an authenticated client to exchange a refresh token. No ``scopes`` means the same ones."""

    client_id: str
    scopes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    request: str = ""


@dataclass(frozen=True, slots=True)
class IssueTokens:
    """Issue tokens with these scopes."""

    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RepeatTokens:
    """The client repeats its request, because it lost the response: issue the same refresh token again."""

    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenReused:
    """A code or token was used twice, so it may be stolen: revoke the grant, and refuse."""

    refusal: OAuthError


Verdict: TypeAlias = IssueTokens | RepeatTokens | TokenReused | OAuthError


def judge_code(code: AuthorizationCode | None, grant: OAuthGrant | None, request: CodeExchange, now: float) -> Verdict:
    """Return whether ``wish`` turns ``code`` into tokens; a replay with the right verifier ends the family."""
    # AS-05
    if code is None or grant is None or request.client_id != grant.client_id:
        return invalid_grant("The code is unknown, or belongs to another client.")
    if request.redirect_uri and request.redirect_uri != code.redirect_uri:
        return invalid_grant("redirect_uri is not the one that the code was sent to.")
    unproved = find_proof_error(code.challenge, request.verifier)
    if unproved is not None:
        return unproved
    if code.used is not None:
        return TokenReused(invalid_grant("The code was already used. All tokens issued for it were revoked."))
    if now >= code.until or not grant.is_active(now):
        return invalid_grant("The code has expired.")
    return _refuse_other_resource(request.resources, grant) or IssueTokens(grant.scopes)


def judge_refresh(
    token: Token | None, grant: OAuthGrant | None, request: TokenRefresh, now: float, grace_s: float
) -> Verdict:
    """Return whether ``wish`` exchanges ``token``; one that was exchanged before ends the family.

    Within ``grace_s`` of the exchange, the very same request is taken for a retry instead; 0 means never.
    """
    # AS-11
    if token is None or token.kind != "refresh" or grant is None or request.client_id != grant.client_id:
        return invalid_grant("The refresh token is unknown, or belongs to another client.")
    if not grant.is_active(now):
        return invalid_grant("The user's permission for this app has ended. Ask the user again.")
    if token.used is not None:
        is_recent = is_current(token.used, token.used + grace_s, now)
        if token.sealed and is_recent and request.request == token.request:
            return RepeatTokens(request.scopes or token.scopes)
        return build_reuse_verdict()
    return _judge_exchange(token, grant, request, now)


def build_reuse_verdict() -> TokenReused:
    """Return the verdict on a refresh token that was exchanged before."""
    # AS-11
    return TokenReused(invalid_grant("The refresh token was already used. All tokens of this app were revoked."))


def _judge_exchange(token: Token, grant: OAuthGrant, request: TokenRefresh, now: float) -> IssueTokens | OAuthError:
    if not is_current(token.since, token.until, now):
        return invalid_grant("The refresh token has expired.")
    if not set(request.scopes) <= set(token.scopes):
        return invalid_scope("A refresh request cannot add scopes to those that were granted.")
    return _refuse_other_resource(request.resources, grant) or IssueTokens(request.scopes or token.scopes)


def is_valid_at(token: Token | None, grant: OAuthGrant | None, resource: str, now: float) -> bool:
    """Return whether an access token is good at ``resource`` now."""
    # AS-08, AS-10
    if token is None or grant is None or token.kind != "access":
        return False
    is_valid = is_current(token.since, token.until, now) and grant.is_active(now)
    return is_valid and canonical_uri(grant.resource) == canonical_uri(resource)


def _refuse_other_resource(resources: tuple[str, ...], grant: OAuthGrant) -> OAuthError | None:
    for uri in resources:
        if canonical_uri(uri) != canonical_uri(grant.resource):
            return invalid_target("The code or token is for a different resource.")
    return None
