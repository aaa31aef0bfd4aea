"""Read a schema as a graph: which schemas apply to the same value, and which to its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from toolwire.core.json_pointer import resolve_pointer
from toolwire.core.model import Json, Schema

from .json_size import MAX_PARTS, TEXT_UNIT
from .regex_size import measure_regex

_MAX_STATES: Final = 2_000_000
_HERE: Final = ("allOf", "anyOf", "oneOf")
_HERE_ONE: Final = ("not", "if", "then", "else")
_CHOICES: Final = frozenset(("anyOf", "oneOf", "not", "if", "contains", "propertyNames"))
_EVERY_PROPERTY: Final = ("propertyNames", "unevaluatedProperties")
_EVERY_ITEM: Final = ("contains", "unevaluatedItems")
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
"""The keywords that stand for a schema elsewhere."""

_META: Final = ("https://json-schema.org/", "http://json-schema.org/")


class CostlySchemaError(ValueError):
    """A schema that no value is checked against: it is too large, or checking would not end."""


@dataclass(slots=True, eq=False)
class SchemaNode:
    """One schema: what it costs by itself, and which schemas it has looked at for the same value or for its parts."""

    weight: int = 1
    text_steps: int = 0
    name_steps: int = 0
    rescans: bool = False
    is_choice: bool = False
    here: list[int] = field(default_factory=list)
    referred: list[int] = field(default_factory=list)  # those of ``here`` that it refers to
    named: dict[str, int] = field(default_factory=dict)
    undeclared: list[int] = field(default_factory=list)
    every_property: list[int] = field(default_factory=list)
    prefix: dict[int, int] = field(default_factory=dict)
    prefix_length: int = 0
    later_items: list[int] = field(default_factory=list)
    every_item: list[int] = field(default_factory=list)

    def list_inner(self) -> Iterator[int]:
        """Yield every schema for a part of the value."""
        yield from self.named.values()
        yield from self.undeclared
        yield from self.every_property
        yield from self.prefix.values()
        yield from self.later_items
        yield from self.every_item


class SchemaSurvey:
    """One walk over all of a schema: its size, whether anything refers, and where identifiers and anchors stand."""

    def __init__(self, schema: Schema) -> None:
        self.weight: int = 0
        self.is_tree: bool = True
        self.has_choices: bool = False
        self.has_dynamic: bool = False
        self.resources: dict[str, Schema] = {"": schema}
        self.anchors: dict[str, list[Schema]] = {}
        self.bases: dict[int, str] = {}
        left, states = MAX_PARTS, _MAX_STATES
        waiting: list[tuple[Any, str]] = [(schema, "")]
        while waiting:
            node, base = waiting.pop()
            left -= 1
            if isinstance(node, list | tuple):
                if len(node) > left:
                    raise CostlySchemaError(f"it has more than {MAX_PARTS:,} parts")
                waiting.extend((one, base) for one in node)
            elif isinstance(node, Mapping):
                base = self._record_object(node, base)
                own = _measure_own(node)
                self.weight += own.units
                states -= own.states
                if states < 0:
                    raise CostlySchemaError("its patterns are too large when their repetitions are expanded")
                if len(node) > left:
                    raise CostlySchemaError(f"it has more than {MAX_PARTS:,} parts")
                waiting.extend((one, base) for one in node.values())

    def _record_object(self, node: Schema, base: str) -> str:
        own = node.get("$id")
        if isinstance(own, str):
            base = urldefrag(_join_url(base, own))[0]
            self.resources.setdefault(base, node)
        if base:
            self.bases[id(node)] = base
        for key in ("$anchor", "$dynamicAnchor"):
            name = node.get(key)
            if isinstance(name, str):
                self.anchors.setdefault(name, []).append(node)
                self.has_dynamic = self.has_dynamic or key == "$dynamicAnchor"
        if self.is_tree and any(key in node for key in (*REFERENCES, "unevaluatedProperties", "unevaluatedItems")):
            self.is_tree = False
        if not self.has_choices and not _CHOICES.isdisjoint(node):
            self.has_choices = True
        return base


@dataclass(slots=True)
class _OwnCost:
    units: int
    states: int
    text_steps: int
    name_steps: int


def _measure_own(node: Schema) -> _OwnCost:
    """Return what ``node`` costs by itself, without the schemas in it."""
    units, states, text_steps, name_steps = 1, 0, 0, 0
    for key in ("enum", "const"):
        if key in node:
            units += _measure_data(node[key])
    for key in ("required", "dependentRequired", "dependencies"):
        if isinstance(listed := node.get(key), list | Mapping):
            units += len(listed) // 8
    if isinstance(pattern := node.get("pattern"), str):
        states, text_steps = measure_regex(pattern)
    if isinstance(patterned := node.get("patternProperties"), Mapping):
        for one in patterned:
            size = measure_regex(str(one))
            states += size.states
            name_steps += size.steps
    return _OwnCost(units + (text_steps + name_steps) * TEXT_UNIT // 32, states, text_steps, name_steps)


def _measure_data(data: Json) -> int:
    """Return what comparing with ``data`` costs: scalars are looked up, objects and arrays compared one by one."""
    listed = data if isinstance(data, list) else [data]
    letters = sum(len(one) for one in listed if isinstance(one, str))
    return letters // TEXT_UNIT + sum(isinstance(one, list | Mapping) for one in listed)


class SchemaGraph:
    """Which schema has which others looked at. The first of ``nodes`` is the whole."""

    def __init__(self, schema: Schema, survey: SchemaSurvey) -> None:
        self.nodes: list[SchemaNode] = []
        self.schemas: list[Schema] = []
        self._survey = survey
        self._numbers: dict[int, int] = {}
        self._waiting: list[tuple[Schema, int]] = []
        self._targets: dict[tuple[str, str], list[int]] = {}
        self._number_schema(schema)
        while self._waiting:
            self._read(*self._waiting.pop())

    def _number_schema(self, node: Any) -> int | None:
        """Return the number of a schema; None for one that costs nothing."""
        if not isinstance(node, Mapping):
            return None
        known = self._numbers.get(id(node))
        if known is None:
            known = self._numbers[id(node)] = len(self.nodes)
            self.nodes.append(SchemaNode())
            self.schemas.append(node)
            self._waiting.append((node, known))
        return known

    def _number_all(self, nodes: Any, *, is_choice: bool = False) -> list[int]:
        listed = nodes if isinstance(nodes, list | tuple) else [nodes]
        numbers = [number for node in listed if (number := self._number_schema(node)) is not None]
        if is_choice:
            for number in numbers:
                self.nodes[number].is_choice = True
        return numbers

    def _read(self, schema: Schema, number: int) -> None:
        node = self.nodes[number]
        own = _measure_own(schema)
        node.weight = own.units - (own.text_steps + own.name_steps) * TEXT_UNIT // 32
        node.text_steps, node.name_steps = own.text_steps, own.name_steps
        node.rescans = "unevaluatedProperties" in schema or "unevaluatedItems" in schema
        self._read_here(schema, node)
        self._read_properties(schema, node)
        self._read_items(schema, node)

    def _read_here(self, schema: Schema, node: SchemaNode) -> None:
        for key in _HERE:
            if isinstance(schema.get(key), list):
                node.here += self._number_all(schema[key], is_choice=key != "allOf")
        for key in _HERE_ONE:
            node.here += self._number_all(schema.get(key), is_choice=True)
        for key in ("dependentSchemas", "dependencies"):
            if isinstance(inner := schema.get(key), Mapping):
                node.here += self._number_all(list(inner.values()))
        for key in REFERENCES:
            if isinstance(reference := schema.get(key), str):
                node.referred += self._find_targets(self._survey.bases.get(id(schema), ""), reference)
        node.here += node.referred

    def _read_properties(self, schema: Schema, node: SchemaNode) -> None:
        if isinstance(inner := schema.get("properties"), Mapping):
            numbers = ((name, self._number_schema(one)) for name, one in inner.items())
            node.named = {name: number for name, number in numbers if number is not None}
        if isinstance(inner := schema.get("patternProperties"), Mapping):
            node.every_property += self._number_all(list(inner.values()))
        node.undeclared += self._number_all(schema.get("additionalProperties"))
        for key in _EVERY_PROPERTY:
            node.every_property += self._number_all(schema.get(key))

    def _read_items(self, schema: Schema, node: SchemaNode) -> None:
        for key in _EVERY_ITEM:
            node.every_item += self._number_all(schema.get(key))
        for key in ("prefixItems", "items"):
            if isinstance(inner := schema.get(key), list):
                numbers = enumerate(self._number_schema(one) for one in inner)
                node.prefix = {place: number for place, number in numbers if number is not None}
                node.prefix_length = len(inner)
        for key in ("items", "additionalItems"):
            if isinstance(inner := schema.get(key), Mapping):
                node.later_items += self._number_all(inner)

    def _find_targets(self, base: str, reference: str) -> list[int]:
        """Return every schema that ``reference`` may mean; none for one that the validator will refuse."""
        known = self._targets.get((base, reference))
        if known is None:
            known = self._targets[base, reference] = self._resolve_reference(base, reference)
        return known

    def _resolve_reference(self, base: str, reference: str) -> list[int]:
        resource, fragment = urldefrag(_join_url(base, reference) if not reference.startswith("#") else reference)
        if reference.startswith("#"):
            resource = base
        root = self._survey.resources.get(resource)
        if root is None:
            if resource.startswith(_META) and self._survey.has_dynamic:
                raise CostlySchemaError("it extends the metaschema and changes what its references mean")
            return []
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._number_all(self._survey.anchors.get(fragment, []))
        node = resolve_pointer(root, fragment)
        return self._number_all(node) if isinstance(node, Mapping) else []


def _join_url(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:  # no address at all; the validator says so
        return reference
