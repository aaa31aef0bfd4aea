"""Identify callers by API keys.

Rules:
- Keys are never stored as text. They are looked up by digest, at the same cost for any number of keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from toolwire.core.errors import DefinitionError
from toolwire.core.http import Headers
from toolwire.core.model import Kind, Problem, Secret

from .callers import ANONYMOUS_CALLER, Caller, Fields, build_scope_challenge, read_credential


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key, its owner's name and scopes. With ``scopes=None``, the owner can call all tools."""

    key: Secret
    name: str = ""
    scopes: frozenset[str] | None = None


class ApiKeyCallers:
    """The callers of a server with API keys. The owner of an unnamed key is named after a part of its digest.

    Without keys, all callers are anonymous and credentials are not read.
    """

    # OXP-012

    def __init__(self, keys: Iterable[str | ApiKey]) -> None:
        """Take keys as text or as ``ApiKey``.

        Raises:
            DefinitionError: ``keys`` is a single key instead of a list, or a key is empty or has another type.
        """
        # A string is a sequence of characters, and each character would open the server.
        if isinstance(keys, str | bytes | Secret | ApiKey):
            raise DefinitionError("Server keys must be a list: write api_keys=[KEY].")
        given: tuple[Any, ...] = tuple(keys)
        if not all(isinstance(key, ApiKey) or (isinstance(key, str) and key.strip()) for key in given):
            raise DefinitionError("A server key must be a non-empty string or an ApiKey.")
        self._callers = dict(_build_entry(ApiKey(key=Secret(key)) if isinstance(key, str) else key) for key in given)

    @property
    def needs_credentials(self) -> bool:
        """Whether there are keys."""
        return bool(self._callers)

    def is_removed(self, name: str) -> bool:
        """Return whether ``name`` was the name of a key's owner, and none of the current keys has this owner."""
        # No other source names its callers like this. If a new key has the same name as an old one, it has the same
        # caller.
        return _KEY_NAME.match(name) is not None and all(caller.name != name for caller in self._callers.values())

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return the owner of a request's key, or a Problem if the key is missing or wrong."""
        if not self._callers:
            return ANONYMOUS_CALLER
        given = read_credential(fields)
        if not given:
            return _NO_KEY
        # D-27, S-7: the time of a lookup by digest reveals nothing about a key, because a guess does not choose its
        # digest.
        return self._callers.get(sha256(given).digest(), _WRONG_KEY)

    def find_by_digest(self, digest: bytes) -> Caller | None:
        """Return the owner of the key with this SHA-256 digest, or None."""
        return self._callers.get(digest)

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return what ``find_caller`` returns, because a key needs no further check."""
        return self.find_caller(fields) or _WRONG_KEY

    def challenge(self, problem: Problem, _path: str, /) -> Headers:
        """Return a challenge that names missing scopes. Each protocol asks for a missing key in its own format."""
        return build_scope_challenge(problem)


def parse_api_key(text: str) -> ApiKey:
    """Parse ``KEY``, ``KEY NAME`` or ``KEY NAME SCOPE SCOPE...``."""
    key, *more = text.split()
    return ApiKey(key=Secret(key), name=more[0] if more else "", scopes=frozenset(more[1:]) if more[1:] else None)


def _build_entry(key: ApiKey) -> tuple[bytes, Caller]:
    digest = sha256(key.key.reveal().encode()).digest()
    name = f"key:{key.name}" if key.name else f"key-{digest.hex()[:12]}"
    return digest, Caller(name, key.scopes)


_KEY_NAME: Final = re.compile(r"key:|key-[0-9a-f]{12}\Z")
_NO_KEY = Problem(kind=Kind.UNAUTHORIZED, message="Send an API key: Authorization: Bearer KEY, or X-API-Key.")
_WRONG_KEY = Problem(kind=Kind.UNAUTHORIZED, message="This server does not accept this API key.")
