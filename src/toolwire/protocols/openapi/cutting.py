"""Schemas cut to a size: what is deep goes first, then what is only told, never an argument itself."""

from __future__ import annotations

from toolwire.core.model import Json
from toolwire.framing import jsontext

from .keywords import rebuild

MOST_BYTES = 28_000
CUT: dict[str, Json] = {"description": "Cut short."}

_DEPTHS = (8, 6, 5, 4, 3, 2, 1)
_TOLD = frozenset(("description", "examples", "title"))
_KEPT = frozenset(("description", "title", "type"))
_LONG_ENUM = 50


def cut(schema: dict[str, Json], limit: int) -> dict[str, Json]:
    """Return ``schema`` in at most ``limit`` bytes if cutting can do that; what is cut fits more than it did."""
    for depth in _DEPTHS:
        schema = _cut(schema, depth)
        if len(jsontext.write(schema)) <= limit:
            return schema
    return _without_words(schema)


def _cut(schema: Json, depth: int) -> dict[str, Json]:
    if not isinstance(schema, dict):
        return {}
    if depth == 0:
        return {key: value for key, value in schema.items() if key in _KEPT}
    return rebuild(schema, lambda inner: _cut(inner, depth - 1))


def _without_words(schema: Json) -> dict[str, Json]:
    if not isinstance(schema, dict):
        return {}
    built = rebuild(schema, _without_words)
    long = isinstance(built.get("enum"), list) and len(built["enum"]) > _LONG_ENUM
    return {key: value for key, value in built.items() if key not in _TOLD and not (long and key == "enum")}
