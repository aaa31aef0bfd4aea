"""One schema without references or choices: its types, and the schemas inside objects and arrays."""

from __future__ import annotations

from collections.abc import Mapping

from toolwire.core.model import Json, Schema

from .conversion_context import ConversionContext, WriterPosition
from .schema_texts import anything, choices, words
from .schema_walk import references, split, takes_null, types
from .unions import or_null, union


def typed(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    """Return ``node``; several types become choices where the dialect takes no list of them."""
    kinds = types(node)
    several = [kind for kind in kinds if kind != "null"]
    if not kinds:
        return anything(work, node, place, "")
    if len(several) > 1 or (len(kinds) > 1 and not work.dialect.type_lists and not work.dialect.nullable):
        return _parts(work, node, place)
    if work.dialect.nullable and not several:
        return anything(work, node, place, "null only")
    written: dict[str, Json] = {"type": kinds[0] if len(kinds) == 1 else list(kinds)}
    if work.dialect.nullable and len(kinds) > 1:
        written = {"type": several[0], "nullable": True}
    written |= choices(work, node, several[0] if several else "null")
    if "object" in kinds:
        written |= _object(work, node, place)
    if "array" in kinds:
        written |= _array(work, node, place)
    return {**written, **words(work, node, place)}


def _parts(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    inner = {key: value for key, value in node.items() if key not in ("description", "default", "title")}
    said = {key: node[key] for key in ("description", "default") if key in node}
    return union(work, {"anyOf": split(inner), **said}, "anyOf", place)


def _object(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    inner = node.get("properties")
    properties = inner if isinstance(inner, Mapping) else {}
    said = node.get("required")
    required = [name for name in said if name in properties] if isinstance(said, list) else []
    written = {
        work.names.get(name, name): work.inner(one, place.at("properties", name)) for name, one in properties.items()
    }
    if work.dialect.strict:
        return _closed(work, node, place, written)
    if work.dialect.references and not work.dialect.whole:
        required = [name for name in required if not _goes_round(work, properties[name], place, name)]
    built: dict[str, Json] = {"properties": written} if written or not place.pointer else {}
    if required:
        built["required"] = [work.names.get(name, name) for name in required]
    rest = node.get("additionalProperties")
    if rest is not None and work.dialect.maps:
        built["additionalProperties"] = (
            rest if isinstance(rest, bool) else work.inner(rest, place.at("additionalProperties"))
        )
    return built


def _closed(work: ConversionContext, node: Schema, place: WriterPosition, written: dict[str, Json]) -> dict[str, Json]:
    """Return the object as strict shapes want it: closed, and every property named as required."""
    properties = node.get("properties", {})
    said = node.get("required")
    required = set(said) if isinstance(said, list) and all(isinstance(one, str) for one in said) else set()
    rest = node.get("additionalProperties", not properties and place.pointer != "")
    if rest is not False:
        work.lost(place, "additionalProperties", rest, narrows=True)
    if "patternProperties" in node:
        work.lost(place, "patternProperties", node["patternProperties"], narrows=True)
    for name in properties:
        if name in required:
            continue
        own = work.names.get(name, name)
        inner = properties[name]
        if takes_null(work.root, inner, work.nulls) and not (
            isinstance(inner, Mapping) and inner.get("default", True) is None
        ):
            work.lost(place.at("properties", name), "null", "told from leaving it out", narrows=True)
        written[own] = or_null(written[own], work.dialect)
    return {"properties": written, "required": list(written), "additionalProperties": False}


def _goes_round(work: ConversionContext, inner: Json, place: WriterPosition, name: str) -> bool:
    if not references(inner) & work.recursive:
        return False
    work.lost(place.at("required"), "required", name)
    return True


def _array(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    items = node.get("items")
    if isinstance(items, Mapping):
        return {"items": work.inner(items, place.at("items"))}
    if work.dialect.strict:
        work.lost(place, "items", "of any kind", narrows=True)
    if "prefixItems" in node:
        work.lost(place, "prefixItems", node["prefixItems"])
    return {"items": {}}
