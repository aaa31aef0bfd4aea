"""Walk a JSON Schema: resolve references, list the types of a value, merge ``allOf``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Json, Schema

ANY: Final[Mapping[str, Json]] = {}
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_OF_OBJECTS: Final = frozenset(
    (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
        "dependentRequired",
        "dependentSchemas",
    )
)
_OF_ARRAYS: Final = frozenset(
    ("items", "prefixItems", "contains", "minItems", "maxItems", "minContains", "maxContains", "uniqueItems")
)
_OF_STRINGS: Final = frozenset(("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType", "format"))
_OF_NUMBERS: Final = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "object": _OF_OBJECTS,
    "array": _OF_ARRAYS,
    "string": _OF_STRINGS,
    "number": _OF_NUMBERS | {"format"},
    "integer": _OF_NUMBERS | {"format"},
}
_OF_SOME_TYPE: Final = _OF_OBJECTS | _OF_ARRAYS | _OF_STRINGS | _OF_NUMBERS
_LOWER: Final = frozenset(("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum"))
_HIGHER: Final = frozenset(("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum"))
_WORDS: Final = frozenset(("title", "description", "default", "examples", "deprecated", "$comment"))
_MAX_BRANCHES: Final = 1_000
_MAX_REFERENCES: Final = 100


def resolve(root: Schema, reference: Json) -> Schema | None:
    """Return the schema that ``reference`` points to inside ``root``, or None where there is none."""
    # D-18: a reference to another document is never followed.
    node = resolve_reference(root, reference)
    if isinstance(node, bool):
        return ANY if node else {"not": {}}
    return node if isinstance(node, Mapping) else None


def list_types(node: Schema) -> tuple[str, ...]:
    """Return the types that ``node`` states, or that its keywords and values imply; () where any type is valid."""
    declared = node.get("type")
    if isinstance(declared, str):
        return (declared,)
    if isinstance(declared, list):
        return tuple(dict.fromkeys(one for one in declared if one in _TYPES))
    if "const" in node:
        return (get_type(node["const"]),)
    if isinstance(node.get("enum"), list):
        return tuple(dict.fromkeys(map(get_type, node["enum"])))
    if "properties" in node:
        return ("object",)
    return ("array",) if "items" in node or "prefixItems" in node else ()


def get_type(data: Json) -> str:
    """Return the JSON Schema type of ``data``."""
    match data:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def is_type(data: Json, kind: str) -> bool:
    """Return whether ``data`` is of the JSON Schema type ``kind``."""
    own = get_type(data)
    return own == kind or (kind == "number" and own == "integer")


def split_by_type(node: Schema) -> list[dict[str, Json]]:
    """Return one schema for each type of ``node``, with the keywords that apply to that type."""
    kinds = list_types(node)
    shared = {key: value for key, value in node.items() if key not in _OF_SOME_TYPE and key not in ("type", "enum")}
    parts: list[dict[str, Json]] = []
    for kind in kinds:
        own = {key: node[key] for key in _OWN.get(kind, frozenset()) if key in node}
        part = {"type": kind, **shared, **own}
        if isinstance(node.get("enum"), list):
            part["enum"] = [one for one in node["enum"] if is_type(one, kind)]
            if not part["enum"]:
                continue
        parts.append(part)
    return parts


class MergedSchema(NamedTuple):
    """One schema in place of several, the keywords that could not be merged, and the references that were replaced."""

    schema: dict[str, Json]
    unmerged: list[tuple[str, Json]]
    references: tuple[str, ...]


def merge_all_of(root: Schema, node: Schema) -> MergedSchema:
    """Return ``node`` with its reference and its ``allOf`` merged into it."""
    whole = _MergeTarget()
    unsaid: list[tuple[str, Json]] = []
    references: list[str] = []
    waiting: list[Json] = [node]
    seen: set[int] = set()
    while waiting and len(seen) < _MAX_BRANCHES and len(references) < _MAX_REFERENCES:
        part = waiting.pop()
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        waiting += reversed(_list_schemas(part.get("allOf")))
        if isinstance(reference := part.get("$ref"), str):
            references.append(reference)
        waiting.append(resolve(root, reference))
        unsaid += [
            (key, value)
            for key, value in part.items()
            if key not in ("allOf", "$ref", "$defs") and not whole.join(key, value)
        ]
    return MergedSchema(whole.schema, unsaid, tuple(references))


def find_references(data: Json) -> set[str]:
    """Return every reference anywhere in ``data``."""
    found: set[str] = set()
    waiting = [data]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            found.add(node["$ref"])
        waiting += _list_containers(node)
    return found


def find_recursive_references(root: Schema) -> frozenset[str]:
    """Return the references of ``root`` that are part of a cycle, or lie between two cycles."""
    leads = _build_reference_graph(root)
    for _ in range(2):  # first remove what leads to no cycle, then what no cycle leads to
        _remove_ends(leads)
        leads = _reverse(leads)
    return frozenset(one for one in leads if isinstance(one, str))


def _build_reference_graph(root: Schema) -> dict[int | str, set[int | str]]:
    """Return the targets of each object, array and reference of ``root``. Objects and arrays are known by their id.

    Each part is visited once, however many references point to it.
    """
    leads: dict[int | str, set[int | str]] = {}
    waiting: list[Json] = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in leads:
            continue
        inner = _list_containers(node)
        found = leads[id(node)] = set(map(id, inner))
        waiting += inner
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if isinstance(reference, str):
            found.add(reference)
            if reference not in leads:
                target = resolve_reference(root, reference)
                leads[reference] = {id(target)} if isinstance(target, Mapping) else set()
                waiting += [target] if isinstance(target, Mapping) else []
    return leads


def _list_containers(node: Json) -> list[Json]:
    """Return the objects and arrays directly in ``node``, except its definitions."""
    if isinstance(node, Mapping):
        return [value for key, value in node.items() if key != "$defs" and isinstance(value, Mapping | list)]
    return [one for one in node if isinstance(one, Mapping | list)] if isinstance(node, list) else []


def _reverse(leads: Mapping[int | str, set[int | str]]) -> dict[int | str, set[int | str]]:
    back: dict[int | str, set[int | str]] = {one: set() for one in leads}
    for one, others in leads.items():
        for other in others:
            back[other].add(one)
    return back


def _remove_ends(leads: dict[int | str, set[int | str]]) -> None:
    """Remove the nodes without a target, until every node that is left has one."""
    ends = [one for one, others in leads.items() if not others]
    comes_from = _reverse(leads)
    while ends:
        end = ends.pop()
        del leads[end]
        for one in comes_from[end]:
            leads[one].discard(end)
            if not leads[one]:
                ends.append(one)


class _MergeTarget:
    """A schema that others are merged into, each in time linear in its own size."""

    __slots__ = ("_listed", "_named", "_required", "schema")

    def __init__(self) -> None:
        self.schema: dict[str, Json] = {}
        self._named: dict[str, dict[str, Json]] = {}  # by keyword: copies, which may be added to
        self._listed: dict[tuple[str, str], list[Json]] = {}  # by keyword and name, likewise
        self._required: dict[str, None] = {}

    def join(self, key: str, value: Json) -> bool:
        """Add a keyword; return whether the merged schema now states it."""
        if key not in self.schema:
            self.schema[key] = value
            return True
        old = self.schema[key]
        if key == "required" and isinstance(old, list) and isinstance(value, list):
            self._join_required(old, value)
            return True
        if key in ("properties", "$defs") and isinstance(old, Mapping) and isinstance(value, Mapping):
            self._join_named(key, old, value)
            return True
        if key in _WORDS or _is_same(old, value):
            return True
        if key in _LOWER | _HIGHER and isinstance(old, int | float) and isinstance(value, int | float):
            self.schema[key] = min(old, value) if key in _LOWER else max(old, value)
            return True
        if key == "additionalProperties" and (old is True or value is True):
            self.schema[key] = value if old is True else old
            return True
        return False

    def _join_required(self, old: list[Json], value: list[Json]) -> None:
        if not self._required:
            self._required = dict.fromkeys(one for one in old if isinstance(one, str))
            self.schema["required"] = list(self._required)
        new = [one for one in value if isinstance(one, str) and one not in self._required]
        self._required.update(dict.fromkeys(new))
        self.schema["required"] += dict.fromkeys(new)

    def _join_named(self, key: str, old: Mapping[str, Json], value: Mapping[str, Json]) -> None:
        """Add the schemas of ``value`` to those of ``old``. Two of one name become an ``allOf``.

        A third is added to the same ``allOf``, not one level deeper.
        """
        named = self._named.get(key)
        if named is None:
            named = self.schema[key] = self._named[key] = dict(old)
        for name, one in value.items():
            before = named.get(name, one)
            if before is one or before == one:
                named[name] = before
            elif (key, name) in self._listed:
                self._listed[key, name].append(one)
            else:
                listed = before["allOf"] if isinstance(before, Mapping) and set(before) == {"allOf"} else [before]
                self._listed[key, name] = [*listed, one]
                named[name] = {"allOf": self._listed[key, name]}


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two values are the same JSON. Texts are compared only where Python finds values equal."""
    return one is other or (one == other and _write_text(one) == _write_text(other))


def _write_text(data: Json) -> str:
    return json.dumps(data, sort_keys=True, default=str)


def _list_schemas(data: Json) -> list[Json]:
    return [one for one in data if isinstance(one, Mapping | bool)] if isinstance(data, list) else []
