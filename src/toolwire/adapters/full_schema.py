"""Write a schema for providers that accept every keyword: only keys and references change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.core.subschemas import LISTED, NAMED, SINGLE

from .conversion_context import ConversionContext, WriterPosition
from .schema_texts import DATA, SILENT, add_notes, keep_name, rename_keys
from .schema_walk import list_types

_KEPT: Final = frozenset(("title", "deprecated", "readOnly", "writeOnly", "$comment"))
_BY_KEY: Final = frozenset(("propertyNames", "patternProperties", "dependentSchemas"))


def write_full_schema(context: ConversionContext, node: Schema, position: WriterPosition) -> dict[str, Json]:
    """Return ``node`` with every keyword of 2020-12, its keys renamed, and references to ``$defs`` of its own."""
    built: dict[str, Json] = {}
    notes: list[str] = []
    for key, value in node.items():
        if key in SILENT - _KEPT:
            continue
        if key in _BY_KEY and context.names:
            notes.append(context.record_loss(position, key, value))
        else:
            built[key] = _write_keyword(context, key, value, position)
    # O-24: one array without items makes the provider refuse the whole request.
    if context.dialect.array_items and "items" not in built and "array" in list_types(built):
        built["items"] = {}
    return add_notes(built, notes)


def _write_keyword(context: ConversionContext, key: str, value: Json, position: WriterPosition) -> Json:
    if key in SINGLE and isinstance(value, Mapping):
        return context.write_inner(value, position.enter(key))
    if key in LISTED and isinstance(value, list):
        return [one if isinstance(one, bool) else context.write_inner(one, position.enter(key)) for one in value]
    if key in NAMED and isinstance(value, Mapping):
        return {
            context.names.get(name, name): inner
            if isinstance(inner, bool)
            else context.write_inner(inner, position.enter(key, name))
            for name, one in value.items()
            for inner in (keep_name(context, name, one) if key == "properties" else one,)
        }
    if key == "required" and isinstance(value, list):
        return [context.names.get(name, name) for name in value if isinstance(name, str)]
    return rename_keys(value, context.names) if key in DATA or key == "dependentRequired" else value
