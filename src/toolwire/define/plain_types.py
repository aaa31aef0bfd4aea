"""Describe types that are nothing but JSON without pydantic, whose import takes a quarter of a second.

**Rules**

- The result is exactly pydantic's. A type for which that is not certain is not plain.
- Only the builtin types count, and ``Any``, ``Literal`` and unions: no ``Annotated``, no class of the author's.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, TypeAlias

from toolwire.core.model import Json

from .native_values import is_plain_json

SchemaMode: TypeAlias = Literal["validation", "serialization"]
"""The direction that a schema describes: JSON data that is read, or JSON data that is written."""

CoreSchema: TypeAlias = Mapping[str, Any]
"""A core schema of pydantic's."""

_ANY: CoreSchema = {"type": "any"}
SIMPLE_TYPES: Sequence[tuple[Any, CoreSchema]] = (
    (str, {"type": "str"}),
    (int, {"type": "int"}),
    (float, {"type": "float"}),
    (bool, {"type": "bool"}),
    (NoneType, {"type": "none"}),
    (None, {"type": "none"}),
    (Any, _ANY),
    (object, _ANY),
    (list, {"type": "list", "items_schema": _ANY}),
    (dict, {"type": "dict", "keys_schema": _ANY, "values_schema": _ANY}),
)
_LITERALS = {str: "string", int: "integer", bool: "boolean", NoneType: "null"}
_KEYS: Sequence[CoreSchema] = ({"type": "str"}, _ANY)
_WITHOUT_NUMBERS = frozenset({"any", "none", "bool", "str", "literal"})
_EXACT = 2**53  # up to here a float holds every whole number


def build_core_schema(annotation: Any) -> CoreSchema | None:
    """Return pydantic's core schema of a plain type, or None for any other type."""
    for simple, core in SIMPLE_TYPES:
        if annotation is simple:  # nothing is known of the annotation yet, so it is not compared or hashed
            return core
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return _build_literal(arguments)
    if origin in (typing.Union, types.UnionType):
        return _build_union(arguments)
    return _build_container(origin, arguments)


def build_json_schema(core: CoreSchema) -> dict[str, Any]:
    """Return the JSON Schema of a plain type, its members in pydantic's order."""
    return _SCHEMAS[core["type"]](core)


def convert_numbers(core: CoreSchema, value: Json, *, reading: bool) -> Json:
    """Return ``value`` with its whole numbers as the plain type ``core`` wants them; the rest stays as it is.

    An integer becomes a float, and a float without a fraction an integer where data is read. Those that a float
    may not hold exactly stay too.
    """
    kind = core["type"]
    if kind == "float" and type(value) is int and abs(value) <= _EXACT:
        return float(value)
    if kind == "int" and reading and type(value) is float and abs(value) <= _EXACT and value.is_integer():
        return int(value)
    if kind == "nullable":
        return convert_numbers(core["schema"], value, reading=reading)
    if kind == "list" and type(value) is list:
        return list(_convert_all_numbers(core["items_schema"], value, reading=reading))
    if kind == "dict" and type(value) is dict:
        items = _convert_all_numbers(core["values_schema"], value.values(), reading=reading)
        return dict(zip(value, items, strict=True))
    return value


def _convert_all_numbers(core: CoreSchema, values: Collection[Any], *, reading: bool) -> Collection[Any]:
    if core["type"] in _WITHOUT_NUMBERS:
        return values
    if core["type"] == "float":  # without a call for each: tables of numbers are long
        return [float(each) if type(each) is int and -_EXACT <= each <= _EXACT else each for each in values]
    if core["type"] == "dict" and core["values_schema"]["type"] == "float" and set(map(type, values)) == {dict}:
        numbers = core["values_schema"]
        return [
            dict(zip(each, _convert_all_numbers(numbers, each.values(), reading=reading), strict=True))
            for each in values
        ]
    return [convert_numbers(core, each, reading=reading) for each in values]


def _build_literal(expected: Sequence[Any]) -> CoreSchema | None:
    return {"type": "literal", "expected": list(expected)} if all(map(_is_plain_member, expected)) else None


def _is_plain_member(value: Any) -> bool:
    if type(value) is int:
        return abs(value) <= _EXACT  # pydantic trips over those of more than 64 bits
    return type(value) in _LITERALS and is_plain_json(value)


def _build_union(choices: Sequence[Any]) -> CoreSchema | None:
    cores = [build_core_schema(choice) for choice in choices if choice is not NoneType]
    if None in cores:
        return None
    core = cores[0] if len(cores) == 1 else {"type": "union", "choices": cores}
    return core if len(cores) == len(choices) else {"type": "nullable", "schema": core}


def _build_container(origin: Any, arguments: Sequence[Any]) -> CoreSchema | None:
    inner = [build_core_schema(argument) for argument in arguments]
    if None in inner:
        return None
    if origin is list and len(inner) == 1:
        return {"type": "list", "items_schema": inner[0]}
    if origin is dict and len(inner) == 2 and inner[0] in _KEYS:
        return {"type": "dict", "keys_schema": inner[0], "values_schema": inner[1]}
    return None


def _build_literal_schema(core: CoreSchema) -> dict[str, Any]:
    expected = core["expected"]
    schema = {"const": expected[0]} if len(expected) == 1 else {"enum": list(expected)}
    kinds = {type(value) for value in expected}
    return schema | ({"type": _LITERALS[kinds.pop()]} if len(kinds) == 1 else {})


def _build_any_of(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    members: list[dict[str, Any]] = []
    for schema in schemas:
        for member in schema.get("anyOf", [schema]):
            if member in members:
                members[members.index(member)] = member  # the later of two that are equal counts: 1 equals True
            else:
                members.append(member)
    return members[0] if len(members) == 1 else {"anyOf": members}


_SCHEMAS: Mapping[str, Callable[[CoreSchema], dict[str, Any]]] = {
    "any": lambda _: {},
    "none": lambda _: {"type": "null"},
    "bool": lambda _: {"type": "boolean"},
    "int": lambda _: {"type": "integer"},
    "float": lambda _: {"type": "number"},
    "str": lambda _: {"type": "string"},
    "literal": _build_literal_schema,
    "list": lambda core: {"items": build_json_schema(core["items_schema"]), "type": "array"},
    "dict": lambda core: {"additionalProperties": build_json_schema(core["values_schema"]) or True, "type": "object"},
    "nullable": lambda core: _build_any_of([build_json_schema(core["schema"]), {"type": "null"}]),
    "union": lambda core: _build_any_of([build_json_schema(choice) for choice in core["choices"]]),
}
