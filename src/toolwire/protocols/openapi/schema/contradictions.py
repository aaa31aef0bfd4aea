"""Find schemas that accept no value by a mistake of their author, so that the converter can accept more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from toolwire.core.model import Json
from toolwire.framing.jsontext import list_texts
from toolwire.protocols.openapi.document.references import References

_COMBINED = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
_MAX_BRANCHES = 50

_TYPE_CHECKS = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0,
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}


def is_of_type(value: Json, kind: Json) -> bool:
    """Return whether ``value`` is of the type ``kind`` of JSON Schema; True for a type that there is not."""
    check = _TYPE_CHECKS.get(kind) if isinstance(kind, str) else None
    return check is None or check(value)


def find_forbidden_required(
    references: References, node: dict[str, Json], hidden: Set[str], *, beside: bool
) -> Set[str]:
    """Return all property names in the parts of ``node`` if one part requires a name that another part forbids.

    The parts are combined by references and allOf; for anyOf and oneOf each branch must be contradictory. The result
    is empty if an object can be valid. ``hidden`` names are not required here.
    """
    if (len(node) == 1 and "$ref" in node) or not _COMBINED & node.keys():
        return frozenset()
    base = _list_parts(references, node, beside=beside)
    # Only a closed part can forbid a name; most schemas have none, and nothing more is walked.
    if not any(map(_is_closed, base)):
        return frozenset()
    found = _list_names(base) if _excludes_required(references, base, hidden) else set[str]()
    left = _MAX_BRANCHES
    for one in base:
        for key in ("anyOf", "oneOf"):
            branches = one.get(key)
            if not isinstance(branches, list) or not 0 < len(branches) <= left:
                continue
            left -= len(branches)
            ways = [[*base, *_list_parts(references, branch, beside=beside)] for branch in branches]
            if all(_excludes_required(references, way, hidden) for way in ways):
                found |= {name for way in ways for name in _list_names(way)}
    return found - hidden


def is_closed_to(references: References, node: Json, names: Set[str], *, beside: bool) -> bool:
    """Return whether a part of ``node`` forbids one of ``names``."""
    return any(
        not names <= _list_properties(one) for one in _list_parts(references, node, beside=beside) if _is_closed(one)
    )


def has_no_fitting_choice(schema: dict[str, Json]) -> bool:
    """Return whether ``schema`` has an enum without any value of its type."""
    kind, choices = schema.get("type"), schema.get("enum")
    if kind is None or not isinstance(choices, list):
        return False
    kinds = kind if isinstance(kind, list) else [kind]
    return not any(_TYPE_CHECKS[one](value) for one in kinds for value in choices)


def has_no_type_in_common(references: References, node: dict[str, Json], *, beside: bool) -> bool:
    """Return whether the types of the parts of ``node`` exclude each other."""
    return not _have_type_in_common(_list_parts(references, node, beside=beside))


def _have_type_in_common(parts: Iterable[dict[str, Any]]) -> bool:
    # An integer is a number too, so the two have values in common.
    left = set(_TYPE_CHECKS) - {"integer"}
    for one in parts:
        kind = one.get("type")
        if kind is not None:
            left &= {
                "number" if name == "integer" else name
                for name in list_texts(kind if isinstance(kind, list) else [kind])
            }
    return bool(left)


def _list_parts(references: References, node: Json, *, beside: bool) -> list[dict[str, Any]]:
    return [one for one in references.iterate_parts(node, ("allOf",), beside=beside) if one is not None]


def _excludes_required(references: References, parts: Sequence[dict[str, Any]], hidden: Set[str]) -> bool:
    required = {name for one in parts for name in list_texts(one.get("required"))} - hidden
    return any(
        _excludes_name(references, one, name, parts)
        for one in parts
        if _is_closed(one)
        for name in required - _list_properties(one)
    )


def _excludes_name(references: References, part: dict[str, Any], name: str, parts: Sequence[dict[str, Any]]) -> bool:
    """Return whether the closed ``part`` forbids ``name`` with the type that another of ``parts`` defines."""
    more = part["additionalProperties"]
    if more is False:
        return True
    defined = [one["properties"][name] for one in parts if name in _list_properties(one)]
    return not _have_type_in_common([references.follow_or_empty(one) for one in (more, *defined)])


def _is_closed(part: dict[str, Any]) -> bool:
    """Return whether ``part`` limits other properties, without allowing some by pattern."""
    more = part.get("additionalProperties")
    return (more is False or isinstance(more, dict)) and not part.get("patternProperties")


def _list_properties(part: dict[str, Any]) -> Set[str]:
    own = part.get("properties")
    return own.keys() if isinstance(own, dict) else frozenset()


def _list_names(parts: Sequence[dict[str, Any]]) -> set[str]:
    return {name for one in parts for name in (*_list_properties(one), *list_texts(one.get("required")))}
