"""A schema for a dialect that takes every keyword: only keys and references are written anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.framing.subschemas import LISTED, NAMED, SINGLE

from .conversion_context import ConversionContext, WriterPosition
from .schema_texts import DATA, SILENT, noted, renamed

_SAID_ANYWAY: Final = frozenset(("title", "deprecated", "readOnly", "writeOnly", "$comment"))
_BY_KEY: Final = frozenset(("propertyNames", "patternProperties", "dependentSchemas"))


def whole(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    """Return ``node`` with every keyword of 2020-12, its keys renamed and its references kept inside."""
    built: dict[str, Json] = {}
    notes: list[str] = []
    for key, value in node.items():
        if key in SILENT - _SAID_ANYWAY:
            continue
        if key in _BY_KEY and work.names:
            notes.append(work.lost(place, key, value))
        else:
            built[key] = _written(work, key, value, place)
    return noted(built, notes)


def _written(work: ConversionContext, key: str, value: Json, place: WriterPosition) -> Json:
    if key in SINGLE and isinstance(value, Mapping):
        return work.inner(value, place.at(key))
    if key in LISTED and isinstance(value, list):
        return [one if isinstance(one, bool) else work.inner(one, place.at(key)) for one in value]
    if key in NAMED and isinstance(value, Mapping):
        return {
            work.names.get(name, name): one if isinstance(one, bool) else work.inner(one, place.at(key, name))
            for name, one in value.items()
        }
    if key == "required" and isinstance(value, list):
        return [work.names.get(name, name) for name in value if isinstance(name, str)]
    return renamed(value, work.names) if key in DATA or key == "dependentRequired" else value
