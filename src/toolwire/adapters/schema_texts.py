"""Write the limits and texts of a schema: what a dialect does not accept goes into the description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.framing.text_cleaning import cap_text, clean_data
from toolwire.framing.tool_description import DESCRIPTION_CHARACTERS

from .conversion_context import ConversionContext, WriterPosition
from .schema_walk import get_type, is_type, list_types

DATA: Final = frozenset(("const", "default", "enum", "examples"))
"""The keywords whose values are data, not schemas."""

SILENT: Final = frozenset(
    (
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$schema",
        "$vocabulary",
        "definitions",
        "deprecated",
        "readOnly",
        "title",
        "writeOnly",
    )
)
"""The keywords that limit no value. They are left out without a note."""

_BUILT: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "description")
)
_COMBINED: Final = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
_LOOKAROUND: Final = re.compile(r"\(\?(?:[=!]|<[=!])")


def write_keywords(context: ConversionContext, node: Schema, position: WriterPosition) -> dict[str, Json]:
    """Return the limits and texts of ``node`` that the dialect accepts, and a description with the others."""
    written: dict[str, Json] = {}
    notes: list[str] = []
    for key, value in node.items():
        if key == "title" and "title" in context.dialect.keywords and isinstance(value, str):
            written[key] = value
        elif key in SILENT or key.startswith("x-"):
            continue
        elif key in ("enum", "const"):
            notes.extend(_note_enum(context, node, key, position))
        elif key in _BUILT and not (key == "additionalProperties" and _is_dropped(context, value)):
            continue
        elif key in context.dialect.keywords and _accepts(context, key, value):
            written[key] = rename_keys(value, context.names) if key in DATA else value
        else:
            notes.append(context.record_loss(position, key, value))
    description = node.get("description")
    text = _join_notes(description if isinstance(description, str) else "", notes)
    return {**written, "description": text} if text else written


def write_any_value(context: ConversionContext, node: Schema, position: WriterPosition, note: str) -> dict[str, Json]:
    """Return a schema of any value. ``note`` describes which values were meant."""
    if context.dialect.strict:
        context.record_loss(position, note or "any value", True, narrows=True)
    elif note:
        context.record_loss(position, "instead", note)
    allowed = {key: value for key, value in node.items() if key not in ("$ref", "type")}
    return write_keywords(context, add_notes(allowed, [note] if note else []), position)


def write_enum(context: ConversionContext, node: Schema, kind: str) -> dict[str, Json]:
    """Return ``enum`` with the values of ``node``, or nothing where the dialect accepts no such values."""
    values = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(values, list):
        return {}
    values = [one for one in values if "type" not in node or any(is_type(one, each) for each in list_types(node))]
    allowed = context.dialect.enum
    sorts = {"number" if (one := get_type(value)) == "integer" else one for value in values}
    if context.dialect.nullable:
        values, sorts = [value for value in values if value is not None], sorts - {"null"}
    if values and sorts <= allowed and not (kind not in ("string", "null") and "number" not in allowed):
        return {"enum": rename_keys(values, context.names)}
    return {}


def add_notes(node: Schema, notes: list[str]) -> dict[str, Json]:
    """Return ``node`` with ``notes`` at the end of its description."""
    description = node.get("description")
    text = _join_notes(description if isinstance(description, str) else "", notes)
    return {**node, "description": text} if text else dict(node)


def note_original_name(context: ConversionContext, name: str, node: Json) -> Json:
    """Return the schema of the property ``name`` with that name in it, where its key is another for the provider.

    It becomes the title, or the begin of the description where the provider takes no title. A title that says more than
    the key is kept in the same way: it is the name in the vendor's own documentation.
    """
    # O-25
    schema: Schema = node if isinstance(node, Mapping) else {}
    own = schema.get("title")
    title = name if name in context.names else own if isinstance(own, str) and _simplify(own) != _simplify(name) else ""
    if not title or node is False:
        return node
    takes_title = context.dialect.full or ("title" in context.dialect.keywords and _COMBINED.isdisjoint(schema))
    if takes_title:
        return {**schema, "title": own if isinstance(own, str) and title in own else title}
    description = schema.get("description")
    if isinstance(description, str) and title in description:
        return node
    return {
        **schema,
        "description": f"{title}: {description}" if isinstance(description, str) and description else title,
    }


def _simplify(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()


def rename_keys(data: Json, names: Mapping[str, str]) -> Json:
    """Return ``data`` with the keys of its objects replaced as ``names`` says."""
    if isinstance(data, Mapping):
        return {names.get(key, key): rename_keys(value, names) for key, value in data.items()}
    return [rename_keys(one, names) for one in data] if isinstance(data, list | tuple) else data


def clean_schema(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a written schema without hidden characters, its descriptions cut at 4,096 characters."""
    # XL-071, D-01
    plain: dict[str, Json] = _cap_descriptions(clean_data(schema))
    return plain


def _note_enum(context: ConversionContext, node: Schema, key: str, position: WriterPosition) -> list[str]:
    several = [kind for kind in list_types(node) if kind != "null"]
    if write_enum(context, node, several[0] if several else "null"):
        return []
    return [context.record_loss(position, key, node[key])]


def _is_dropped(context: ConversionContext, rest: Json) -> bool:
    return not context.dialect.maps and not context.dialect.strict and rest is not True


def _accepts(context: ConversionContext, key: str, value: Json) -> bool:
    dialect = context.dialect
    if key == "format":
        return isinstance(value, str) and (dialect.formats is None or value in dialect.formats)
    if key == "pattern":
        return isinstance(value, str) and not (dialect.strict and _LOOKAROUND.search(value))
    if key == "minItems" and dialect.strict and not dialect.recursion:
        return value in (0, 1)
    return True


def _join_notes(text: str, notes: list[str]) -> str:
    joined = "; ".join(notes)
    if not joined:
        return text
    return f"{text} ({joined})" if text else f"({joined})"


def _cap_descriptions(node: Json) -> Json:
    if isinstance(node, list):
        return [_cap_descriptions(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: cap_text(value, DESCRIPTION_CHARACTERS)
        if key == "description" and isinstance(value, str)
        else value
        if key in DATA
        else _cap_descriptions(value)
        for key, value in node.items()
    }
