"""What each provider takes in the declaration of a tool, from the table of provider subsets, apart from our writer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
META = {"description", "title"}
OPENAI_STRICT = META | {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "enum", "exclusiveMaximum", "exclusiveMinimum",
    "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern", "properties",
    "required", "type",
}  # fmt: skip
ANTHROPIC_STRICT = META | {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "enum", "format", "items", "minItems", "properties",
    "required", "type",
}  # fmt: skip
GEMINI = META | {
    "anyOf", "default", "enum", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
    "minLength", "minProperties", "minimum", "nullable", "pattern", "properties", "propertyOrdering", "required",
    "type",
}  # fmt: skip
GEMINI_JSON = META | {
    "$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "enum", "format", "items", "maxItems",
    "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties", "required", "type",
}  # fmt: skip
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def faults(schema: Any, provider: str, *, strict: bool) -> list[str]:
    """Return everything in ``schema`` that ``provider`` would refuse."""
    check = {
        "openai": _openai_strict if strict else _openai,
        "anthropic": _anthropic_strict if strict else _plain,
        "gemini": _gemini,
        "gemini-json": _gemini_json,
    }[provider]
    found = [f"root: {text}" for text in _root(schema)]
    for pointer, node in _schemas(schema):
        found.extend(f"{pointer or 'root'}: {text}" for text in [*_everywhere(node, schema), *check(node)])
    return found + (_rounds(schema) if provider == "anthropic" and strict else [])


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


def _strict(node: dict[str, Any], formats: set[str]) -> Iterator[str]:
    if "$ref" in node and len(node) > 1:
        yield "has something beside its reference"
    if not node.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
        yield "is of no type"
    kinds = node.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        if node.get("additionalProperties") is not False:
            yield "is open"
        if set(node.get("required", ())) != node.get("properties", {}).keys():
            yield "leaves a property out of required"
    if (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)) and not node.get("items"):
        yield "has items of any type"
    if node.get("format", "date") not in formats:
        yield f"has the format {node['format']!r}"


def _openai_strict(node: dict[str, Any]) -> Iterator[str]:
    yield from _only(node, OPENAI_STRICT)
    yield from _strict(node, FORMATS)
    if re.search(r"\(\?(?:[=!]|<[=!])", node.get("pattern", "")):
        yield "looks around in its pattern"


def _anthropic_strict(node: dict[str, Any]) -> Iterator[str]:
    yield from _only(node, ANTHROPIC_STRICT)
    yield from _strict(node, FORMATS | {"uri"})
    if isinstance(node.get("type"), list):
        yield "has a list of types"
    if node.get("minItems", 0) not in (0, 1):
        yield "has minItems above 1"
    if any(isinstance(value, dict | list) for value in node.get("enum", ())):
        yield "has an enum of what is not primitive"


def _gemini(node: dict[str, Any]) -> Iterator[str]:
    yield from _only(node, GEMINI)
    if not isinstance(node.get("type", ""), str) or node.get("type") == "null":
        yield f"has the type {node['type']!r}"
    if not all(isinstance(value, str) for value in node.get("enum", ())):
        yield "has an enum of other things than strings"


def _gemini_json(node: dict[str, Any]) -> Iterator[str]:
    yield from _only(node, GEMINI_JSON)
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


def _rounds(root: dict[str, Any]) -> list[str]:
    leads = {
        f"#/$defs/{name}": {node["$ref"] for _, node in _schemas(inner) if "$ref" in node}
        for name, inner in root.get("$defs", {}).items()
    }
    while ends := [one for one, others in leads.items() if not others & leads.keys()]:
        for one in ends:
            del leads[one]
    return ["a definition holds itself"] if leads else []
