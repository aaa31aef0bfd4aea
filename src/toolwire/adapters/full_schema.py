"""Write a schema for providers that accept every keyword: only keys and references change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.core.subschemas import LISTED, NAMED, SINGLE

from .conversion_context import ConversionContext, WriterPosition
from .schema_texts import DATA, SILENT, add_notes, rename_keys

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
    return add_notes(built, notes)


def _write_keyword(context: ConversionContext, key: str, value: Json, position: WriterPosition) -> Json:
    if key in SINGLE and isinstance(value, Mapping):
        return context.write_inner(value, position.enter(key))
    if key in LISTED and isinstance(value, list):
        return [one if isinstance(one, bool) else context.write_inner(one, position.enter(key)) for one in value]
    if key in NAMED and isinstance(value, Mapping):
        return {
            context.names.get(name, name): one
            if isinstance(one, bool)
            else context.write_inner(one, position.enter(key, name))
            for name, one in value.items()
        }
    if key == "required" and isinstance(value, list):
        return [context.names.get(name, name) for name in value if isinstance(name, str)]
    return rename_keys(value, context.names) if key in DATA or key == "dependentRequired" else value
