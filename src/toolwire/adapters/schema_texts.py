"""The limits and texts of a schema: those that a dialect takes stay, the others are said in the description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json, Schema
from toolwire.framing.text_cleaning import capped, cleaned
from toolwire.framing.tool_description import DESCRIPTION_CHARACTERS

from .conversion_context import ConversionContext, WriterPosition
from .schema_walk import is_type, type_of, types

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
"""The keywords that limit no value, and need not be said."""

_BUILT: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "description")
)
_LOOKAROUND: Final = re.compile(r"\(\?(?:[=!]|<[=!])")


def words(work: ConversionContext, node: Schema, place: WriterPosition) -> dict[str, Json]:
    """Return the limits and texts of ``node`` that the dialect takes; the others are in the description."""
    written: dict[str, Json] = {}
    notes: list[str] = []
    for key, value in node.items():
        if key == "title" and "title" in work.dialect.keywords and isinstance(value, str):
            written[key] = value
        elif key in SILENT or key.startswith("x-"):
            continue
        elif key in ("enum", "const"):
            notes.extend(_unlisted(work, node, key, place))
        elif key in _BUILT and not (key == "additionalProperties" and _is_unsaid(work, value)):
            continue
        elif key in work.dialect.keywords and _takes(work, key, value):
            written[key] = renamed(value, work.names) if key in DATA else value
        else:
            notes.append(work.lost(place, key, value))
    description = node.get("description")
    text = _joined(description if isinstance(description, str) else "", notes)
    return {**written, "description": text} if text else written


def anything(work: ConversionContext, node: Schema, place: WriterPosition, note: str) -> dict[str, Json]:
    """Return the schema of any value; ``note`` says what it should have been."""
    if work.dialect.strict:
        work.lost(place, note or "any value", True, narrows=True)
    elif note:
        work.lost(place, "instead", note)
    kept = {key: value for key, value in node.items() if key not in ("$ref", "type")}
    return words(work, noted(kept, [note] if note else []), place)


def choices(work: ConversionContext, node: Schema, kind: str) -> dict[str, Json]:
    """Return the values that ``node`` lists, if the dialect takes a list of such values of type ``kind``."""
    values = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(values, list):
        return {}
    values = [one for one in values if "type" not in node or any(is_type(one, each) for each in types(node))]
    allowed = work.dialect.enum
    sorts = {"number" if (one := type_of(value)) == "integer" else one for value in values}
    if work.dialect.nullable:
        values, sorts = [value for value in values if value is not None], sorts - {"null"}
    if values and sorts <= allowed and not (kind not in ("string", "null") and "number" not in allowed):
        return {"enum": renamed(values, work.names)}
    return {}


def noted(node: Schema, notes: list[str]) -> dict[str, Json]:
    """Return ``node`` with ``notes`` at the end of its description."""
    description = node.get("description")
    text = _joined(description if isinstance(description, str) else "", notes)
    return {**node, "description": text} if text else dict(node)


def renamed(data: Json, names: Mapping[str, str]) -> Json:
    """Return ``data`` with the keys of its objects written as ``names`` says."""
    if isinstance(data, Mapping):
        return {names.get(key, key): renamed(value, names) for key, value in data.items()}
    return [renamed(one, names) for one in data] if isinstance(data, list | tuple) else data


def readable(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a written schema as a person would read it, no description over 4,096 characters. [XL-071, D-01]"""
    plain: dict[str, Json] = _capped(cleaned(schema))
    return plain


def _unlisted(work: ConversionContext, node: Schema, key: str, place: WriterPosition) -> list[str]:
    several = [kind for kind in types(node) if kind != "null"]
    if choices(work, node, several[0] if several else "null"):
        return []
    return [work.lost(place, key, node[key])]


def _is_unsaid(work: ConversionContext, rest: Json) -> bool:
    return not work.dialect.maps and not work.dialect.strict and rest is not True


def _takes(work: ConversionContext, key: str, value: Json) -> bool:
    dialect = work.dialect
    if key == "format":
        return isinstance(value, str) and (dialect.formats is None or value in dialect.formats)
    if key == "pattern":
        return isinstance(value, str) and not (dialect.strict and _LOOKAROUND.search(value))
    if key == "minItems" and dialect.strict and not dialect.recursion:
        return value in (0, 1)
    return True


def _joined(text: str, notes: list[str]) -> str:
    said = "; ".join(notes)
    if not said:
        return text
    return f"{text} ({said})" if text else f"({said})"


def _capped(node: Json) -> Json:
    if isinstance(node, list):
        return [_capped(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: capped(value, DESCRIPTION_CHARACTERS)
        if key == "description" and isinstance(value, str)
        else value
        if key in DATA
        else _capped(value)
        for key, value in node.items()
    }
