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


def list_exits(tool: Tool) -> tuple[str, ...]:
    """Return how a call of ``tool`` can carry data out, in words.

    As ``list_ways_out``, without the path of a file that the tool reads in a closed set of its server.
    """
    is_local = (tool.safe or tool.claimed_safe) and find_world(tool) is False
    if is_local and all(_split(name) & _DESTINATIONS <= _PLACES for name in find_destinations(tool)):
        formats = (schema.get("format") for schema in tool.parameters.values())
        return () if _DESTINATION_FORMATS.isdisjoint(map(str, formats)) else list_ways_out(tool)
    return list_ways_out(tool)


def find_world(tool: Tool) -> bool | None:
    """Return whether the server of ``tool`` says that it reaches other systems, or None if it does not say."""
    mcp = tool.hints.get("mcp")
    annotations = mcp.get("annotations") if isinstance(mcp, Mapping) else None
    declared = annotations.get("openWorldHint") if isinstance(annotations, Mapping) else None
    return declared if isinstance(declared, bool) else None


def is_open_world(tool: Tool) -> bool:
    """Return whether the server of ``tool`` says that it reaches other systems."""
    return find_world(tool) is True


def find_destinations(tool: Tool) -> tuple[str, ...]:
    """Return the arguments of ``tool`` that name where data goes or comes from."""
    return tuple(name for name, schema in tool.parameters.items() if _is_destination(name, schema))


def _is_destination(name: str, schema: Mapping[str, Json]) -> bool:
    return schema.get("format") in _DESTINATION_FORMATS or not _split(name).isdisjoint(_DESTINATIONS)


def _split(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name))


_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# fmt: off
_DESTINATIONS: Final = frozenset({
    "url", "urls", "uri", "uris", "link", "links", "webhook", "host", "domain",
    "endpoint", "address", "to", "cc", "bcc", "recipient", "recipients", "receiver", "payee",
    "email", "emails", "path", "paths", "file", "files", "filename", "folder", "dir",
    "directory", "source", "src", "destination", "dest", "target",
})
_PLACES: Final = frozenset({"path", "paths", "file", "files", "filename", "folder", "dir", "directory"})
# fmt: on
_DESTINATION_FORMATS: Final = frozenset({"uri", "uri-reference", "iri", "email", "idn-email", "hostname"})


def _describe_rate_limit(limit: RateLimit | None) -> Json:
    return None if limit is None else {"max": limit.max, "window": limit.window}
