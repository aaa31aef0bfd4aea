"""Combined schemas, said more simply where that says the same: branches of an allOf, and what tells branches apart."""

from __future__ import annotations

from typing import Any

from toolwire.core.json_pointer import parse_fragment
from toolwire.core.model import Json
from toolwire.framing.text_cleaning import clean
from toolwire.protocols.openapi.document.references import References

_MERGED = frozenset(("description", "properties", "required", "title", "type"))
_MOST_VALUES = 8
_CHOSEN = frozenset(("allOf", "anyOf", "const", "enum", "oneOf", "pattern"))
_OPEN_ONLY = frozenset(("additionalProperties", "unevaluatedItems", "unevaluatedProperties"))
_TOGETHER = (("if", "then", "else"), ("contains", "maxContains", "minContains"), ("items", "prefixItems"))
"""Words that say one thing together, and another each in a schema of its own."""


def join_branches(schema: dict[str, Json]) -> dict[str, Json]:
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
    """Return ``schema`` with each branch that a discriminator has a value for saying so in its description. [CV-19]

    A discriminator never changes what is valid (OpenAPI 3.0.4, 3.1.1, 3.2). So it is only told, and only of a branch
    that accepts the value and does not say it itself.
    """
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
        if isinstance(own, dict) and name in own and not _is_any_text(references.follow_or_empty(own[name])):
            return branch
    said = " or ".join(f"`{clean(one).text}`" for one in wanted[:_MOST_VALUES])
    text = f"`{clean(name).text}`: {said}."
    return {**branch, "description": f"{text} {branch['description']}" if "description" in branch else text}


def _is_any_text(schema: dict[str, Any]) -> bool:
    """Return whether a property may be any text: it neither tells its values itself nor refuses those of a mapping."""
    return schema.get("type", "string") in ("string", ["string"]) and not _CHOSEN & schema.keys()


def _list_mapped_values(mapping: Json) -> dict[str, list[str]]:
    """Return the names of each schema in a mapping."""
    found: dict[str, list[str]] = {}
    for value, target in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(target, str):
            found.setdefault(_get_pointer(target), []).append(value)
    return found


def _get_pointer(target: str) -> str:
    """Return the pointer of a schema that is named, or pointed at."""
    return target if set("#/") & set(target) else f"#/components/schemas/{target}"


def _depends_on_neighbours(outer: dict[str, Json], branch: dict[str, Json]) -> bool:
    """Return whether a word of one of two schemas depends on its neighbours: it must keep them and get no others."""
    for words in _TOGETHER:
        pairs = [(outer.get(word), branch.get(word)) for word in words]
        both = any(one is not None for one, _ in pairs) and any(one is not None for _, one in pairs)
        if both and any(one != other for one, other in pairs):
            return True
    return bool(_OPEN_ONLY & (outer.keys() | branch.keys()) and outer.keys() - {"description", "title"})


def _merge(outer: dict[str, Json], branch: dict[str, Json]) -> dict[str, Json] | None:
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
