"""OpenTool's small schema and JSON Schema: six types, no references, no unions, and back.

Rules:
- What is written has one ``type`` of six, ``properties`` on each object, ``items`` on each array, no null. [S-2]
- References are written out in place; where one leads back into itself it is cut to an object. [A-01]
- Nothing here raises or runs long, whatever the schema: depth and number of nodes are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolwire.core.model import Json, Schema
from toolwire.framing import jsontext

TYPES = frozenset({"boolean", "integer", "number", "string", "array", "object"})

_MAX_DEPTH = 40
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
}
"""What the small schema has no member for, in the words its description says it with. [A-10]"""


@dataclass(slots=True)
class Walk:
    """One walk over a schema: where its references point, and how many more nodes it may visit."""

    root: Json
    nodes_left: int = 2_000
    cuts: list[str] = field(default_factory=list)

    def may_enter(self, depth: int) -> bool:
        """Count one more node; False once the walk is too deep or too long."""
        self.nodes_left -= 1
        return depth <= _MAX_DEPTH and self.nodes_left >= 0

    def follow(self, reference: Json) -> Json:
        """Return what a local reference points to, or None (also for one that leaves the document)."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        target = self.root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        return target


def write(schema: Json, root: Schema) -> dict[str, Json]:
    """Return ``schema`` as a small schema that says as much of it as fits; ``root`` holds what it refers to. [A-03]"""
    return _flatten(schema, Walk(root), frozenset(), 0)


def read(schema: Json, walk: Walk) -> dict[str, Json]:
    """Return a small schema as JSON Schema; what cannot be read stands for any value.

    Missing ``items`` or ``properties`` and digits as text in an ``enum`` of numbers are taken. [C-4, A-02, A-04]
    """
    return _expand(schema, walk, frozenset(), 0)


def _flatten(schema: Json, walk: Walk, refs: frozenset[str], depth: int) -> dict[str, Json]:
    if not walk.may_enter(depth):
        return {"type": "object", "properties": {}}
    plain, refs = _one_of_it(schema, walk, refs, depth)
    type_ = _type_of(plain)
    small: dict[str, Json] = {"type": type_}
    values = _values(plain)
    fits = bool(values) and all(_fits(value, type_) for value in values)
    if description := _describe(plain, [] if fits else values):
        small["description"] = description
    if type_ == "object":
        members = _mapping(plain, "properties")
        small["properties"] = {name: _flatten(member, walk, refs, depth + 1) for name, member in members.items()}
        if required := [name for name in _list(plain, "required") if isinstance(name, str) and name in members]:
            small["required"] = required
    elif type_ == "array":
        small["items"] = _flatten(_items(plain), walk, refs, depth + 1)
    if fits:
        small["enum"] = values
    return small


def _one_of_it(
    schema: Json, walk: Walk, refs: frozenset[str], depth: int
) -> tuple[Mapping[str, Json], frozenset[str]]:
    """Return ``schema`` with its own reference, ``allOf`` and union resolved, and the references on the way here."""
    while isinstance(schema, Mapping) and walk.may_enter(depth):
        if "$ref" in schema:
            reference = schema["$ref"]
            if not isinstance(reference, str) or reference in refs:
                return {}, refs
            refs |= {reference}
            schema = _over(walk.follow(reference), schema, "$ref")
        elif "allOf" in schema:
            parts = [_one_of_it(part, walk, refs, depth + 1)[0] for part in _list(schema, "allOf")]
            schema = _over(_all_of(parts), schema, "allOf")
        elif union := next((name for name in ("anyOf", "oneOf") if name in schema), None):
            parts = [_one_of_it(part, walk, refs, depth + 1)[0] for part in _list(schema, union)]
            schema = _over(_any_of([part for part in parts if part.get("type") != "null"]), schema, union)
        else:
            return schema, refs
    return {}, refs


def _over(below: Json, schema: Mapping[str, Json], done: str) -> dict[str, Json]:
    own = {name: value for name, value in schema.items() if name != done}
    return {**below, **own} if isinstance(below, Mapping) else own


