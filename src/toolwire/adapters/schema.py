"""Convert a tool's input schema for a provider's API, and the model's arguments back for the tool.

Rules:
- No limit is lost silently: what the provider's schema does not state is in a description, and the call is still
  checked against it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from toolwire.core.model import Json, Schema

from .dialects import DIALECTS, KEY, Provider
from .schema_texts import rename_keys
from .schema_writer import write_schema

__all__ = ["Provider", "ToolSchema", "build_tool_schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """The input schema of one tool for a provider.

    - ``schema``: the schema to declare.
    - ``original_names``: the tool's own name of each key that had to be renamed.
    - ``source``: the tool's own input schema.
    """

    schema: Schema
    original_names: Mapping[str, str]
    source: Schema = field(repr=False)

    def read_arguments(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return the model's arguments by the tool's own names."""
        named: dict[str, Json] = rename_keys(dict(arguments), self.original_names)
        return named

    def write_arguments(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return the tool's ``arguments`` by the declared names."""
        declared = {original: name for name, original in self.original_names.items()}
        named: dict[str, Json] = rename_keys(dict(arguments), declared)
        return named


def build_tool_schema(schema: Schema, provider: Provider) -> ToolSchema:
    """Return ``schema``, the schema of an object, as ``provider`` accepts it."""
    # XL-090
    names = _choose_legal_keys(schema)
    written = write_schema(schema, DIALECTS[provider], names)
    return ToolSchema(schema=written, original_names={key: name for name, key in names.items()}, source=schema)


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
