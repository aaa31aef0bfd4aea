"""JSON Schemas of a document as JSON Schema 2020-12, each converted once and shared by every tool that uses it.

Rules:
- References are kept, never expanded: what a schema refers to stands under ``$defs``. [CV-18, D-17]
- A request has no readOnly property, a response no writeOnly one, and neither is required. [CV-21]
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from toolwire.core.model import Json, Schema
from toolwire.validation import compile_schema

from .references import Unusable, follow, resolve, tokens

Change: TypeAlias = Callable[[Json], Json]

_ONE = frozenset(
    (
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_SEVERAL = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
_LEFT_OUT = frozenset(
    (
        "$anchor",
        "$defs",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$schema",
        "$vocabulary",
        "definitions",
        "discriminator",
        "example",
        "externalDocs",
        "nullable",
        "xml",
    )
)
_TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_MOST_VISITS = 250_000


def rebuild(schema: Schema, change: Change) -> dict[str, Json]:
    """Return a copy of ``schema`` with ``change`` made to each schema directly inside it, and to nothing else."""
    built: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _ONE and isinstance(value, dict | bool):
            built[key] = change(value)
        elif key in _SEVERAL and isinstance(value, list):
            built[key] = [change(one) for one in value]
        elif key in _NAMED and isinstance(value, dict):
            built[key] = {name: change(one) for name, one in value.items()}
        else:
            built[key] = value
    return built


class Schemas:
    """The schemas of one document as they are used in requests or in responses.

    Raises:
        Unusable: from every method, where a schema cannot be read.
    """

    def __init__(self, document: dict[str, Any], *, used_in: Literal["request", "response"]) -> None:
        self._document = document
        self._old = str(document.get("openapi")).startswith("3.0")
        self._hidden = "readOnly" if used_in == "request" else "writeOnly"
        self._names: dict[str, str] = {}
        self._pointers: dict[str, str] = {}
        self._known: dict[str, tuple[Schema, frozenset[str]]] = {}
        self._visits = 0

    def read(self, node: Json) -> tuple[dict[str, Json], set[str]]:
        """Return ``node`` converted, and the names of the definitions it refers to."""
        names: set[str] = set()
        return _checked(self._convert(node, names), names), names

    def definitions(self, names: Iterable[str]) -> dict[str, Schema]:
        """Return the ``$defs`` that ``names`` need, with whatever those refer to, by name."""
        found: dict[str, Schema] = {}
        waiting = deque(sorted(names))
        while waiting:
            name = waiting.popleft()
            if name in found:
                continue
            self._visits += 1
            if self._visits > _MOST_VISITS:
                raise Unusable("the schemas of the document refer to each other too often")
            found[name], further = self._definition(name)
            waiting.extend(sorted(further))
        return dict(sorted(found.items()))

    def hidden(self, node: Json) -> bool:
        """Return whether a property with this schema has no place in this direction."""
        if not isinstance(node, dict):
            return False
        target = follow(self._document, node, "schema")
        branches = target.get("allOf")
        return (
            node.get(self._hidden) is True
            or target.get(self._hidden) is True
            or (isinstance(branches, list) and any(isinstance(one, dict) and self._marked(one) for one in branches))
        )

    def _marked(self, node: dict[str, Json]) -> bool:
        return follow(self._document, node, "schema").get(self._hidden) is True

    def _definition(self, name: str) -> tuple[Schema, frozenset[str]]:
        if name not in self._known:
            names: set[str] = set()
            schema = self._convert(self._target(self._pointers[name]), names)
            self._known[name] = _checked(schema, names), frozenset(names)
        return self._known[name]

    def _convert(self, node: Json, names: set[str]) -> dict[str, Json]:
        if isinstance(node, bool):
            return {} if node else {"not": {}}
        if not isinstance(node, dict):
            raise Unusable("one of its schemas is not an object")
        reference = node.get("$ref")
        if reference is not None:
            name = self._name(reference)
            names.add(name)
            if self._old:
                return {"$ref": f"#/$defs/{name}"}
        kept = {key: value for key, value in node.items() if key not in _LEFT_OUT and not key.startswith("x-")}
        without = self._without_hidden(kept)
        built = rebuild(without, lambda inner: self._convert(inner, names))
        if reference is not None:
            built["$ref"] = f"#/$defs/{self._name(reference)}"
        return _modern(built, node) if self._old else _typed(built)

    def _without_hidden(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Return ``schema`` without the hidden properties that it or an inline branch of its allOf names."""
        gone = {name for one in _layers(schema) for name in one["properties"] if self.hidden(one["properties"][name])}
        return _stripped(schema, gone) if gone else schema

    def _target(self, reference: str) -> Json:
        node = resolve(self._document, reference)
        if isinstance(node, dict) and "$ref" in node:
            follow(self._document, node, "schema")  # a chain of references has to end somewhere
        return node

    def _name(self, reference: Json) -> str:
        if not isinstance(reference, str):
            raise Unusable("one of its references is not a string")
        if reference not in self._names:
            self._target(reference)
            name = plain = _sanitised(reference)
            while name in self._pointers:
                name = f"{plain}_{hashlib.sha256((name + reference).encode('utf-8', 'replace')).hexdigest()[:8]}"
            self._names[reference] = name
            self._pointers[name] = reference
        return self._names[reference]


