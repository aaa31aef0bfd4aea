"""Write a schema without references and unions: its types, and the schemas inside objects and arrays."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.model import Json, Schema

from .conversion_context import ConversionContext, WriterPosition
from .schema_texts import note_original_name, write_any_value, write_enum, write_keywords
from .schema_walk import accepts_null, find_references, list_types, split_by_type
from .unions import allow_null, write_union


def write_typed_schema(context: ConversionContext, node: Schema, position: WriterPosition) -> dict[str, Json]:
    """Return ``node``; several types become ``anyOf`` where the dialect accepts no list of types."""
    kinds = list_types(node)
    several = [kind for kind in kinds if kind != "null"]
    if not kinds:
        return write_any_value(context, node, position, "")
    if len(several) > 1 or (len(kinds) > 1 and not context.dialect.type_lists and not context.dialect.nullable):
        return _write_each_type(context, node, position)
    if context.dialect.nullable and not several:
        return write_any_value(context, node, position, "null only")
    written: dict[str, Json] = {"type": kinds[0] if len(kinds) == 1 else list(kinds)}
    if context.dialect.nullable and len(kinds) > 1:
        written = {"type": several[0], "nullable": True}
    written |= write_enum(context, node, several[0] if several else "null")
    if "object" in kinds:
        written |= _write_object(context, node, position)
    if "array" in kinds:
        written |= _write_array(context, node, position)
    return {**written, **write_keywords(context, node, position)}


def _write_each_type(context: ConversionContext, node: Schema, position: WriterPosition) -> dict[str, Json]:
    inner = {key: value for key, value in node.items() if key not in ("description", "default", "title")}
    texts = {key: node[key] for key in ("description", "default") if key in node}
    return write_union(context, {"anyOf": split_by_type(inner), **texts}, "anyOf", position)


def _write_object(context: ConversionContext, node: Schema, position: WriterPosition) -> dict[str, Json]:
    inner = node.get("properties")
    properties = inner if isinstance(inner, Mapping) else {}
    declared = node.get("required")
    required = [name for name in declared if name in properties] if isinstance(declared, list) else []
    written = {
        context.names.get(name, name): context.write_inner(
            note_original_name(context, name, one), position.enter("properties", name)
        )
        for name, one in properties.items()
    }
    if context.dialect.strict:
        return _write_closed_object(context, node, position, written)
    if context.dialect.references and not context.dialect.full:
        required = [name for name in required if not _drop_required(context, properties[name], position, name)]
    built: dict[str, Json] = {"properties": written} if written or not position.pointer else {}
    if required:
        built["required"] = [context.names.get(name, name) for name in required]
    rest = node.get("additionalProperties")
    if rest is not None and context.dialect.maps:
        built["additionalProperties"] = (
            rest if isinstance(rest, bool) else context.write_inner(rest, position.enter("additionalProperties"))
        )
    return built


def _write_closed_object(
    context: ConversionContext, node: Schema, position: WriterPosition, written: dict[str, Json]
) -> dict[str, Json]:
    """Return the object as strict dialects need it: no other properties, and every property required."""
    properties = node.get("properties", {})
    declared = node.get("required")
    required = set(declared) if isinstance(declared, list) and all(isinstance(one, str) for one in declared) else set()
    rest = node.get("additionalProperties", not properties and position.pointer != "")
    if rest is not False:
        context.record_loss(position, "additionalProperties", rest, narrows=True)
    if "patternProperties" in node:
        context.record_loss(position, "patternProperties", node["patternProperties"], narrows=True)
    for name in properties:
        if name in required:
            continue
        own = context.names.get(name, name)
        inner = properties[name]
        if accepts_null(context.root, inner, context.nulls) and not (
            isinstance(inner, Mapping) and inner.get("default", True) is None
        ):
            context.record_loss(position.enter("properties", name), "null", "told from leaving it out", narrows=True)
        written[own] = allow_null(written[own], context.dialect)
    return {"properties": written, "required": list(written), "additionalProperties": False}


def _drop_required(context: ConversionContext, inner: Json, position: WriterPosition, name: str) -> bool:
    if not find_references(inner) & context.recursive:
        return False
    context.record_loss(position.enter("required"), "required", name)
    return True


def _write_array(context: ConversionContext, node: Schema, position: WriterPosition) -> dict[str, Json]:
    items = node.get("items")
    if isinstance(items, Mapping):
        return {"items": context.write_inner(items, position.enter("items"))}
    if context.dialect.strict:
        context.record_loss(position, "items", "of any kind", narrows=True)
    if "prefixItems" in node:
        context.record_loss(position, "prefixItems", node["prefixItems"])
    return {"items": {}}
