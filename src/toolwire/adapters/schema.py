"""A tool's input schema as a provider's API takes it, and the arguments a model gave as the tool takes them.

Rules:
- Nothing is lost silently: what the provider's schema does not say is in its description and in ``losses``, and is
  still enforced where the call is made.
- Strict is used only where every legal call can be said strictly; else the plain shape is, and ``losses`` say why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from toolwire.core.model import Json, Schema

from . import schema_writer
from .conversion_context import SchemaLoss
from .dialects import DIALECTS, KEY, Provider, SchemaDialect
from .schema_texts import renamed
from .schema_walk import Nulls, branches, resolve, takes_null, type_of, types

__all__ = ["Provider", "SchemaLoss", "ToolSchema", "shape"]

_MOST_PROPERTIES: Final = 5_000
_MOST_LEVELS: Final = 10
_MOST_VALUES: Final = 1_000
_MOST_LETTERS: Final = 120_000
_MOST_COMPARED: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """The input schema of one tool in a provider's words: ``schema`` to declare, ``read`` for what the model says.

    ``strict`` says whether it may be declared strict. ``names`` are the keys that had to be renamed, ours by theirs.
    """

    schema: Schema
    strict: bool
    losses: tuple[SchemaLoss, ...]
    names: Mapping[str, str]
    canonical: Schema = field(repr=False)

    def read(self, said: Mapping[str, Json]) -> dict[str, Json]:
        """Return the arguments that a model means: the tool's own names, and left out what strict says by null."""
        data = _read(self, dict(said), [self.canonical])
        return data if isinstance(data, dict) else {}

    def write(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return ``arguments`` as a model would say them."""
        ours = {wire: name for name, wire in self.names.items()}
        data = renamed(dict(arguments), ours)
        return dict(_filled(data, self.schema, self.schema) if self.strict else data)


def shape(schema: Schema, provider: Provider) -> ToolSchema:
    """Return ``schema``, which is of an object, in the shape that ``provider`` takes. [XL-090]"""
    dialect = DIALECTS[provider]
    names = _names(schema)
    written = schema_writer.write(schema, dialect, names)
    narrowing = [loss for loss in written.losses if loss.narrows]
    if dialect.strict:
        narrowing += _too_large(written.schema) + _mixed(schema)
    if narrowing and dialect.otherwise is not None:
        plain = schema_writer.write(schema, DIALECTS[dialect.otherwise], names)
        losses = (*plain.losses, *dict.fromkeys(narrowing))
        return _shape(schema, plain.schema, losses, names, DIALECTS[dialect.otherwise])
    return _shape(schema, written.schema, written.losses, names, dialect)


def _shape(
    canonical: Schema, written: Schema, losses: tuple[SchemaLoss, ...], names: Mapping[str, str], dialect: SchemaDialect
) -> ToolSchema:
    theirs = {wire: name for name, wire in names.items()}
    return ToolSchema(schema=written, strict=dialect.strict, losses=losses, names=theirs, canonical=canonical)


def _names(schema: Schema) -> dict[str, str]:
    """Return a legal key for each property that has none; it is the key of no other property."""
    keys = _keys(schema)
    taken = {key for key in keys if KEY.fullmatch(key)}
    names: dict[str, str] = {}
    for key in sorted(keys - taken):
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", key).strip("_")
        plain = plain if plain[:1].isalpha() else f"p_{plain}".rstrip("_")
        digest = sha256(key.encode("utf-8", "replace")).hexdigest()
        choice, length = plain, 8
        while choice in taken or not KEY.fullmatch(choice):
            choice = f"{plain[:40]}_{digest[:length]}"
            length += 1
        names[key] = choice
        taken.add(choice)
    return names


def _keys(schema: Json) -> set[str]:
    found: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            inner = node.get("properties")
            found.update(key for key in inner if isinstance(key, str)) if isinstance(inner, Mapping) else None
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found


def _read(shape: ToolSchema, said: Json, nodes: Iterable[Json]) -> Json:
    if not isinstance(said, dict | list):
        return said
    here = list(branches(shape.canonical, nodes))
    if isinstance(said, list):
        items = [node["items"] for node in here if isinstance(node.get("items"), Mapping)]
        return [_read(shape, one, items) for one in said]
    arguments: dict[str, Json] = {}
    for key, value in said.items():
        name = shape.names.get(key, key)
        inner = _inner(here, name)
        if value is None and shape.strict and _means_absent(shape.canonical, here, name, inner):
            continue
        arguments[name] = _read(shape, value, inner)
    return arguments


def _inner(here: Iterable[Schema], name: str) -> list[Json]:
    found: list[Json] = []
    for node in here:
        properties = node.get("properties")
        if isinstance(properties, Mapping) and name in properties:
            found.append(properties[name])
        elif isinstance(rest := node.get("additionalProperties"), Mapping):
            found.append(rest)
    return found


def _means_absent(root: Schema, here: Iterable[Schema], name: str, inner: list[Json]) -> bool:
    """Return whether a null under ``name`` says that it is left out: where null is no value, or the default."""
    if any(name in node["required"] for node in here if isinstance(node.get("required"), list)):
        return False
    by_default = any(isinstance(one, Mapping) and one.get("default", True) is None for one in inner)
    return bool(inner) and (by_default or not any(takes_null(root, one) for one in inner))


def _filled(data: Json, node: Json, root: Schema) -> Json:
    """Return ``data`` with a null for each property of a strict schema that it leaves out."""
    chosen = _chosen(data, node, root)
    if isinstance(data, list):
        return [_filled(one, chosen.get("items"), root) for one in data]
    if not isinstance(data, dict):
        return data
    properties = chosen.get("properties")
    declared: Mapping[str, Json] = properties if isinstance(properties, Mapping) else {}
    filled = {key: _filled(value, declared.get(key), root) for key, value in data.items()}
    return {**dict.fromkeys(declared), **filled}


def _chosen(data: Json, node: Json, root: Schema) -> Schema:
    """Return the schema among the choices of ``node`` that ``data`` fits, by its keys and fixed values."""
    while isinstance(node, Mapping):
        target = resolve(root, node.get("$ref"))
        if target is not None:
            node = target
            continue
        choices = node.get("anyOf")
        if not isinstance(choices, list):
            return node
        node = next((one for one in choices if _fits(data, one, root)), choices[0])
    return {}


def _fits(data: Json, node: Schema, root: Schema) -> bool:
    node = resolve(root, node.get("$ref")) or node
    if isinstance(choices := node.get("anyOf"), list):
        return any(_fits(data, one, root) for one in choices)
    own = type_of(data)
    kinds = types(node)
    if kinds and own not in kinds and not (own == "integer" and "number" in kinds):
        return False
    if isinstance(values := node.get("enum"), list) and data not in values:
        return False
    if not isinstance(data, dict):
        return True
    properties = node.get("properties")
    declared: Mapping[str, Json] = properties if isinstance(properties, Mapping) else {}
    if data.keys() - declared.keys():
        return False
    return all(_fits(data.get(key), one, root) for key, one in declared.items())


def _mixed(root: Schema) -> list[SchemaLoss]:
    """Return a loss for each property that may be null in one choice and may be left out in another."""
    losses: list[SchemaLoss] = []
    known: Nulls = {}
    room = _MOST_COMPARED
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        if not isinstance(node, Mapping):
            continue
        waiting.extend(node.values())
        if not any(isinstance(node.get(key), list) for key in ("anyOf", "oneOf")):
            continue
        here = list(branches(root, [node]))
        named = [one["properties"] for one in here if isinstance(one.get("properties"), Mapping)]
        room -= len(here) * (1 + sum(map(len, named)))  # each name is looked for in each schema
        if room < 0:
            return [*losses, SchemaLoss("", "anyOf: too many choices to compare them", narrows=True)]
        for name in {name for properties in named for name in properties}:
            inner = [properties[name] for properties in named if name in properties]
            if len({takes_null(root, one, known) for one in inner}) > 1 or _sometimes_required(here, name):
                losses.append(SchemaLoss("", f"null: told from leaving {name} out in another choice", narrows=True))
    return losses


def _sometimes_required(here: Iterable[Schema], name: str) -> bool:
    said = [
        name in (node.get("required") or ())
        for node in here
        if isinstance(node.get("properties"), Mapping) and name in node["properties"]
    ]
    bare = (node.get("required") for node in here if not isinstance(node.get("properties"), Mapping))
    said += [True for required in bare if isinstance(required, list) and name in required]
    return len(set(said)) > 1


def _too_large(written: Schema) -> list[SchemaLoss]:
    """Return a loss if a strict schema goes over a provider's limits."""
    properties = values = letters = deepest = 0
    waiting: list[tuple[Any, int]] = [(written, 0)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, list):
            waiting.extend((one, level) for one in node)
        if not isinstance(node, Mapping):
            continue
        inner = node.get("properties")
        named: Mapping[str, Json] = inner if isinstance(inner, Mapping) else {}
        listed = node.get("enum") if isinstance(node.get("enum"), list) else []
        level += bool(named)
        deepest = max(deepest, level)
        properties += len(named)
        values += len(listed or ())
        letters += sum(map(len, named)) + sum(len(str(one)) for one in listed or ())
        waiting.extend((one, level) for one in node.values())
    over = properties > _MOST_PROPERTIES or deepest > _MOST_LEVELS or values > _MOST_VALUES or letters > _MOST_LETTERS
    text = f"size: {properties} properties, {deepest} levels, {values} values, {letters} characters"
    return [SchemaLoss("", text, narrows=True)] if over else []
