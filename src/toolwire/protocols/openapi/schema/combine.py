"""Simplify combined schemas without changing their meaning: merge allOf branches, describe discriminators."""

from __future__ import annotations

from typing import Any

from toolwire.core.json_pointer import parse_fragment
from toolwire.core.model import Json
from toolwire.framing.text_cleaning import clean
from toolwire.protocols.openapi.document.references import References

_MERGEABLE = frozenset(("description", "properties", "required", "title", "type"))
_MOST_VALUES = 8
_LIMITS_TEXT = frozenset(("allOf", "anyOf", "const", "enum", "oneOf", "pattern"))
_CLOSING_KEYWORDS = frozenset(("additionalProperties", "unevaluatedItems", "unevaluatedProperties"))
_LINKED_KEYWORDS = (("if", "then", "else"), ("contains", "maxContains", "minContains"), ("items", "prefixItems"))
"""Keywords that depend on each other: together in one schema they mean something else than in two schemas."""


def join_branches(schema: dict[str, Json]) -> dict[str, Json]:
    """Merge branches of allOf into ``schema`` if the meaning stays the same.

    A single branch is merged if no keyword has two values; of several, plain objects that agree on each property are.
    """
    # CV-19
    branches = schema.get("allOf")
    if not isinstance(branches, list):
        return schema
    outer = {key: value for key, value in schema.items() if key != "allOf"}
    if len(branches) == 1:
        (only,) = branches
        # The outer texts are nearer to the place of use, so they replace those of the branch.
        words = {key: value for key, value in only.items() if key not in ("description", "title") or key not in outer}
        if all(outer.get(key, value) == value for key, value in words.items()) and not _depends_on_neighbours(
            outer, only
        ):
            return {**words, **outer}
        return schema
    left: list[Json] = []
    for branch in branches:
        merged = None if _depends_on_neighbours(outer, branch) else _merge(outer, branch)
        if merged is None:
            left.append(branch)
        else:
            outer = merged
    return {**outer, "allOf": left} if left else outer


def mark_branches(schema: dict[str, Json], node: dict[str, Any], references: References) -> dict[str, Json]:
    """Add the value of the discriminator to the description of each branch of oneOf and anyOf.

    A discriminator never changes what is valid (OpenAPI 3.0.4, 3.1.1, 3.2), so it is only described, and only for a
    branch that accepts the value and does not limit it itself.
    """
    # CV-19
    discriminator = node.get("discriminator")
    name = discriminator.get("propertyName") if isinstance(discriminator, dict) else None
    if not isinstance(discriminator, dict) or not isinstance(name, str):
        return schema
    mapping = discriminator.get("mapping")
    values = _list_mapped_values(mapping)
    for key in ("oneOf", "anyOf"):
        branches, originals = schema.get(key), node.get(key)
        if not isinstance(branches, list) or not isinstance(originals, list) or len(branches) != len(originals):
            continue
        pairs = zip(branches, originals, strict=True)
        schema = {**schema, key: [_mark_branch(one, source, name, values, references) for one, source in pairs]}
    return schema


def _mark_branch(branch: Json, source: Json, name: str, values: dict[str, list[str]], references: References) -> Json:
    reference = source.get("$ref") if isinstance(source, dict) else None
    if not isinstance(reference, str) or not isinstance(branch, dict):
        return branch
    pointed = _get_pointer(reference)
    wanted = values.get(pointed) or [parse_fragment(reference)[-1] if "/" in reference else reference]
    for part in references.iterate_parts(source, ("allOf",), beside=True):
        own = part.get("properties") if part is not None else None
        # The branch says itself which values it has: repeating them only costs tokens.
        if isinstance(own, dict) and name in own and not _is_any_text(references.follow_or_empty(own[name])):
            return branch
    said = " or ".join(f"`{clean(one).text}`" for one in wanted[:_MOST_VALUES])
    text = f"`{clean(name).text}`: {said}."
    return {**branch, "description": f"{text} {branch['description']}" if "description" in branch else text}


def _is_any_text(schema: dict[str, Any]) -> bool:
    """Return whether a property accepts any string, so that its schema does not show the discriminator's value."""
    return schema.get("type", "string") in ("string", ["string"]) and not _LIMITS_TEXT & schema.keys()


def _list_mapped_values(mapping: Json) -> dict[str, list[str]]:
    """Return the discriminator values for each schema in a mapping, by pointer."""
    found: dict[str, list[str]] = {}
    for value, target in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(target, str):
            found.setdefault(_get_pointer(target), []).append(value)
    return found


def _get_pointer(target: str) -> str:
    """Return the pointer of a schema; a mapping may give its name instead."""
    return target if set("#/") & set(target) else f"#/components/schemas/{target}"


def _depends_on_neighbours(outer: dict[str, Json], branch: dict[str, Json]) -> bool:
    """Return whether a keyword in one of two schemas depends on its siblings, so that they cannot be merged."""
    for words in _LINKED_KEYWORDS:
        pairs = [(outer.get(word), branch.get(word)) for word in words]
        both = any(one is not None for one, _ in pairs) and any(one is not None for _, one in pairs)
        if both and any(one != other for one, other in pairs):
            return True
    return bool(_CLOSING_KEYWORDS & (outer.keys() | branch.keys()) and outer.keys() - {"description", "title"})


def _merge(outer: dict[str, Json], branch: dict[str, Json]) -> dict[str, Json] | None:
    """Return both as one schema, or None if its meaning could differ."""
    if not _MERGEABLE.issuperset(branch) or branch.get("type", "object") != "object":
        return None
    if outer.get("type", "object") != "object":
        return None
    # Where both define a property, only an allOf can say that both hold.
    properties, own = outer.get("properties", {}), branch.get("properties", {})
    if any(properties.get(name, one) != one for name, one in own.items()):
        return None
    merged = {**{key: value for key, value in branch.items() if key in ("description", "title")}, **outer}
    if "type" in branch:
        merged["type"] = "object"
    if own:
        merged["properties"] = {**properties, **own}
    required = list(dict.fromkeys([*outer.get("required", []), *branch.get("required", [])]))
    return {**merged, "required": required} if required else merged
