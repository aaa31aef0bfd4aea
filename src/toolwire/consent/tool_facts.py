"""What a host wants to know of a tool besides its schema, as plain data. [XL-085]"""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.model import Approval, Json, RateLimit, Tool

from .policy import NO_PREFERENCES, Preferences, effective
from .tool_definition import definition, definition_hash


def facts(tool: Tool, preferences: Preferences = NO_PREFERENCES, *, origin: str = "") -> dict[str, Json]:
    """Return whether ``tool`` needs approval, what it may cost and change, and which definition of it this is.

    ``scopes`` is what its site asks for, and ``origin`` where its calls go: as the tool's document says, else as given.
    ``hash`` changes with any part of the definition; it is that of the definition by itself, without a connection.
    """
    said = tool.hints.get("openapi")
    where = said if isinstance(said, Mapping) else {}
    return {
        "needsApproval": effective(tool, preferences) is not Approval.AUTO,
        "approval": effective(tool, preferences).value,
        "destructive": tool.destructive,
        "cost": None if tool.cost is None else tool.cost.value,
        "rate": _limit(tool.rate_limit),
        "scopes": list(scopes_of(tool)),
        "origin": where.get("origin") or origin,
        "hash": definition_hash(definition(tool)),
    }


def scopes_of(tool: Tool) -> tuple[str, ...]:
    """Return the scopes that the site asks for ``tool``, and that its own requirements name."""
    said = tool.hints.get("openapi")
    declared = said.get("scopes", ()) if isinstance(said, Mapping) else ()
    needed = [scope for one in tool.requirements.authorization for scope in one.scopes]
    return tuple(dict.fromkeys([*(tool.scopes or declared), *needed]))


def _limit(limit: RateLimit | None) -> Json:
    return None if limit is None else {"max": limit.max, "window": limit.window}
