"""Describe what a host program needs to know about a tool besides its schema, as plain data."""
# XL-085

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from toolwire.core.condition import write_conditions
from toolwire.core.model import Approval, Json, RateLimit, Tool
from toolwire.framing.visible_text import make_visible

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


def list_ways_out(tool: Tool) -> tuple[str, ...]:
    """Return how a call of ``tool`` may carry data out, in words: by its server's own word, and by its arguments."""
    named = find_destinations(tool)
    reach = ("the site says that it reaches other systems",) if is_open_world(tool) else ()
    return (*reach, f"takes a destination: {', '.join(make_visible(name) for name in named)}") if named else reach


def is_open_world(tool: Tool) -> bool:
    """Return whether the server of ``tool`` says that it reaches other systems."""
    mcp = tool.hints.get("mcp")
    annotations = mcp.get("annotations") if isinstance(mcp, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get("openWorldHint") is True


def find_destinations(tool: Tool) -> tuple[str, ...]:
    """Return the arguments of ``tool`` that name where data goes or comes from."""
    return tuple(name for name, schema in tool.parameters.items() if _is_destination(name, schema))


def _is_destination(name: str, schema: Mapping[str, Json]) -> bool:
    words = frozenset(word.lower() for word in _WORD.findall(name))
    return schema.get("format") in _DESTINATION_FORMATS or not words.isdisjoint(_DESTINATIONS)


_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# fmt: off
_DESTINATIONS: Final = frozenset({
    "url", "urls", "uri", "uris", "link", "links", "webhook", "host", "domain",
    "endpoint", "address", "to", "cc", "bcc", "recipient", "recipients", "receiver", "payee",
    "email", "emails", "path", "paths", "file", "files", "filename", "folder", "dir",
    "directory", "source", "src", "destination", "dest", "target",
})
# fmt: on
_DESTINATION_FORMATS: Final = frozenset({"uri", "uri-reference", "iri", "email", "idn-email", "hostname"})


def _describe_rate_limit(limit: RateLimit | None) -> Json:
    return None if limit is None else {"max": limit.max, "window": limit.window}
