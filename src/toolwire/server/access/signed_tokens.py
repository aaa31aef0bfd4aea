"""Callers told apart by signed tokens: each is verified once, and known by its digest until it expires.

Rules:
- What is kept of a token is its digest, whose it is and until when. [D-26, D-27]
- A key that is not known asks for newer keys, but not more often than once in half a minute.
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
from toolwire.core.model import Kind, Problem

from .callers import Caller, Fields, build_scope_challenge, read_credential

Fetch: TypeAlias = Callable[[], Awaitable[bytes | Problem]]
"""Returns the JWK Set as it is published now, or the Problem of not getting it."""

MAX_CACHED = 4_096
CACHED_S = 900.0
"""How long a token is known without another look, in seconds: after that a key that was withdrawn is noticed."""

_FRESH_S = 3_600.0
_BETWEEN_S = 30.0


class IssuerKeys:
    """The keys of an issuer as they are published, fetched when first needed, then hourly or for an unknown key."""

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock: anyio.Lock | None = None
        self._keyring: Keyring | None = None
        self._problem = _NO_KEYS
        self._tried_at = -_FRESH_S
        self._fetched_at = -_FRESH_S

    async def get_keyring(self) -> Keyring | Problem:
        """Return the keys, fetched if they are not there or old; old ones where newer cannot be had."""
        if self._keyring is None or self._clock() - self._fetched_at >= _FRESH_S:
            await self._refresh()
        return self._problem if self._keyring is None else self._keyring

    async def get_newer_keyring(self) -> Keyring | Problem:
        """Return the keys fetched anew, or as they are where that was done a moment ago."""
        await self._refresh()
        return self._problem if self._keyring is None else self._keyring

    async def _refresh(self) -> None:
        if self._lock is None:
            self._lock = anyio.Lock()
        async with self._lock:
            now = self._clock()
            if now - self._tried_at < _BETWEEN_S:
                return
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
    """The signed tokens of a server: those that its secret or the keys of an issuer signed.

    At most ``max_cached`` verified tokens are kept; beyond that, the oldest are verified again.
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
        self._keys = keys
        self._expected = expected
        self._max_cached = max_cached
        self._clock = clock
        self._cached: OrderedDict[bytes, _CachedCaller] = OrderedDict()

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return whose token it is if it was seen before, None if it must be verified; else why it cannot be one."""
        given = read_credential(fields)
        if not given:
            return _NO_TOKEN
        found = self._cached.get(sha256(given).digest())
        # After the clock was set back the token is verified again: else it would stay in the cache for too long.
        if found is not None and found.since <= self._clock() < found.until:
            return found.caller
        return None if is_token(given) else _NOT_A_TOKEN

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return whose token it is, or why it is not taken. [OTC-035, OXP-012]"""
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
        caller = Caller(token.name, token.scopes)
        self._remember(sha256(given).digest(), _CachedCaller(caller, now, min(token.expires, now + CACHED_S)))
        return caller

    def challenge(self, problem: Problem, path: str) -> Headers:  # noqa: ARG002 - the same everywhere
        """Return what RFC 6750 has a server say: nothing more than Bearer to who sent no token."""
        if problem.kind is Kind.UNAUTHORIZED and problem is not _NO_TOKEN:
            return ((b"www-authenticate", b'Bearer error="invalid_token"'),)
        return build_scope_challenge(problem)

    def _remember(self, digest: bytes, known: _CachedCaller) -> None:
        if len(self._cached) >= self._max_cached:
            self._cached.popitem(last=False)
        self._cached[digest] = known


_NO_TOKEN = Problem(kind=Kind.UNAUTHORIZED, message="Send a token: Authorization: Bearer TOKEN.")
_NOT_A_TOKEN = Problem(kind=Kind.UNAUTHORIZED, message="This is no token that is valid here.")
_NO_KEYS = Problem(
    kind=Kind.OVERLOADED,
    message="Tokens cannot be checked now: the keys of their issuer cannot be had.",
    can_retry=True,
    retry_after_ms=30_000,
)
