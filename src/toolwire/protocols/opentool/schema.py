"""Convert between JSON Schema and the small schema of OpenTool: six types, no references, no unions.

Rules:
- What is written has one ``type`` of six, ``properties`` on each object, ``items`` on each array, no null.
- References are written out in place; where one leads back into itself it is cut to an object.
- Nothing here raises or runs long, whatever the schema: a Walk bounds its depth and its nodes.
"""
# S-2, A-01

from __future__ import annotations

import re
from collections.abc import Mapping

from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.framing.jsontext import get_list

from .narrow_schema import (
    TYPES,
    Walk,
    get_items,
    get_mapping,
    get_type,
    get_value_type,
    list_values,
    resolve_schema,
)

_NUMERAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_NOTES = {
    "default": "default",
    "format": "format",
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
    "pattern": "matching",
    "minLength": "shortest length",
    "maxLength": "longest length",
    "minItems": "fewest items",
    "maxItems": "most items",
    "contentEncoding": "as",
}
"""What the small schema has no member for, in the words its description says it with. [A-10]"""


def write(schema: Json, walk: Walk) -> dict[str, Json]:
    """Return ``schema`` as a small schema that says as much of it as fits; ``walk`` has what it refers to."""
    #
    return _flatten(schema, walk, frozenset(), 0)


def read(schema: Json, walk: Walk) -> dict[str, Json]:
    """Return a small schema as JSON Schema; what cannot be read stands for any value.

    Missing ``items`` or ``properties`` and digits as text in an ``enum`` of numbers are taken.
    """
    # C-4, A-02, A-04
    return _expand(schema, walk, frozenset(), 0)


def _flatten(schema: Json, walk: Walk, refs: frozenset[str], depth: int) -> dict[str, Json]:
    one, refs = resolve_schema(schema, walk, refs, depth)
    type_ = get_type(one)
    small: dict[str, Json] = {"type": type_}
    values = list_values(one)
    fits = bool(values) and all(_fits(value, type_) for value in values)
    if description := _describe(one, [] if fits else values):
        small["description"] = description
    if type_ == "object":
        members = get_mapping(one, "properties")
        small["properties"] = {name: _flatten(member, walk, refs, depth + 1) for name, member in members.items()}
        if required := [name for name in get_list(one, "required") if isinstance(name, str) and name in members]:
            small["required"] = required
    elif type_ == "array":
        small["items"] = _flatten(get_items(one), walk, refs, depth + 1)
    if fits:
        small["enum"] = values
    return small


def _fits(value: Json, type_: str) -> bool:
    found = get_value_type(value)
    return found == type_ or (found == "integer" and type_ == "number")


def _describe(schema: Mapping[str, Json], values: list[Json]) -> str:
    notes = [f"{words} {_show(schema[name])}" for name, words in _NOTES.items() if schema.get(name) is not None]
    if values:
        notes.append("one of " + ", ".join(_show(value) for value in values[:50]))
    text = schema.get("description")
    description = text if isinstance(text, str) else ""
    if not notes:
        return description
    return f"{description} ({', '.join(notes)})" if description else ", ".join(notes)


def _show(value: Json) -> str:
    if isinstance(value, list | dict):
        return jsontext.describe_type(value)
    text = value if isinstance(value, str) else jsontext.write(value).decode()
    return text if len(text) <= 100 else text[:100] + "..."


def _expand(schema: Json, walk: Walk, refs: frozenset[str], depth: int) -> dict[str, Json]:
    if not isinstance(schema, dict) or not walk.may_enter(schema, depth):
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in refs or not isinstance(walk.follow(reference), dict):
            walk.cut(reference)
            return {}
        return _expand(walk.follow(reference), walk, refs | {reference}, depth + 1)
    full: dict[str, Json] = {}
    type_ = schema.get("type")
    if isinstance(type_, str) and type_ in TYPES:
        full["type"] = type_
    if isinstance(schema.get("description"), str) and schema["description"]:
        full["description"] = schema["description"]
    members = jsontext.get_object(schema, "properties")
    if members:
        full["properties"] = {name: _expand(member, walk, refs, depth + 1) for name, member in members.items()}
    if required := [name for name in get_list(schema, "required") if isinstance(name, str) and name in members]:
        full["required"] = required
    if items := _expand(schema.get("items"), walk, refs, depth + 1):
        full["items"] = items
    listed = get_list(schema, "enum")
    if values := [read_numeral(value, full.get("type")) for value in listed]:
        walk.numerals += sum(new is not old for new, old in zip(values, listed, strict=True))
        full["enum"] = values
    return full


def read_numeral(value: Json, type_: Json) -> Json:
    """Return the number that ``value`` is where ``type_`` says a number and a string is there; else ``value``."""
    if type_ not in ("integer", "number") or not isinstance(value, str) or not _NUMERAL.fullmatch(value):
        return value
    return float(value) if "." in value else int(value)
