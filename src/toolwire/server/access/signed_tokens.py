"""Identify callers by signed tokens. Each token is verified once, then found by its digest until it expires.

Rules:
- The server stores a token's digest, caller and expiry, never the token.
- A token signed with an unknown key makes the server fetch the keys again, at most once in 30 seconds.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import anyio

from toolwire.auth.caller_token import ExpectedClaims, Keyring, UnknownKey, is_token, read_jwks, read_token
from toolwire.core.http import Headers
from toolwire.core.model import Json, Kind, Problem

from .callers import Caller, Fields, build_scope_challenge, read_credential
from .protected_resource import find_protected_resource

Fetch: TypeAlias = Callable[[], Awaitable[bytes | Problem]]
"""Fetches the published JWK Set. Returns a Problem if that fails."""

MAX_CACHED = 4_096
CACHED_S = 900.0
"""How long a verified token is cached, in seconds. A revoked key is noticed after that time."""

_FRESH_S = 3_600.0
_BETWEEN_S = 30.0


class IssuerKeys:
    """An issuer's published keys. They are fetched when first needed, then every hour and for an unknown key."""

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Fetch keys with ``fetch``. ``clock`` returns seconds and never goes back."""
        self._fetch = fetch
        self._clock = clock
        self._lock: anyio.Lock | None = None
        self._keyring: Keyring | None = None
        self._problem = _NO_KEYS
        self._tried_at = -_FRESH_S
        self._fetched_at = -_FRESH_S

    async def get_keyring(self) -> Keyring | Problem:
        """Return the keys. If they are older than an hour, fetch them again, and return the old ones if that fails."""
        if self._keyring is None or self._clock() - self._fetched_at >= _FRESH_S:
            await self._refresh()
        return self._problem if self._keyring is None else self._keyring

    async def get_newer_keyring(self) -> Keyring | Problem:
        """Return the keys, fetched again unless that was tried within the last 30 seconds."""
        await self._refresh()
        return self._problem if self._keyring is None else self._keyring

    async def _refresh(self) -> None:
        if self._lock is None:
            self._lock = anyio.Lock()
        async with self._lock:
            now = self._clock()
            # Anyone can send tokens with unknown keys. That must not make the server fetch for each of them.
            if now - self._tried_at < _BETWEEN_S:
                return
            # Set before the attempt, so that a failing issuer is not asked for each call.
            self._tried_at = now
            data = await self._fetch()
            keyring = data if isinstance(data, Problem) else read_jwks(data)
            if isinstance(keyring, Keyring):
                self._keyring, self._fetched_at = keyring, now


class _CachedCaller(NamedTuple):
    caller: Caller
    since: float
    until: float


class SignedTokenCallers:
    """The callers of a server that accepts tokens signed with its own secret or with an issuer's keys.

    At most ``max_cached`` verified tokens are cached. Beyond that, the oldest are verified again.
    """

    needs_credentials = True

    def __init__(
        self,
        keys: Keyring | IssuerKeys,
        expected: ExpectedClaims,
        *,
        max_cached: int = MAX_CACHED,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Accept tokens that ``keys`` verify, with the ``expected`` claims. ``clock`` returns seconds since 1970."""
        self._keys = keys
        self._expected = expected
        self._max_cached = max_cached
        self._clock = clock
        self._cached: OrderedDict[bytes, _CachedCaller] = OrderedDict()
        self.protected_resource = find_protected_resource(expected.audience, expected.issuer)
        """Tells clients where tokens come from. None if the claims do not contain that as URLs."""
        metadata = (
            "" if self.protected_resource is None else f'resource_metadata="{self.protected_resource.metadata_url}"'
        )
        self._hint = f", {metadata}" if metadata else ""
        self._metadata = metadata

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return a verified token's caller, None if the token must be verified, or a Problem if it is not a token."""
        given = read_credential(fields)
        if not given:
            return _NO_TOKEN
        # D-27: looked up by digest, so that neither memory nor the time of a comparison reveals a token.
        cached = self._cached.get(sha256(given).digest())
        # After the clock was set back the token is verified again: else it would stay in the cache for too long.
        if cached is not None and cached.since <= self._clock() < cached.until:
            return cached.caller
        return None if is_token(given) else _NOT_A_TOKEN

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return the caller of the token after checking its signature and claims, or a Problem."""
        # OTC-035, OXP-012
        given = read_credential(fields)
        keyring = self._keys if isinstance(self._keys, Keyring) else await self._keys.get_keyring()
        if isinstance(keyring, Problem):
            return keyring
        now = self._clock()
        token = read_token(given, keyring, self._expected, now)
        if isinstance(token, UnknownKey) and isinstance(self._keys, IssuerKeys):
            newer = await self._keys.get_newer_keyring()
            token = newer if isinstance(newer, Problem) else read_token(given, newer, self._expected, now)
        if isinstance(token, UnknownKey):
            return token.problem
        if isinstance(token, Problem):
            return token
        caller = Caller(token.name, token.scopes, token.client_id, claims=token.claims, until=token.expires)
        self._remember(sha256(given).digest(), _CachedCaller(caller, now, min(token.expires, now + CACHED_S)))
        return caller

    @property
    def security_scheme(self) -> dict[str, Json] | None:
        """OpenAPI's security scheme, which names the issuer. None if the issuer is not a URL that clients can use."""
        # I-31
        resource = self.protected_resource
        if resource is None:
            return None
        return {"type": "openIdConnect", "openIdConnectUrl": f"{resource.issuer.rstrip('/')}{_OPENID}"}

    def challenge(self, problem: Problem, _path: str, /) -> Headers:
        """Return the challenge of RFC 6750. It has no error code if the request had no token."""
        # AS-15: each refusal tells a client where to get a token.
        if problem.kind is not Kind.UNAUTHORIZED:
            return build_scope_challenge(problem, self._hint)
        named = problem.details.get("scopes")  # I-22: a client requests the scopes that the first refusal names
        scopes = f'scope="{" ".join(map(str, named))}"' if isinstance(named, list) and self._metadata else ""
        error = "" if problem.message == _NO_TOKEN.message else 'error="invalid_token"'
        parameters = ", ".join(part for part in (error, self._metadata, scopes) if part)
        return ((b"www-authenticate", f"Bearer {parameters}".encode("latin-1", "replace")),) if parameters else ()

    def _remember(self, digest: bytes, cached: _CachedCaller) -> None:
        # The oldest is removed, so that a caller with many tokens cannot exceed the limit of memory.
        if len(self._cached) >= self._max_cached:
            self._cached.popitem(last=False)
        self._cached[digest] = cached


_OPENID = "/.well-known/openid-configuration"
_NO_TOKEN = Problem(kind=Kind.UNAUTHORIZED, message="Send a token: Authorization: Bearer TOKEN.")
_NOT_A_TOKEN = Problem(kind=Kind.UNAUTHORIZED, message="This server does not accept this token.")
_NO_KEYS = Problem(
    kind=Kind.OVERLOADED,
    message="Tokens cannot be verified now, because their issuer's keys cannot be fetched.",
    can_retry=True,
    retry_after_ms=30_000,
)
