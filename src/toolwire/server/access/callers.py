"""Who calls: the shape that every way of telling callers apart has, and what is the same in all of them.

Rules:
- ``known`` never waits: for a caller seen before it is one look in a table, and that is the whole cost of a request.
- What needs the network or a store happens in ``verify``, which is asked only where ``known`` said None.
- Credentials are looked up by digest, never kept as text, and appear in no Problem. [D-26, D-27, S-7]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from toolwire.core.http import Headers
from toolwire.core.model import ANONYMOUS, Context, Kind, Problem

Fields: TypeAlias = Mapping[bytes, bytes]
"""The header fields of one request by name, lower case; of a name that came twice, the last."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is. ``scopes`` is what their credentials carry, None where callers have no scopes.

    ``context`` is that of a call of theirs which brings none of its own: made once, for all of them.
    """

    name: str
    scopes: frozenset[str] | None = None
    context: Context = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "context", Context(principal=self.name, scopes=self.scopes))


ANONYMOUS_CALLER = Caller(ANONYMOUS.principal)
"""The caller where no credentials are asked for."""


class Callers(Protocol):
    """One way of telling callers apart, such as API keys, signed tokens, or tokens that a store knows."""

    @property
    def needs_credentials(self) -> bool:
        """Whether a request needs credentials at all; it does not change while the server runs."""
        ...

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return whose request this is, why it is refused, or None where ``verify`` must be asked. Never waits."""
        ...

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return whose request this is, or why it is refused; may wait for the network or a store. Never raises."""
        ...

    def challenge(self, problem: Problem, path: str) -> Headers:
        """Return the fields that a refusal (unauthorized, forbidden) at ``path`` carries; names in lower case.

        They take the place of any ``www-authenticate`` that the protocol's own refusal has. Where scopes are missing,
        all that the tool needs are the list ``details["scopes"]`` of the problem.
        """
        ...


class AnonymousCallers:
    """No credentials asked for: every caller is anonymous, and what they send is not looked at. [OXP-012]"""

    needs_credentials = False

    def find_caller(self, fields: Fields) -> Caller | Problem | None:  # noqa: ARG002 - nothing of it is looked at
        """Return nobody in particular."""
        return ANONYMOUS_CALLER

    async def verify(self, fields: Fields) -> Caller | Problem:  # noqa: ARG002 - nothing of it is looked at
        """Return nobody in particular."""
        return ANONYMOUS_CALLER

    def challenge(self, problem: Problem, path: str) -> Headers:  # noqa: ARG002 - there is nothing to ask for
        """Return nothing."""
        return ()


class CombinedCallers:
    """Callers of more than one sort on one server: whoever any of them knows may come in."""

    def __init__(self, *sorts: Callers) -> None:
        self._sources = sorts

    @property
    def needs_credentials(self) -> bool:
        """Whether any of them needs credentials."""
        return any(sort.needs_credentials for sort in self._sources)

    def find_caller(self, fields: Fields) -> Caller | Problem | None:
        """Return the first caller that is known; None while one of them is not sure; else the last refusal."""
        said: Caller | Problem | None = _NO_SOURCE
        unsure = False
        for sort in self._sources:
            said = sort.find_caller(fields)
            if isinstance(said, Caller):
                return said
            unsure = unsure or said is None
        return None if unsure else said

    async def verify(self, fields: Fields) -> Caller | Problem:
        """Return the first caller that one of them, in order, finds; else the last refusal."""
        said: Caller | Problem = _NO_SOURCE
        for sort in self._sources:
            known = sort.find_caller(fields)
            said = await sort.verify(fields) if known is None else known
            if isinstance(said, Caller):
                return said
        return said

    def challenge(self, problem: Problem, path: str) -> Headers:
        """Return the challenge of the last of them: the richest, as they are given from plain to rich."""
        return self._sources[-1].challenge(problem, path) if self._sources else ()


def read_credential(fields: Fields) -> bytes:
    """Return the credential of a request, empty where there is none. [S-7]

    Taken: ``Authorization: Bearer TEXT`` in any case, ``Authorization: TEXT``, ``X-API-Key``, ``OXP-API-Key``.
    """
    authorization = fields.get(b"authorization")
    if authorization is None:
        return fields.get(b"x-api-key") or fields.get(b"oxp-api-key") or b""
    if authorization.startswith(b"Bearer "):  # as nearly everybody writes it
        return authorization[7:].strip() or authorization.strip()
    scheme, _, rest = authorization.partition(b" ")
    return rest.strip() if rest and scheme.lower() == b"bearer" else authorization.strip()


def build_scope_challenge(problem: Problem, more: str = "") -> Headers:
    """Return the challenge of RFC 6750 for a problem of scopes, with ``more`` at its end; nothing for any other."""
    scopes = problem.details.get("scopes")
    if problem.kind is not Kind.FORBIDDEN or not isinstance(scopes, list):
        return ()
    text = f'Bearer error="insufficient_scope", scope="{" ".join(map(str, scopes))}"{more}'
    return ((b"www-authenticate", text.encode("latin-1", "replace")),)


_NO_SOURCE = Problem(kind=Kind.UNAUTHORIZED, message="This server knows no callers.")
