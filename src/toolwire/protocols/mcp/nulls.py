"""Remove null members from schemas: servers in Java write null for what is not set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolwire.core.model import Json

from .header_arguments import LISTED, NAMED, SINGLE

_MEANT: Final = frozenset({"const", "default", "example"})
"""The keywords whose null is a value."""
_MOST_DEPTH: Final = 60


def remove_nulls(entry: dict[str, Json]) -> dict[str, Json]:
    """Return ``entry`` of a list of tools with no null in its schemas that says nothing; itself if there is none."""
    schemas = {name: entry[name] for name in ("inputSchema", "outputSchema") if isinstance(entry.get(name), dict)}
    mended = {name: _mend(schema) for name, schema in schemas.items()}
    if all(mended[name] is schema for name, schema in schemas.items()):
        return entry
    return {**entry, **mended}


def _mend(schema: Json, depth: int = 0) -> Json:
    """Return ``schema`` without such nulls; what is nested very deep stays as it is."""
    if not isinstance(schema, dict) or depth > _MOST_DEPTH:
        return schema
    changed = {name: new for name, new in _iterate_mended(schema, depth + 1) if new is not schema[name]}
    dropped = {name for name, value in schema.items() if value is None and name not in _MEANT}
    if not changed and not dropped:
        return schema
    return {name: changed.get(name, value) for name, value in schema.items() if name not in dropped}


def _iterate_mended(schema: dict[str, Json], depth: int) -> Iterator[tuple[str, Json]]:
    """Yield the keywords of ``schema`` that hold schemas, with these mended."""
    for name, value in schema.items():
        if name in NAMED and isinstance(value, dict):
            inner = {key: _mend(one, depth) for key, one in value.items()}
            yield name, inner if any(inner[key] is not one for key, one in value.items()) else value
        elif name in LISTED and isinstance(value, list):
            listed = [_mend(one, depth) for one in value]
            yield name, listed if any(new is not one for new, one in zip(listed, value, strict=True)) else value
        elif name in SINGLE:
            yield name, _mend(value, depth)
