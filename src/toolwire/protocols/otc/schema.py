"""Write a JSON Schema as this protocol wants it: without references, with a description of each parameter.

Rules:
- Every ``$ref`` is replaced by what it means, and no definitions are left.
- A schema within itself is cut down to its type, and so is all beyond 60 levels or ``MAX_SCHEMAS`` schemas: the result
  is for reading, the exact schema still checks each call.
- A small schema whose references double at each step is written out a few times, not thousands of times: a list of many
  such tools is not much larger than the document that it comes from.
"""
# OTC-009, A-01

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Json, Schema
from toolwire.core.subschemas import change_subschemas

MAX_SCHEMAS = 5_000
MAX_LEVELS = 60

_SCHEMAS_OF_ANY = 200
_REPEATS = 4
"""A schema is written as so many schemas at most: ``_SCHEMAS_OF_ANY``, and ``_REPEATS`` for each that it has itself."""

_ANNOTATIONS = frozenset({"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"})


def inline_references(schema: Schema) -> dict[str, Json]:
    """Return ``schema`` with each reference replaced by what it refers to."""
    return _Inliner(schema).inline(schema, 0, frozenset())


def describe_schema(schema: Schema) -> dict[str, Json]:
    """Return ``schema`` inlined, with a description on every parameter."""
    # OTC-010, OTC-011
    plain = inline_references(schema)
    properties = plain.get("properties")
    if isinstance(properties, dict):
        plain["properties"] = {name: _describe(name, value) for name, value in properties.items()}
    return plain


def _describe(name: str, value: Json) -> dict[str, Json]:
    schema: dict[str, Json] = value if isinstance(value, dict) else {} if value is True else {"not": {}}
    if isinstance(text := schema.get("description"), str) and text:
        return schema
    title = schema.get("title")
    return {**schema, "description": title if isinstance(title, str) and title else f"The argument {name}."}


class _Inliner:
    """One schema being inlined: where references lead, and how many more schemas may be written."""

    __slots__ = ("_left", "_root")

    def __init__(self, root: Schema) -> None:
        self._root = root
        # D-17: a page of references that double at each step is 5,000 schemas for each of a thousand tools.
        self._left = min(_SCHEMAS_OF_ANY + _REPEATS * _count_objects(root, MAX_SCHEMAS // _REPEATS), MAX_SCHEMAS)

    def inline(self, schema: Schema, level: int, within: frozenset[str]) -> dict[str, Json]:
        """Return ``schema`` inlined, ``level`` levels down, ``within`` the references being replaced."""
        self._left -= 1
        if self._left < 0 or level > MAX_LEVELS:
            return _cut(schema)
        members = {key: value for key, value in schema.items() if not key.startswith("$") and key != "definitions"}
        plain = change_subschemas(members, lambda inner, *_: self._any(inner, level + 1, within))
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return plain
        meant = self._resolve(reference)
        if reference in within:
            return _join(_cut(meant), plain)
        return _join(self.inline(meant, level + 1, within | {reference}), plain)

    def _any(self, value: Any, level: int, within: frozenset[str]) -> Json:
        return self.inline(value, level, within) if isinstance(value, Mapping) else value

    def _resolve(self, reference: str) -> Schema:
        found = resolve_reference(self._root, reference)
        return found if isinstance(found, Mapping) else {}


def _count_objects(data: Json, most: int) -> int:
    """Return how many objects ``data`` has, at most ``most``."""
    count = 0
    waiting = [data]
    while waiting and count < most:
        value = waiting.pop()
        if isinstance(value, Mapping):
            count += 1
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return count


def _cut(schema: Schema) -> dict[str, Json]:
    return {key: schema[key] for key in ("type", "description") if key in schema}


def _join(meant: dict[str, Json], beside: dict[str, Json]) -> dict[str, Json]:
    """What stands beside a reference holds as well; only annotations take the place of those it refers to."""
    if any(key in meant and key not in _ANNOTATIONS for key in beside):
        every = beside.get("allOf")
        return {**beside, "allOf": [*(every if isinstance(every, list) else ()), meant]}
    return {**meant, **beside}
