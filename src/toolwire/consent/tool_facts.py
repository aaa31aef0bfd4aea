"""Describe what a host program needs to know about a tool besides its schema, as plain data."""
# XL-085

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.condition import write_conditions
from toolwire.core.model import Approval, Json, RateLimit, Tool

from .policy import NO_PREFERENCES, Preferences, effective_level
from .tool_definition import build_definition, definition_hash


def build_facts(tool: Tool, preferences: Preferences = NO_PREFERENCES, *, origin: str = "") -> dict[str, Json]:
    """Return whether ``tool`` needs approval, what it costs and destroys, and the digest of its definition.

    ``scopes`` are those that its site requires. ``origin`` is where its calls go: as its document declares, else as
    given. ``hash`` changes with any part of the definition; it does not depend on the connection.
    """
    hints = tool.hints.get("openapi")
    openapi = hints if isinstance(hints, Mapping) else {}
    return {
        "needsApproval": effective_level(tool, preferences) is not Approval.AUTO or bool(tool.ask_when),
        "approval": effective_level(tool, preferences).value,
        "approvalWhen": write_conditions(tool.ask_when),
        "destructive": tool.destructive,
        "cost": None if tool.cost is None else tool.cost.value,
        "rate": _describe_rate_limit(tool.rate_limit),
        "scopes": list(find_scopes(tool)),
        "origin": openapi.get("origin") or origin,
        "hash": definition_hash(build_definition(tool)),
    }


def find_scopes(tool: Tool) -> tuple[str, ...]:
    """Return the scopes that the site requires for ``tool``, and those that its own requirements name."""
    hints = tool.hints.get("openapi")
    declared = hints.get("scopes", ()) if isinstance(hints, Mapping) else ()
    required = [scope for one in tool.requirements.authorization for scope in one.scopes]
    return tuple(dict.fromkeys([*(tool.scopes or declared), *required]))


def _describe_rate_limit(limit: RateLimit | None) -> Json:
    return None if limit is None else {"max": limit.max, "window": limit.window}
