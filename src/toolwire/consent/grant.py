"""Describe a grant: the user's "always" for exactly one definition of one tool of one connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from toolwire.core.model import Json, Tool

from .tool_definition import build_definition, definition_hash

MAX_CLOCK_STEP_BACK_S = 300.0
"""How many seconds a clock may go back before all grants are void: a clock set back would lengthen them."""
GRANT_LIFETIME_S = 30 * 86_400.0
"""How many seconds a grant is valid by default."""
# XL-047


class GrantKey(NamedTuple):
    """Who allowed which tool of which connection. If any part changes, the user is asked again.

    ``definition`` is the digest of the tool's definition.
    """

    # XL-047

    principal: str
    connection: str
    origin: str
    tool: str
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A stored grant. Users name it by ``id``. Times are in seconds since 1970."""

    id: str
    key: GrantKey
    given_at: float
    expires_at: float


class Grants(Protocol):
    """Stores what was allowed "always", and the definition of each tool that was approved last."""

    def has_grant(self, key: GrantKey) -> bool:
        """Return whether there is a grant for ``key`` that is neither revoked nor expired."""
        ...

    def add(self, key: GrantKey) -> None:
        """Store a grant for ``key``."""
        ...

    def revoke(self, id_: str) -> bool:
        """Remove the grant with this id. Return whether there was one."""
        ...

    def list_grants(self) -> Sequence[Grant]:
        """Return the valid grants, oldest first."""
        ...

    def revoke_outdated(self, key: GrantKey) -> None:
        """Remove the grants of the same tool and connection for any other definition."""
        # XL-048
        ...

    def pin_definition(self, key: GrantKey, approved: Mapping[str, Json]) -> None:
        """Store the definition that was approved."""
        ...

    def find_pinned(self, key: GrantKey) -> Mapping[str, Json] | None:
        """Return the definition of this tool that was approved last, whatever definition ``key`` names."""
        ...


def grant_key(site: str, tool: Tool, *, principal: str = "", connection: str = "") -> GrantKey:
    """Return the key of a grant. It changes with the site and with each part of the tool's definition."""
    # XL-047
    return GrantKey(principal, connection, site, tool.id, definition_hash(build_definition(tool)))
