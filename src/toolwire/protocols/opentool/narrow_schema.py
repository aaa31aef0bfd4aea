"""Narrow a JSON Schema to one type: follow references, merge ``allOf``, merge unions.

Rules:
- Only references within the document are followed; one that leads back into itself ends in any value.
- Nothing here raises or runs long, whatever the schema: depth and number of nodes are bounded.
"""
# A-01, D-18, D-17

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolwire.core.json_pointer import MISSING, resolve_reference
from toolwire.core.model import Json
from toolwire.framing.jsontext import get_list, list_texts

TYPES = frozenset({"boolean", "integer", "number", "string", "array", "object"})

_MAX_DEPTH = 40
_MAX_REFERENCE = 500
_MAX_ALTERNATIVES = 100


@dataclass(slots=True)
class Walk:
    """One walk over a schema: where its references point, how many more nodes it may visit, what it left out.

    ``numerals`` counts the values of an ``enum`` of numbers that were written as strings.
    """

    root: Json
    nodes_left: int = 2_000
    cuts: set[str] = field(default_factory=set)
    is_cut: bool = False
    numerals: int = 0

    def may_enter(self, schema: Mapping[str, Json], depth: int) -> bool:
        """Count one more node with the values it lists; False where the walk is too deep, or was too long before."""
        if self.nodes_left <= 0 or depth > _MAX_DEPTH:
            self.is_cut = True
            return False
        self.nodes_left -= 1 + len(get_list(schema, "enum")) + len(get_list(schema, "required"))
        return True

    def cut(self, reference: str) -> None:
        """Remember a reference that leads nowhere, or back into itself; of many, the first twenty."""
        if len(self.cuts) < 20:
            self.cuts.add(reference[:100])

    def follow(self, reference: Json) -> Json:
        """Return what a local reference points to, or None (also for one that leaves the document)."""
        if not isinstance(reference, str) or len(reference) > _MAX_REFERENCE:
            return None
        target = resolve_reference(self.root, reference)
        return None if target is MISSING else target


def resolve_schema(
    schema: Json, walk: Walk, refs: frozenset[str], depth: int
) -> tuple[Mapping[str, Json], frozenset[str]]:
    """Return ``schema`` with its own reference, ``allOf`` and union resolved, and the references on the way here."""
    while isinstance(schema, Mapping) and walk.may_enter(schema, depth):
        if "$ref" in schema:
            reference = schema["$ref"]
            if not isinstance(reference, str) or reference in refs:
                return {}, refs
            refs |= {reference}
            schema = _merge_over(walk.follow(reference), schema, "$ref")
        elif "allOf" in schema:
            parts = [
                resolve_schema(part, walk, refs, depth + 1)[0] for part in get_list(schema, "allOf")[:_MAX_ALTERNATIVES]
            ]
            schema = _merge_over(_merge_all_of(parts), schema, "allOf")
        elif union := next((name for name in ("anyOf", "oneOf") if name in schema), None):
            parts = [
                resolve_schema(part, walk, refs, depth + 1)[0] for part in get_list(schema, union)[:_MAX_ALTERNATIVES]
            ]
            schema = _merge_over(_merge_any_of([part for part in parts if part.get("type") != "null"]), schema, union)
        else:
            return schema, refs
    return {}, refs


def _merge_over(below: Json, schema: Mapping[str, Json], done: str) -> dict[str, Json]:
    own = {name: value for name, value in schema.items() if name != done}
    return {**below, **own} if isinstance(below, Mapping) else own


def _merge_all_of(parts: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    merged: dict[str, Json] = {}
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for part in parts:
        merged |= part
        properties |= get_mapping(part, "properties")
        required += get_list(part, "required")
    return merged | {"properties": properties, "required": required} if properties else merged


def _merge_any_of(parts: list[Mapping[str, Json]]) -> dict[str, Json]:
    if len(parts) == 1:
        return dict(parts[0])
    type_ = _join({get_type(part) for part in parts})
    merged: dict[str, Json] = {"type": type_}
    if parts and all(list_values(part) for part in parts):
        merged["enum"] = [value for part in parts for value in list_values(part)]
    if type_ == "object" and all(get_type(part) == "object" for part in parts):
        merged["properties"] = {name: one for part in parts for name, one in get_mapping(part, "properties").items()}
        required = [set(list_texts(part.get("required"))) for part in parts]
        merged["required"] = [name for name in merged["properties"] if all(name in one for one in required)]
    elif type_ == "array":
        merged["items"] = {"anyOf": [get_items(part) for part in parts]}
    return merged


def get_type(schema: Mapping[str, Json]) -> str:
    """Return the one type of six that a plain schema is of; ``object`` where it does not say."""
    #
    match schema.get("type"):
        case str(name) if name in TYPES:
            return name
        case [*names]:
            return _join({name for name in names if isinstance(name, str)})
        case _ if values := list_values(schema):
            return _join({get_value_type(value) for value in values})
        case _:
            return "array" if "items" in schema or "prefixItems" in schema else "object"


def _join(types: set[str]) -> str:
    """Return the one type that stands for several."""
    types = types & TYPES
    if len(types) == 1:
        return next(iter(types))
    if types == {"integer", "number"}:
        return "number"
    return "string" if "string" in types else "object"


def get_value_type(value: Json) -> str:
    """Return the type of six that ``value`` is of."""
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


def list_values(schema: Mapping[str, Json]) -> list[Json]:
    """Return the values a schema is limited to, without null; none where it is not limited."""
    values = [schema["const"]] if "const" in schema else get_list(schema, "enum")
    return [value for value in values if value is not None]


def get_items(schema: Mapping[str, Json]) -> Json:
    """Return the schema of what an array holds; of a tuple, that of any of its places."""
    if isinstance(schema.get("items"), Mapping):
        return schema["items"]
    places = get_list(schema, "prefixItems")
    return {"anyOf": places} if places else {}


def get_mapping(schema: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """Return the object under ``name``, or an empty one."""
    value = schema.get(name)
    return value if isinstance(value, Mapping) else {}
