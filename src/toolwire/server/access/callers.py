"""Identify the callers of a server: the interface that API keys, signed tokens and stored tokens share.

Rules:
- ``find_caller`` never waits. For a caller that was seen before, it is one table lookup.
- ``verify`` can use the network or a store. It is called only if ``find_caller`` returned None.
- Credentials are looked up by digest and never stored as text. They never appear in a Problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeAlias

from toolwire.core.http import Headers
from toolwire.core.model import ANONYMOUS, Context, Json, Kind, Problem

Fields: TypeAlias = Mapping[bytes, bytes]
"""A request's header fields by lower-case name. For a repeated field, the last value."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    - ``scopes``: the scopes of the credentials, or None if the credentials carry none.
    - ``client_id``: the caller's OAuth client, or empty.
    - ``group``: the group whose rules apply because of ``claims``.
    - ``claims``: what the issuer says about the caller.
    - ``until``: when the credentials expire, in seconds since 1970. Refused earlier, they were revoked.
    - ``context``: the context of calls that bring none of their own.
    """

    name: str
    scopes: frozenset[str] | None = None
    client_id: str = ""
    group: str = ""
    claims: Mapping[str, Json] = field(default_factory=dict, repr=False, compare=False)
    until: float = field(default=inf, repr=False, compare=False)
    context: Context = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        context = Context(principal=self.name, scopes=self.scopes, client_id=self.client_id, group=self.group)
        object.__setattr__(self, "context", context)


ANONYMOUS_CALLER = Caller(ANONYMOUS.principal)
"""The caller of a request that needs no credentials."""


class Callers(Protocol):
    """A way to identify callers, such as API keys, signed tokens or stored tokens."""

    # D-26, D-27, S-7

    @property
    def needs_credentials(self) -> bool:
        """Whether requests need credentials. This does not change while the server runs."""
        ...

    def find_caller(self, fields: Fields, /) -> Caller | Problem | None:
        """Return the caller, a Problem that refuses the request, or None if ``verify`` must decide. Never blocks."""
        ...

    async def verify(self, fields: Fields, /) -> Caller | Problem:
        """Return the caller, or a Problem that refuses the request. It can wait for the network. It never raises."""
        ...

    def challenge(self, problem: Problem, path: str, /) -> Headers:
        """Return the header fields of a refusal (unauthorized or forbidden) at ``path``, with lower-case names.

        They replace the ``www-authenticate`` field of the protocol's own refusal. If scopes are missing,
        ``problem.details["scopes"]`` lists all scopes that the tool needs.
        """
        ...


class AnonymousCallers:
    """Callers of a server without credentials. All are anonymous, and credentials are ignored."""

    # OXP-012

    needs_credentials = False

    def find_caller(self, _fields: Fields, /) -> Caller | Problem | None:
        """Return the anonymous caller."""
        return ANONYMOUS_CALLER

    async def verify(self, _fields: Fields, /) -> Caller | Problem:
        """Return the anonymous caller."""
        return ANONYMOUS_CALLER

    def challenge(self, _problem: Problem, _path: str, /) -> Headers:
        """Return no fields, because the server asks for no credentials."""
        return ()


class CombinedCallers:
    """Combines several sources of callers. A request is admitted if one source identifies its caller."""

    def __init__(self, *sources: Callers) -> None:
        """Ask ``sources`` in order, from the plainest challenge to the richest."""
        self._sources = sources

    @property
    def sources(self) -> tuple[Callers, ...]:
        """The sources, in order."""
        return self._sources

    @property
    def needs_credentials(self) -> bool:
        """Whether any source needs credentials."""
        return any(source.needs_credentials for source in self._sources)

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return the first caller that a source finds, None if a source must verify, or else the last refusal."""
        result: Caller | Problem | None = _NO_SOURCE
        must_verify = False
        for source in self._sources:
            result = source.find_caller(fields)
            if isinstance(result, Caller):
                return result
            # Go on after a source that must wait: a later source might know the caller at once.
            must_verify = must_verify or result is None
        return None if must_verify else result

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return the first caller that a source finds or verifies, or else the last refusal."""
        result: Caller | Problem = _NO_SOURCE
        for source in self._sources:
            known = source.find_caller(fields)
            result = await source.verify(fields) if known is None else known
            if isinstance(result, Caller):
                return result
        return result

    def challenge(self, problem: Problem, path: str) -> Headers:
        """Return the challenge of the last source, which has the most details."""
        return self._sources[-1].challenge(problem, path) if self._sources else ()


def read_credential(fields: Fields) -> bytes:
    """Return the credential of a request, or empty bytes.

    It is read from ``Authorization: Bearer TEXT`` (in any case), ``Authorization: TEXT``, ``X-API-Key`` or
    ``OXP-API-Key``.
    """
    # S-7
    authorization = fields.get(b"authorization")
    if authorization is None:
        return fields.get(b"x-api-key") or fields.get(b"oxp-api-key") or b""
    if authorization.startswith(b"Bearer "):  # the usual spelling, without a split
        return authorization[7:].strip() or authorization.strip()
    scheme, _, rest = authorization.partition(b" ")
    return rest.strip() if rest and scheme.lower() == b"bearer" else authorization.strip()


def build_scope_challenge(problem: Problem, more: str = "") -> Headers:
    """Return the RFC 6750 challenge for missing scopes, or no fields for other problems. ``more`` is appended."""
    scopes = problem.details.get("scopes")
    if problem.kind is not Kind.FORBIDDEN or not isinstance(scopes, list):
        return ()
    text = f'Bearer error="insufficient_scope", scope="{" ".join(map(str, scopes))}"{more}'
    return ((b"www-authenticate", text.encode("latin-1", "replace")),)


_NO_SOURCE = Problem(kind=Kind.UNAUTHORIZED, message="This server accepts no credentials.")
