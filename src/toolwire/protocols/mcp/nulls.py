"""Remove null members from schemas: servers in Java write null for what is not set."""

from __future__ import annotations

from typing import Final

from toolwire.core.model import Json
from toolwire.core.subschemas import change_subschemas

_MEANT: Final = frozenset({"const", "default", "example"})
"""The keywords whose null is a value."""
_MAX_DEPTH: Final = 60


def remove_nulls(entry: dict[str, Json]) -> dict[str, Json]:
    """Return ``entry`` of a list of tools with no null in its schemas that says nothing; itself if there is none."""
    schemas = {name: entry[name] for name in ("inputSchema", "outputSchema") if isinstance(entry.get(name), dict)}
    mended = {name: _mend(schema) for name, schema in schemas.items()}
    if all(mended[name] is schema for name, schema in schemas.items()):
        return entry
    return {**entry, **mended}


def _mend(schema: Json, depth: int = 0) -> Json:
    """Return ``schema`` without such nulls; what is nested very deep stays as it is."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return schema
    changed = change_subschemas(schema, lambda inner, *_: _mend(inner, depth + 1))
    members = {name: value for name, value in changed.items() if value is not None or name in _MEANT}
    return schema if members == schema else members
