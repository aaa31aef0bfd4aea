"""Callers told apart by API keys.

Rules:
- Keys are never kept as text. They are found by their digest, at the same cost for any number of keys: how long that
  takes says nothing of a key, since nobody can choose the digest of a guess. [D-27, S-7]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from toolwire.core.http import Headers
from toolwire.core.model import Kind, Problem, Secret

from .callers import ANONYMOUS_CALLER, Caller, Fields, build_scope_challenge, read_credential


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key, whose it is, and what they may do; ``scopes`` None lets them call everything."""

    key: Secret
    name: str = ""
    scopes: frozenset[str] | None = None


class ApiKeyCallers:
    """The API keys of a server. A key without a name of its own is called by a few of its digest.

    Without any key everybody is anonymous, and no credentials are looked at. [OXP-012]
    """

    def __init__(self, keys: Iterable[str | ApiKey]) -> None:
        self._callers = dict(_build_entry(ApiKey(key=Secret(key)) if isinstance(key, str) else key) for key in keys)

    @property
    def needs_credentials(self) -> bool:
        """Whether there is any key."""
        return bool(self._callers)

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return whose key came with the request, or the Problem of no key or a wrong one. See ``credential``."""
        if not self._callers:
            return ANONYMOUS_CALLER
        given = read_credential(fields)
        if not given:
            return _NO_KEY
        return self._callers.get(sha256(given).digest(), _WRONG_KEY)

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return what ``known`` does, which is always sure."""
        return self.find_caller(fields) or _WRONG_KEY

    def challenge(self, problem: Problem, path: str) -> Headers:  # noqa: ARG002 - the same everywhere
        """Return the scopes that are missing, where it is that; the protocols ask for a key themselves."""
        return build_scope_challenge(problem)


def parse_api_key(text: str) -> ApiKey:
    """Return the key that ``text`` says: the key alone, or ``KEY NAME``, or ``KEY NAME SCOPE SCOPE...``."""
    key, *more = text.split()
    return ApiKey(key=Secret(key), name=more[0] if more else "", scopes=frozenset(more[1:]) if more[1:] else None)


def _build_entry(key: ApiKey) -> tuple[bytes, Caller]:
    digest = sha256(key.key.reveal().encode()).digest()
    name = f"key:{key.name}" if key.name else f"key-{digest.hex()[:12]}"
    return digest, Caller(name, key.scopes)


_NO_KEY = Problem(kind=Kind.UNAUTHORIZED, message="Send an API key: Authorization: Bearer KEY, or X-API-Key.")
_WRONG_KEY = Problem(kind=Kind.UNAUTHORIZED, message="This API key is not valid here.")
