"""Convert a tool's input schema for a provider's API, and the model's arguments back for the tool.

Rules:
- No limit is lost silently: what the provider's schema does not state is in a description and in ``losses``, and
  the call is still checked against it.
- Strict is used only where every valid call can be written strictly. Else the plain dialect is used, and ``losses``
  say why.
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
from .schema_walk import NullCache, accepts_null, iterate_branches

__all__ = ["Provider", "SchemaLoss", "ToolSchema", "build_tool_schema"]

_MAX_PROPERTIES: Final = 5_000
_MAX_LEVELS: Final = 10
_MAX_VALUES: Final = 1_000
_MAX_CHARACTERS: Final = 120_000
_MAX_COMPARED: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """The input schema of one tool for a provider.

    - ``schema``: the schema to declare; ``is_strict``: whether it may be declared strict.
    - ``losses``: the limits that it does not state.
    - ``original_names``: the tool's own name of each key that had to be renamed.
    - ``source``: the tool's own input schema.
    """

    schema: Schema
    is_strict: bool
    losses: tuple[SchemaLoss, ...]
    original_names: Mapping[str, str]
    source: Schema = field(repr=False)

    def read_arguments(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return the model's arguments by the tool's own names, without the nulls that mean "not given" in strict."""
        data = _read_value(self, dict(arguments), [self.source])
        return data if isinstance(data, dict) else {}


def build_tool_schema(schema: Schema, provider: Provider) -> ToolSchema:
    """Return ``schema``, the schema of an object, as ``provider`` accepts it."""
    # XL-090
    dialect = DIALECTS[provider]
    names = _choose_legal_keys(schema)
    written = schema_writer.write_schema(schema, dialect, names)
    narrowing = [loss for loss in written.losses if loss.narrows]
    if dialect.strict:
        narrowing += _check_strict_size(written.schema) + _find_ambiguous_nulls(schema)
    if narrowing and dialect.fallback is not None:
        plain = schema_writer.write_schema(schema, DIALECTS[dialect.fallback], names)
        losses = (*plain.losses, *dict.fromkeys(narrowing))
        return _build(schema, plain.schema, losses, names, DIALECTS[dialect.fallback])
    return _build(schema, written.schema, written.losses, names, dialect)


def _build(
    canonical: Schema, written: Schema, losses: tuple[SchemaLoss, ...], names: Mapping[str, str], dialect: SchemaDialect
) -> ToolSchema:
    theirs = {wire: name for name, wire in names.items()}
    return ToolSchema(schema=written, is_strict=dialect.strict, losses=losses, original_names=theirs, source=canonical)


def _choose_legal_keys(schema: Schema) -> dict[str, str]:
    """Return a key that every provider accepts for each property without one, different from all other keys."""
    keys = _find_keys(schema)
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


def _find_keys(schema: Json) -> set[str]:
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


def _read_value(schema: ToolSchema, value: Json, nodes: Iterable[Json]) -> Json:
    if not isinstance(value, dict | list):
        return value
    branches = list(iterate_branches(schema.source, nodes))
    if isinstance(value, list):
        items = [node["items"] for node in branches if isinstance(node.get("items"), Mapping)]
        return [_read_value(schema, one, items) for one in value]
    arguments: dict[str, Json] = {}
    for key, member in value.items():
        name = schema.original_names.get(key, key)
        inner = _find_property_schemas(branches, name)
        if member is None and schema.is_strict and _means_absent(schema.source, branches, name, inner):
            continue
        arguments[name] = _read_value(schema, member, inner)
    return arguments


def _find_property_schemas(branches: Iterable[Schema], name: str) -> list[Json]:
    found: list[Json] = []
    for node in branches:
        properties = node.get("properties")
        if isinstance(properties, Mapping) and name in properties:
            found.append(properties[name])
        elif isinstance(rest := node.get("additionalProperties"), Mapping):
            found.append(rest)
    return found


def _means_absent(root: Schema, branches: Iterable[Schema], name: str, inner: list[Json]) -> bool:
    """Return whether a null under ``name`` means "not given": null is no valid value there, or it is the default."""
    if any(name in node["required"] for node in branches if isinstance(node.get("required"), list)):
        return False
    by_default = any(isinstance(one, Mapping) and one.get("default", True) is None for one in inner)
    return bool(inner) and (by_default or not any(accepts_null(root, one) for one in inner))


def _find_ambiguous_nulls(root: Schema) -> list[SchemaLoss]:
    """Return a loss for each property that may be null in one branch and absent in another."""
    losses: list[SchemaLoss] = []
    known: NullCache = {}
    room = _MAX_COMPARED
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
        branches = list(iterate_branches(root, [node]))
        named = [one["properties"] for one in branches if isinstance(one.get("properties"), Mapping)]
        room -= len(branches) * (1 + sum(map(len, named)))  # each name is looked for in each schema
        if room < 0:
            return [*losses, SchemaLoss("", "anyOf: too many branches to compare them", narrows=True)]
        for name in {name for properties in named for name in properties}:
            inner = [properties[name] for properties in named if name in properties]
            if len({accepts_null(root, one, known) for one in inner}) > 1 or _is_sometimes_required(branches, name):
                losses.append(SchemaLoss("", f"null: told from leaving {name} out in another choice", narrows=True))
    return losses


def _is_sometimes_required(branches: Iterable[Schema], name: str) -> bool:
    requirements = [
        name in (node.get("required") or ())
        for node in branches
        if isinstance(node.get("properties"), Mapping) and name in node["properties"]
    ]
    bare = (node.get("required") for node in branches if not isinstance(node.get("properties"), Mapping))
    requirements += [True for required in bare if isinstance(required, list) and name in required]
    return len(set(requirements)) > 1


def _check_strict_size(written: Schema) -> list[SchemaLoss]:
    """Return a loss if a strict schema is larger than a provider allows."""
    properties = values = characters = max_depth = 0
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
        max_depth = max(max_depth, level)
        properties += len(named)
        values += len(listed or ())
        characters += sum(map(len, named)) + sum(len(str(one)) for one in listed or ())
        waiting.extend((one, level) for one in node.values())
    over = (
        properties > _MAX_PROPERTIES or max_depth > _MAX_LEVELS or values > _MAX_VALUES or characters > _MAX_CHARACTERS
    )
    text = f"size: {properties} properties, {max_depth} levels, {values} values, {characters} characters"
    return [SchemaLoss("", text, narrows=True)] if over else []
