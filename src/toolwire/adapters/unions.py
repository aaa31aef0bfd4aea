"""Write ``anyOf`` and ``oneOf``, and null beside other values, for each dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema

from .conversion_context import ConversionContext, WriterPosition
from .dialects import SchemaDialect
from .schema_texts import SILENT, add_notes, write_any_value, write_keywords
from .schema_walk import list_types, merge_all_of

UNIONS: Final = ("anyOf", "oneOf")


def write_union(context: ConversionContext, node: Schema, key: str, position: WriterPosition) -> dict[str, Json]:
    """Return ``node``, whose branches are under ``key``. The keywords beside them go into each branch."""
    shared = {name: value for name, value in node.items() if name not in (key, "description", "default", "title")}
    texts = {name: node[name] for name in ("description", "default") if name in node}
    choices = [one for one in node[key] if isinstance(one, Mapping | bool)]
    notes = (
        [context.record_loss(position, "oneOf", "exactly one of the choices")]
        if key == "oneOf" and len(choices) > 1
        else []
    )
    if shared.keys() - SILENT:
        choices = [{"allOf": [shared, one]} if isinstance(one, Mapping) else shared for one in choices]
    has_null = False
    if context.dialect.nullable:
        rest = [one for one in choices if not (isinstance(one, Mapping) and list_types(one) == ("null",))]
        has_null, choices = len(rest) < len(choices), rest
    if not choices:
        return write_any_value(context, texts, position, "null only")
    written = [context.write_inner(one, position.enter(key, number)) for number, one in enumerate(choices)]
    united = written[0] if len(written) == 1 else {"anyOf": written}
    beside = write_keywords(context, add_notes(texts, notes), position)
    # Nothing may stand beside a reference.
    united = {"anyOf": [united], **beside} if beside and "$ref" in united else {**united, **beside}
    return {**united, "nullable": True} if has_null else united


def open_root(context: ConversionContext, whole: dict[str, Json], key: str) -> list[str]:
    """Remove ``key`` from the root, where no provider accepts it. Return the note about it.

    The properties of each branch of a union are added to the root, so that all arguments can be given.
    """
    taken = whole.pop(key)
    if key in UNIONS and isinstance(taken, list):
        choices = [merge_all_of(context.root, one).schema for one in taken if isinstance(one, Mapping)]
        for choice in choices:
            inner = choice.get("properties")
            if isinstance(inner, Mapping):
                whole["properties"] = {**inner, **whole["properties"]}
    return [context.record_loss(WriterPosition(), key, taken, narrows=context.dialect.strict)]


def allow_null(written: dict[str, Json], dialect: SchemaDialect) -> dict[str, Json]:
    """Return ``written`` with null as one more valid value."""
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
    texts = {"description": written["description"]} if "description" in written else {}
    return {"anyOf": [inner, {"type": "null"}], **texts}