def _all_of(parts: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    merged: dict[str, Json] = {}
    for part in parts:
        properties = {**_mapping(merged, "properties"), **_mapping(part, "properties")}
        required = [*_list(merged, "required"), *_list(part, "required")]
        merged |= part
        if properties:
            merged |= {"properties": properties, "required": required}
    return merged


def _any_of(parts: list[Mapping[str, Json]]) -> dict[str, Json]:
    if len(parts) == 1:
        return dict(parts[0])
    type_ = _join({_type_of(part) for part in parts})
    merged: dict[str, Json] = {"type": type_}
    if parts and all(_values(part) for part in parts):
        merged["enum"] = [value for part in parts for value in _values(part)]
    if type_ == "object" and all(_type_of(part) == "object" for part in parts):
        merged["properties"] = {name: one for part in parts for name, one in _mapping(part, "properties").items()}
        merged["required"] = [
            name for name in merged["properties"] if all(name in _list(part, "required") for part in parts)
        ]
    elif type_ == "array":
        merged["items"] = {"anyOf": [_items(part) for part in parts]}
    return merged


def _type_of(schema: Mapping[str, Json]) -> str:
    match schema.get("type"):
        case str(name) if name in TYPES:
            return name
        case [*names]:
            return _join({name for name in names if isinstance(name, str)})
    if values := _values(schema):
        return _join({_type_of_value(value) for value in values})
    return "array" if "items" in schema or "prefixItems" in schema else "object"


def _join(types: set[str]) -> str:
    """Return the one type that stands for several. [A-03]"""
    types = types & TYPES
    if len(types) == 1:
        return next(iter(types))
    if types == {"integer", "number"}:
        return "number"
    return "string" if "string" in types else "object"


def _type_of_value(value: Json) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _fits(value: Json, type_: str) -> bool:
    found = _type_of_value(value)
    return found == type_ or (found == "integer" and type_ == "number")


def _values(schema: Mapping[str, Json]) -> list[Json]:
    values = [schema["const"]] if "const" in schema else _list(schema, "enum")
    return [value for value in values if value is not None]


def _items(schema: Mapping[str, Json]) -> Json:
    if isinstance(schema.get("items"), Mapping):
        return schema["items"]
    places = _list(schema, "prefixItems")
    return {"anyOf": places} if places else {}


def _describe(schema: Mapping[str, Json], values: list[Json]) -> str:
    notes = [f"{words} {_show(schema[name])}" for name, words in _NOTES.items() if schema.get(name) is not None]
    if values:
        notes.append("one of " + ", ".join(_show(value) for value in values[:50]))
    text = schema.get("description")
    said = text if isinstance(text, str) else ""
    if not notes:
        return said
    return f"{said} ({', '.join(notes)})" if said else ", ".join(notes)


def _show(value: Json) -> str:
    text = value if isinstance(value, str) else jsontext.write(value).decode()
    return text if len(text) <= 100 else text[:100] + "..."


def _expand(schema: Json, walk: Walk, refs: frozenset[str], depth: int) -> dict[str, Json]:
    if not isinstance(schema, dict) or not walk.may_enter(depth):
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in refs or not isinstance(walk.follow(reference), dict):
            walk.cuts.append(reference[:100])
            return {}
        return _expand(walk.follow(reference), walk, refs | {reference}, depth + 1)
    full: dict[str, Json] = {}
    type_ = schema.get("type")
    if isinstance(type_, str) and type_ in TYPES:
        full["type"] = type_
    if isinstance(schema.get("description"), str) and schema["description"]:
        full["description"] = schema["description"]
    members = jsontext.member(schema, "properties")
    if members:
        full["properties"] = {name: _expand(member, walk, refs, depth + 1) for name, member in members.items()}
    if required := [name for name in _list(schema, "required") if isinstance(name, str) and name in members]:
        full["required"] = required
    if items := _expand(schema.get("items"), walk, refs, depth + 1):
        full["items"] = items
    if values := [_native(value, full.get("type")) for value in _list(schema, "enum")]:
        full["enum"] = values
    return full


def _native(value: Json, type_: Json) -> Json:
    if type_ not in ("integer", "number") or not isinstance(value, str) or not _NUMERAL.fullmatch(value):
        return value
    return float(value) if "." in value else int(value)


def _mapping(schema: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    value = schema.get(name)
    return value if isinstance(value, Mapping) else {}


def _list(schema: Mapping[str, Json], name: str) -> list[Json]:
    value = schema.get(name)
    return value if isinstance(value, list) else []
