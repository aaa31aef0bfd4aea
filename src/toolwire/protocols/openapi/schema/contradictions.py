"""Schemas that no value fits, as documents have them by mistake: found, so that more is accepted than nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

from toolwire.core.model import Json
from toolwire.protocols.openapi.document.references import References

_COMBINED = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
_ANNOTATIONS = frozenset(("default", "deprecated", "description", "example", "examples", "externalDocs", "title"))
_MOST_BRANCHES = 50

_IS = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value == int(value),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}


def find_forbidden_required(
    references: References, node: dict[str, Json], hidden: Set[str], *, beside: bool
) -> Set[str]:
    """Return every name that the parts of ``node`` use, where one part requires a name that another does not allow.

    Parts are put together by references and allOf; of anyOf and oneOf it is so where it is so of each branch. The
    result is empty where some object fits. ``hidden`` are names that are not required here.
    """
    if (len(node) == 1 and "$ref" in node) or not _COMBINED & node.keys():
        return frozenset()
    base = _list_parts(references, node, beside=beside)
    if not any(map(_is_closed, base)):
        return frozenset()
    found = _list_names(base) if _excludes_required(references, base, hidden) else set[str]()
    left = _MOST_BRANCHES
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
    """Return whether a part of ``node`` does not allow one of ``names``."""
    return any(
        not names <= _list_properties(one) for one in _list_parts(references, node, beside=beside) if _is_closed(one)
    )


def has_no_fitting_choice(schema: dict[str, Json]) -> bool:
    """Return whether ``schema`` has an enum, and no member of it is of the type."""
    kind, choices = schema.get("type"), schema.get("enum")
    if kind is None or not isinstance(choices, list):
        return False
    kinds = kind if isinstance(kind, list) else [kind]
    return not any(_IS[one](value) for one in kinds for value in choices)


def has_no_type_in_common(references: References, node: dict[str, Json], *, beside: bool) -> bool:
    """Return whether the parts of ``node`` are of types that exclude each other."""
    return not _have_type_in_common(_list_parts(references, node, beside=beside))


def _have_type_in_common(parts: Iterable[dict[str, Any]]) -> bool:
    left = set(_IS) - {"integer"}
    for one in parts:
        kind = one.get("type")
        if kind is not None:
            left &= {
                "number" if name == "integer" else name
                for name in _iterate_texts(kind if isinstance(kind, list) else [kind])
            }
    return bool(left)


def has_equal_branches(references: References, branches: Sequence[Json]) -> bool:
    """Return whether two of ``branches`` say the same of a value, so that none fits just one of both."""
    seen: list[dict[str, Json]] = []
    for one in branches[:_MOST_BRANCHES]:
        said = {key: value for key, value in references.follow_or_empty(one).items() if key not in _ANNOTATIONS}
        said = {key: value for key, value in said.items() if not key.startswith("x-")}
        if said in seen:
            return True
        seen.append(said)
    return False


def _list_parts(references: References, node: Json, *, beside: bool) -> list[dict[str, Any]]:
    return [one for one in references.iterate_parts(node, ("allOf",), beside=beside) if one is not None]


def _excludes_required(references: References, parts: Sequence[dict[str, Any]], hidden: Set[str]) -> bool:
    required = {name for one in parts for name in _iterate_texts(one.get("required"))} - hidden
    return any(
        _excludes(references, one, name, parts)
        for one in parts
        if _is_closed(one)
        for name in required - _list_properties(one)
    )


def _excludes(references: References, part: dict[str, Any], name: str, parts: Sequence[dict[str, Any]]) -> bool:
    """Return whether the closed ``part`` does not allow ``name`` as another of ``parts`` defines it."""
    more = part["additionalProperties"]
    if more is False:
        return True
    defined = [one["properties"][name] for one in parts if name in _list_properties(one)]
    return not _have_type_in_common([references.follow_or_empty(one) for one in (more, *defined)])


def _is_closed(part: dict[str, Any]) -> bool:
    """Return whether ``part`` says what other properties there may be, by no pattern."""
    more = part.get("additionalProperties")
    return (more is False or isinstance(more, dict)) and not part.get("patternProperties")


def _list_properties(part: dict[str, Any]) -> Set[str]:
    own = part.get("properties")
    return own.keys() if isinstance(own, dict) else frozenset()


def _list_names(parts: Sequence[dict[str, Any]]) -> set[str]:
    return {name for one in parts for name in (*_list_properties(one), *_iterate_texts(one.get("required")))}


def _iterate_texts(value: Json) -> Iterator[str]:
    return (one for one in value if isinstance(one, str)) if isinstance(value, list) else iter(())
