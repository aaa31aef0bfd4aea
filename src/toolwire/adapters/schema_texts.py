"""Write the limits and texts of a schema: what a dialect does not accept goes into the description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.framing.text_cleaning import cap_text, clean_data
from toolwire.framing.tool_description import DESCRIPTION_CHARACTERS

from .conversion_context import ConversionContext
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


def write_keywords(context: ConversionContext, node: Schema) -> dict[str, Json]:
    """Return the limits and texts of ``node`` that the dialect accepts, and a description with the others."""
    written: dict[str, Json] = {}
    notes: list[str] = []
    for key, value in node.items():
        if key in SILENT or key.startswith("x-"):
            continue
        if key in ("enum", "const"):
            notes += [] if write_enum(context, node) else [context.describe_limit(key, value)]
        elif key in _BUILT:
            continue
        elif key in (context.dialect.keywords or ()) and (key != "format" or isinstance(value, str)):
            written[key] = value
        else:
            notes.append(context.describe_limit(key, value))
    description = node.get("description")
    text = _join_notes(description if isinstance(description, str) else "", notes)
    return {**written, "description": text} if text else written


def write_any_value(context: ConversionContext, node: Schema, note: str) -> dict[str, Json]:
    """Return a schema of any value. ``note`` describes which values were meant."""
    allowed = {key: value for key, value in node.items() if key not in ("$ref", "type")}
    return write_keywords(context, add_notes(allowed, [note] if note else []))


def write_enum(context: ConversionContext, node: Schema) -> dict[str, Json]:
    """Return ``enum`` with the values of ``node``, or nothing where the dialect accepts no such values."""
    values = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(values, list):
        return {}
    values = [one for one in values if "type" not in node or any(is_type(one, each) for each in list_types(node))]
    sorts = {"number" if (one := get_type(value)) == "integer" else one for value in values}
    return {"enum": rename_keys(values, context.names)} if values and sorts <= context.dialect.enum else {}


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
    if context.dialect.keywords is None:
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