def _checked(schema: dict[str, Json], names: set[str]) -> dict[str, Json]:
    """Return ``schema`` if it is one; what it refers to is checked apart, once, and stands for anything here."""
    try:
        compile_schema({**schema, "$defs": {name: {} for name in names}})
    except ValueError as error:
        raise Unusable(str(error)) from None
    return schema


def _sanitised(reference: str) -> str:
    steps = tokens(reference)
    short = steps[2:] if steps[:2] == ["components", "schemas"] else steps
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", ".".join(short))[:100] or "document"


def _layers(schema: dict[str, Json]) -> list[dict[str, Json]]:
    """Return ``schema`` and the inline branches of its allOf, those that have properties."""
    branches = schema.get("allOf")
    inner = [one for one in branches if isinstance(one, dict)] if isinstance(branches, list) else []
    return [one for one in (schema, *inner) if isinstance(one.get("properties"), dict)]


def _stripped(schema: dict[str, Json], gone: set[str]) -> dict[str, Json]:
    built = dict(schema)
    if isinstance(built.get("properties"), dict):
        built["properties"] = {name: one for name, one in built["properties"].items() if name not in gone}
    if isinstance(built.get("required"), list):
        built["required"] = [name for name in built["required"] if not isinstance(name, str) or name not in gone]
    if isinstance(built.get("allOf"), list):
        built["allOf"] = [_stripped(one, gone) if isinstance(one, dict) else one for one in built["allOf"]]
    return built


def _typed(schema: dict[str, Json]) -> dict[str, Json]:
    """Return ``schema`` without a ``type`` that JSON Schema does not know, such as ``file``."""
    types = schema.get("type")
    known = [types] if isinstance(types, str) else types
    if isinstance(known, list) and known and all(isinstance(one, str) and one in _TYPES for one in known):
        return schema
    return {key: value for key, value in schema.items() if key != "type"}


def _modern(schema: dict[str, Json], node: dict[str, Json]) -> dict[str, Json]:
    """Return a converted OpenAPI 3.0 schema in the words of 2020-12: nullable and exclusive bounds. [CV-20]"""
    schema = _typed(schema)
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if node.get("nullable") is not True:
        return schema
    if isinstance(schema.get("type"), str):
        enum = schema.get("enum")
        schema["type"] = [schema["type"], "null"]
        if isinstance(enum, list) and None not in enum:
            schema["enum"] = [*enum, None]
        return schema
    return {"anyOf": [schema, {"type": "null"}]} if _SEVERAL & schema.keys() else schema
