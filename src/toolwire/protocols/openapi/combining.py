"""Combined schemas, said more simply where that says the same: branches of an allOf, and what tells branches apart."""

from __future__ import annotations

from typing import Any

from toolwire.core.model import Json

from .references import tokens

_MERGED = frozenset(("description", "properties", "required", "title", "type"))
_OPEN_ONLY = frozenset(("additionalProperties", "unevaluatedProperties"))


def joined(schema: dict[str, Json]) -> dict[str, Json]:
    """Return ``schema`` with those branches of its allOf in it that can stand there and mean the same. [CV-19]

    An only branch does where no word says two things; of several, plain objects that agree on every property.
    """
    branches = schema.get("allOf")
    if not isinstance(branches, list):
        return schema
    outer = {key: value for key, value in schema.items() if key != "allOf"}
    if len(branches) == 1:
        (only,) = branches
        words = {key: value for key, value in only.items() if key not in ("description", "title") or key not in outer}
        if all(outer.get(key, value) == value for key, value in words.items()) and not _closed(outer, only):
            return {**words, **outer}
        return schema
    left: list[Json] = []
    for branch in branches:
        merged = None if _closed(outer, branch) else _merged(outer, branch)
        if merged is None:
            left.append(branch)
        else:
            outer = merged
    return {**outer, "allOf": left} if left else outer


def told_apart(schema: dict[str, Json], node: dict[str, Any]) -> dict[str, Json]:
    """Return ``schema`` with the property of its discriminator as a constant in each branch that has a name. [CV-19]

    The names are those of the mapping, and for branches it does not mention those of their schemas.
    """
    discriminator = node.get("discriminator")
    if not isinstance(discriminator, dict):
        return schema
    name = discriminator.get("propertyName")
    if not isinstance(name, str):
        return schema
    values = _values(discriminator.get("mapping"))
    default = _pointed(discriminator.get("defaultMapping"))
    for key in ("oneOf", "anyOf"):
        branches, originals = schema.get(key), node.get(key)
        if isinstance(branches, list) and isinstance(originals, list):
            pairs = zip(branches, originals, strict=True)
            schema = {**schema, key: [_named(one, source, name, values, default) for one, source in pairs]}
    return schema


def _named(branch: Json, source: Json, name: str, values: dict[str, list[str]], default: str) -> Json:
    reference = source.get("$ref") if isinstance(source, dict) else None
    if not isinstance(reference, str) or "properties" in branch or "required" in branch:
        return branch
    pointed = _pointed(reference)
    known = values.get(pointed) or [tokens(reference)[-1] if "/" in reference else reference]
    tag: dict[str, Json] = {"const": known[0]} if len(known) == 1 else {"enum": known}
    if pointed == default:
        return branch  # what has no value, or one that nobody knows, is also of this branch
    return {**branch, "properties": {name: tag}, "required": [name]}


def _values(mapping: Json) -> dict[str, list[str]]:
    """Return the names of each schema in a mapping."""
    found: dict[str, list[str]] = {}
    for value, target in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(target, str):
            found.setdefault(_pointed(target), []).append(value)
    return found


def _pointed(target: Json) -> str:
    """Return the pointer of a schema that is named, or pointed at."""
    if not isinstance(target, str):
        return ""
    return target if set("#/") & set(target) else f"#/components/schemas/{target}"


def _closed(outer: dict[str, Json], branch: dict[str, Json]) -> bool:
    """Return whether one of two schemas says something of all properties but its own: its own must stay its own."""
    return bool(_OPEN_ONLY & (outer.keys() | branch.keys()) and outer.keys() - {"description", "title"})


def _merged(outer: dict[str, Json], branch: dict[str, Json]) -> dict[str, Json] | None:
    """Return both as one, or None where that could mean something else."""
    if not _MERGED.issuperset(branch) or branch.get("type", "object") != "object":
        return None
    if outer.get("type", "object") != "object":
        return None
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
