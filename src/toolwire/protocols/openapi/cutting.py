"""Schemas cut to a size: what is told at length goes first, then what is deep, never an argument itself."""

from __future__ import annotations

from collections.abc import Collection

from toolwire.core.model import Json
from toolwire.framing import cleaning, jsontext

from .keywords import rebuild

LARGEST = 32_000
MOST_BYTES = 28_000
TELLING_BYTES = 2_000
"""How large a schema may be that says everything at length."""

DEFINED = "#/$defs/"
CUT: dict[str, Json] = {"description": "Cut short."}

_BRIEF_CHARACTERS = 200
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


def brief(schema: dict[str, Json]) -> dict[str, Json]:
    """Return ``schema`` with the first sentence of each description; a property that must be given is told whole."""
    built = rebuild(schema, lambda inner: brief(inner) if isinstance(inner, dict) else inner)
    if isinstance(schema.get("description"), str):
        built["description"] = cleaning.point(schema["description"], _BRIEF_CHARACTERS)
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(properties, dict):
        for name in required:
            one = properties.get(name)
            if isinstance(one, dict) and "description" in one:
                built["properties"][name]["description"] = one["description"]
    return built


def referred(schema: dict[str, Json]) -> set[str]:
    """Return the names of the definitions that ``schema`` itself refers to."""
    names: set[str] = set()

    def look(inner: Json) -> Json:
        if isinstance(inner, dict):
            if "$ref" in inner:
                names.add(inner["$ref"].removeprefix(DEFINED))
            rebuild(inner, look)
        return inner

    look(schema)
    return names


def opened(schema: dict[str, Json], names: Collection[str]) -> dict[str, Json]:
    """Return ``schema`` with anything in place of its references to the definitions ``names``."""
    kept = {key: one for key, one in schema.items() if key != "$ref" or one.removeprefix(DEFINED) not in names}
    return rebuild(kept, lambda inner: opened(inner, names) if isinstance(inner, dict) else inner)


def _cut(schema: dict[str, Json], depth: int) -> dict[str, Json]:
    if depth == 0:
        return {key: value for key, value in schema.items() if key in _KEPT}
    return rebuild(schema, lambda inner: _cut(inner, depth - 1) if isinstance(inner, dict) else inner)


def _without_words(schema: dict[str, Json]) -> dict[str, Json]:
    built = rebuild(schema, lambda inner: _without_words(inner) if isinstance(inner, dict) else inner)
    long = isinstance(built.get("enum"), list) and len(built["enum"]) > _LONG_ENUM
    return {key: value for key, value in built.items() if key not in _TOLD and not (long and key == "enum")}
