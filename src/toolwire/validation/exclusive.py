"""Find out whether the branches of a ``oneOf`` exclude each other, so that no value can be valid for two of them.

Rules:
- The answer is yes only where the schemas prove it: by types, by values, by a property that all branches require, or by
  a closed branch that forbids what another one requires.
- References are followed by the caller, who gives the parts of each branch.
"""
# O-22

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from toolwire.core.model import Json

ListParts: TypeAlias = Callable[[Json], Iterable[Mapping[str, Any] | None]]
"""Returns a schema and all that holds for the same value by references and ``allOf``; None for what is unknown."""

_TYPES: Final = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_MAX_PAIRED: Final = 40
_DEPTH: Final = 2
_OBJECT: Final = frozenset(("object",))


class _Outline(NamedTuple):
    """What is known of the values of one schema; ``values`` are their canonical JSON, None for any."""

    types: frozenset[str]
    values: frozenset[str] | None
    required: frozenset[str]
    properties: Mapping[str, tuple[Json, ...]]
    closed_to: frozenset[str] | None


def are_exclusive(branches: Sequence[Json], list_parts: ListParts) -> bool:
    """Return whether no value can be valid for two of ``branches``."""
    if len(branches) < 2:
        return True
    outlines = [_build_outline(one, list_parts) for one in branches]
    if _have_different_tags(outlines, list_parts):
        return True
    if len(outlines) > _MAX_PAIRED:  # comparing is quadratic
        return False
    return all(
        _exclude(one, other, list_parts, _DEPTH)
        for number, one in enumerate(outlines)
        for other in outlines[number + 1 :]
    )


def list_values(schema: Json, list_parts: ListParts) -> list[Json] | None:
    """Return the values that ``schema`` lists by ``enum`` or ``const``, or None where it lists none."""
    found: list[Json] | None = None
    for part in list_parts(schema):
        listed = None if part is None else _list_own_values(part)
        if listed is None:
            continue
        known = {write_key(one) for one in listed}
        found = listed if found is None else [one for one in found if write_key(one) in known]
    return found


def write_key(value: Json) -> str:
    """Return a text that is the same for equal values of JSON, where ``1`` and ``1.0`` are equal."""
    return json.dumps(_normalize(value), sort_keys=True, default=str)


def _normalize(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normalize(one) for one in value]
    return {name: _normalize(one) for name, one in value.items()} if isinstance(value, dict) else value


def _build_outline(schema: Json, list_parts: ListParts) -> _Outline:
    types, required = _TYPES, set[str]()
    values: frozenset[str] | None = None
    properties: dict[str, tuple[Json, ...]] = {}
    closed_to: frozenset[str] | None = None
    if schema is False:
        return _Outline(frozenset(), frozenset(), frozenset(), {}, None)
    for part in list_parts(schema):
        if part is None:
            continue
        types &= _list_types(part)
        own = _list_own_values(part)
        if own is not None:
            listed = frozenset(map(write_key, own))
            values = listed if values is None else values & listed
        if isinstance(names := part.get("required"), list):
            required |= {name for name in names if isinstance(name, str)}
        inner = part.get("properties")
        inner = inner if isinstance(inner, Mapping) else {}
        for name, one in inner.items():
            properties[name] = (*properties.get(name, ()), one)
        if part.get("additionalProperties") is False and not part.get("patternProperties"):
            closed_to = frozenset(inner) if closed_to is None else closed_to & frozenset(inner)
    return _Outline(types, values, frozenset(required), properties, closed_to)


def _list_types(part: Mapping[str, Any]) -> frozenset[str]:
    kind = part.get("type")
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else None
    if kinds is None:
        return _TYPES
    found = {one for one in kinds if isinstance(one, str)}
    if not found <= _TYPES:
        return _TYPES  # no type of JSON Schema: nothing is known
    found |= {"integer"} if "number" in found else set()
    return frozenset(found | {"null"} if part.get("nullable") is True else found)


def _list_own_values(part: Mapping[str, Any]) -> list[Json] | None:
    if "const" in part:
        return [part["const"]]
    listed = part.get("enum")
    if not isinstance(listed, list) or not listed:
        return None
    return [*listed, None] if part.get("nullable") is True else listed


def _exclude(one: _Outline, other: _Outline, list_parts: ListParts, depth: int) -> bool:
    types = one.types & other.types
    if not types or (one.values is not None and other.values is not None and not one.values & other.values):
        return True
    if types != _OBJECT:
        return False
    for first, second in ((one, other), (other, one)):
        if first.closed_to is not None and not second.required <= first.closed_to:
            return True
    if not depth:
        return False
    return any(
        _exclude(
            _outline_all(one.properties[name], list_parts),
            _outline_all(other.properties[name], list_parts),
            list_parts,
            depth - 1,
        )
        for name in one.required & other.required & one.properties.keys() & other.properties.keys()
    )


def _outline_all(schemas: Collection[Json], list_parts: ListParts) -> _Outline:
    return _build_outline({"allOf": list(schemas)} if len(schemas) > 1 else next(iter(schemas)), list_parts)


def _have_different_tags(outlines: Sequence[_Outline], list_parts: ListParts) -> bool:
    """Return whether a property that every branch requires has different values in each; linear in the branches."""
    common = frozenset.intersection(*(frozenset(one.required & one.properties.keys()) for one in outlines))
    for name in sorted(common)[:_MAX_PAIRED]:
        seen: set[str] = set()
        for one in outlines:
            values = _outline_all(one.properties[name], list_parts).values
            if one.types != _OBJECT or values is None or not seen.isdisjoint(values):
                break
            seen |= values
        else:
            return True
    return False
