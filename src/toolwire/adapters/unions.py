"""Several schemas for one value, as each dialect says them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema

from .conversion_context import ConversionContext, WriterPosition
from .dialects import SchemaDialect
from .schema_texts import SILENT, anything, noted, words
from .schema_walk import merged, types

UNIONS: Final = ("anyOf", "oneOf")


def union(work: ConversionContext, node: Schema, key: str, place: WriterPosition) -> dict[str, Json]:
    """Return ``node``, which has choices under ``key``; what stands beside the choices goes into each."""
    shared = {name: value for name, value in node.items() if name not in (key, "description", "default", "title")}
    said = {name: node[name] for name in ("description", "default") if name in node}
    choices = [one for one in node[key] if isinstance(one, Mapping | bool)]
    notes = [work.lost(place, "oneOf", "exactly one of the choices")] if key == "oneOf" and len(choices) > 1 else []
    if shared.keys() - SILENT:
        choices = [{"allOf": [shared, one]} if isinstance(one, Mapping) else shared for one in choices]
    has_null = False
    if work.dialect.nullable:
        rest = [one for one in choices if not (isinstance(one, Mapping) and types(one) == ("null",))]
        has_null, choices = len(rest) < len(choices), rest
    if not choices:
        return anything(work, said, place, "null only")
    written = [work.inner(one, place.at(key, number)) for number, one in enumerate(choices)]
    united = written[0] if len(written) == 1 else {"anyOf": written}
    united = {**united, **words(work, noted(said, notes), place)}
    return {**united, "nullable": True} if has_null else united


def opened(work: ConversionContext, whole: dict[str, Json], key: str) -> list[str]:
    """Take from the root what no provider takes there; the arguments of every choice can then be given."""
    taken = whole.pop(key)
    if key in UNIONS and isinstance(taken, list):
        choices = [merged(work.root, one).schema for one in taken if isinstance(one, Mapping)]
        for choice in choices:
            inner = choice.get("properties")
            if isinstance(inner, Mapping):
                whole["properties"] = {**inner, **whole["properties"]}
    return [work.lost(WriterPosition(), key, taken, narrows=work.dialect.strict)]


def or_null(written: dict[str, Json], dialect: SchemaDialect) -> dict[str, Json]:
    """Return ``written`` so that null is a value of it too."""
    kind = written.get("type")
    if "null" in (kind if isinstance(kind, list) else [kind]):
        return written
    choices = written.get("anyOf")
    if isinstance(choices, list):
        if any(one.get("type") == "null" for one in choices):
            return written
        return {**written, "anyOf": [*choices, {"type": "null"}]}
    if isinstance(kind, str) and dialect.type_lists and "enum" not in written:
        return {**written, "type": [kind, "null"]}
    inner = {key: value for key, value in written.items() if key != "description"}
    said = {"description": written["description"]} if "description" in written else {}
    return {"anyOf": [inner, {"type": "null"}], **said}
