"""Write a schema without references: its types, its unions, and the schemas inside objects and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema

from .conversion_context import ConversionContext, References
from .schema_texts import SILENT, add_notes, note_original_name, write_any_value, write_enum, write_keywords
from .schema_walk import find_references, list_types, split_by_type

UNIONS: Final = ("anyOf", "oneOf")
_TEXTS: Final = ("description", "default")


def write_typed_schema(context: ConversionContext, node: Schema, followed: References) -> dict[str, Json]:
    """Return ``node``; several types besides null become ``anyOf``."""
    kinds = list_types(node)
    if not kinds:
        return write_any_value(context, node, "")
    if len([kind for kind in kinds if kind != "null"]) > 1:
        inner = {key: value for key, value in node.items() if key not in (*_TEXTS, "title")}
        texts = {key: node[key] for key in _TEXTS if key in node}
        return write_union(context, {"anyOf": split_by_type(inner), **texts}, "anyOf", followed)
    written: dict[str, Json] = {"type": kinds[0] if len(kinds) == 1 else list(kinds)}
    written |= write_enum(context, node)
    if "object" in kinds:
        written |= _write_object(context, node, followed)
    if "array" in kinds:
        items = node.get("items")
        written["items"] = context.write_inner(items, followed) if isinstance(items, Mapping) else {}
    return {**written, **write_keywords(context, node)}


def _write_object(context: ConversionContext, node: Schema, followed: References) -> dict[str, Json]:
    inner = node.get("properties")
    properties = inner if isinstance(inner, Mapping) else {}
    written = {
        context.names.get(name, name): context.write_inner(note_original_name(context, name, one), followed)
        for name, one in properties.items()
    }
    built: dict[str, Json] = {"properties": written} if written else {}
    declared = node.get("required")
    # A property that leads back to its own object is accepted only where it is optional.
    required = [
        context.names.get(name, name)
        for name in (declared if isinstance(declared, list) else ())
        if name in properties and not find_references(properties[name]) & context.recursive
    ]
    if required:
        built["required"] = required
    rest = node.get("additionalProperties")
    if rest is not None:
        built["additionalProperties"] = rest if isinstance(rest, bool) else context.write_inner(rest, followed)
    return built


def write_union(context: ConversionContext, node: Schema, key: str, followed: References) -> dict[str, Json]:
    """Return ``node``, whose branches are under ``key``. The keywords beside them go into each branch."""
    shared = {name: value for name, value in node.items() if name not in (key, *_TEXTS, "title")}
    texts = {name: node[name] for name in _TEXTS if name in node}
    choices = [one for one in node[key] if isinstance(one, Mapping | bool)]
    if not choices:
        return write_any_value(context, texts, "")
    notes = [context.describe_limit("oneOf", "exactly one of the choices")] if key == "oneOf" and choices[1:] else []
    if shared.keys() - SILENT:
        choices = [{"allOf": [shared, one]} if isinstance(one, Mapping) else shared for one in choices]
    written = [context.write_inner(one, followed) for one in choices]
    united = written[0] if len(written) == 1 else {"anyOf": written}
    beside = write_keywords(context, add_notes(texts, notes))
    # Nothing may stand beside a reference.
    return {"anyOf": [united], **beside} if beside and "$ref" in united else {**united, **beside}
