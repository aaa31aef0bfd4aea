"""A grant: a person's "always" for exactly one definition of one tool of one connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from toolwire.core.model import Json, Tool

from .tool_definition import definition, definition_hash

SET_BACK_S = 300.0
"""How far a clock may go back, in seconds, before every grant is void: a clock set back would lengthen them."""
GRANTED_S = 30 * 86_400.0
"""How long a grant holds unless somebody says otherwise, in seconds. [XL-047]"""


class GrantKey(NamedTuple):
    """Who allowed what where: a change of any part asks again. ``definition`` is a digest. [XL-047]"""

    principal: str
    connection: str
    origin: str
    tool: str
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A grant as it is kept. ``id`` names it to a person; times are in seconds since 1970."""

    id: str
    key: GrantKey
    given_at: float
    expires_at: float


class Grants(Protocol):
    """Remembers what was allowed "always", and the definition that was last approved of each tool."""

    def holds(self, key: GrantKey) -> bool:
        """Return whether this was allowed, and neither revoked nor expired."""
        ...

    def add(self, key: GrantKey) -> None:
        """Remember that this was allowed."""
        ...

    def revoke(self, id_: str) -> bool:
        """Forget the grant of this id; return whether there was one."""
        ...

    def listed(self) -> Sequence[Grant]:
        """Return the grants that hold, oldest first."""
        ...

    def renewed(self, key: GrantKey) -> None:
        """Forget every grant of the same tool and connection with another definition. [XL-048]"""
        ...

    def pin(self, key: GrantKey, approved: Mapping[str, Json]) -> None:
        """Remember the definition that was approved."""
        ...

    def pinned(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of this tool that was approved last, whatever ``key`` says of it."""
        ...


def grant_key(site: str, tool: Tool, *, principal: str = "", connection: str = "") -> GrantKey:
    """Return the key of a grant: it changes with the site, and with every part of the tool's definition. [XL-047]"""
    return GrantKey(principal, connection, site, tool.id, definition_hash(definition(tool)))
