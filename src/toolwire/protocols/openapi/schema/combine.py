"""Simplify combined schemas without changing their meaning: merge branches of allOf."""

from __future__ import annotations

from toolwire.core.model import Json

_MERGEABLE = frozenset(("description", "properties", "required", "title", "type"))
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
