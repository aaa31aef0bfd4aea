"""What each provider takes in the declaration of a tool, from the table of provider subsets, apart from our writer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
META = {"description", "title"}
GEMINI = META | {
    "$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "enum", "format", "items", "maxItems",
    "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties", "required", "type",
}  # fmt: skip


def faults(schema: Any, provider: str) -> list[str]:
    """Return everything in ``schema`` that ``provider`` would refuse."""
    check = {"openai": _openai, "anthropic": _plain, "gemini": _gemini}[provider]
    found = [f"root: {text}" for text in _root(schema)]
    for pointer, node in _schemas(schema):
        found.extend(f"{pointer or 'root'}: {text}" for text in [*_everywhere(node, schema), *check(node)])
    return found


def _root(schema: Any) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "is not an object"
    for key in {"anyOf", "oneOf", "allOf", "not", "enum", "$ref", "if"} & schema.keys():
        yield f"has {key}"


def _everywhere(node: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    for name in node.get("properties", {}):
        if not KEY.fullmatch(name):
            yield f"the key {name!r}"
    reference = node.get("$ref")
    if reference is not None and reference != "#":
        match = re.fullmatch(r"#/\$defs/([^/]+)", reference)
        if match is None or match[1] not in root.get("$defs", {}):
            yield f"the reference {reference!r}"


def _plain(node: dict[str, Any]) -> Iterator[str]:
    for key in {"$id", "$schema", "$dynamicRef", "$anchor"} & node.keys():
        yield f"has {key}"


def _openai(node: dict[str, Any]) -> Iterator[str]:
    yield from _plain(node)
    kind = node.get("type")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in node:
        yield "is an array without items"


def _only(node: dict[str, Any], allowed: set[str]) -> Iterator[str]:
    if not set(node.get("required", ())) <= node.get("properties", {}).keys() and "properties" in node:
        yield "requires what is not a property"
    for key in node.keys() - allowed:
        yield f"has {key}"


def _gemini(node: dict[str, Any]) -> Iterator[str]:
    yield from _only(node, GEMINI)
    if "$ref" in node and len(node) > 1:
        yield "has something beside its reference"
    if not all(isinstance(value, str | int | float) for value in node.get("enum", ())):
        yield "has an enum of other things than strings and numbers"


def _schemas(node: Any, pointer: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(node, dict):
        return
    yield pointer, node
    for key in ("properties", "$defs", "patternProperties", "dependentSchemas"):
        for name, inner in node.get(key, {}).items():
            yield from _schemas(inner, f"{pointer}/{key}/{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, inner in enumerate(node.get(key, ())):
            yield from _schemas(inner, f"{pointer}/{key}/{number}")
    for key in ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"):
        yield from _schemas(node.get(key), f"{pointer}/{key}")
