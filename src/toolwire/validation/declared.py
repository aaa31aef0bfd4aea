"""Find the arguments that a tool declares, and refuse any other where its input schema allows no other.

Rules:
- A closed schema (``additionalProperties: false`` or ``unevaluatedProperties: false``) refuses what it does not name.
- Any other schema accepts what it does not name, on every protocol, by the client and by the server.
"""
# I-28

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from toolwire.core.json_pointer import resolve_reference
from toolwire.core.model import Json, Kind, Problem, Schema
from toolwire.core.suggestion import find_nearest

_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_BESIDE: Final = ("if", "then", "else")
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")
_OPENING: Final = ("additionalProperties", "unevaluatedProperties")
_MAX_SCHEMAS: Final = 1_000
_SHOWN_NAMES: Final = 12
_SHOWN_CHARACTERS: Final = 100
_SHOWN_ARGUMENTS: Final = 20


def find_declared_names(schema: Schema) -> frozenset[str] | None:
    """Return the names of the arguments that ``schema``, which is closed, declares; None where it takes any name."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[Json] = [schema]
    closed = False
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        if len(seen) == _MAX_SCHEMAS or _is_open(node):
            return None
        seen.add(id(node))
        closed = closed or (_is_closed(node) and not node.get("patternProperties"))
        found.update(_list_names(node))
        waiting.extend(_list_same_value(node))
        if "$ref" in node:
            target = resolve_reference(schema, node["$ref"])
            if not isinstance(target, Mapping):
                return None
            waiting.append(target)
    return frozenset(found) if closed else None


def explain_undeclared(arguments: Iterable[str], declared: frozenset[str]) -> dict[str, str]:
    """Return what is wrong with each of ``arguments`` that is not ``declared``: what was probably meant instead."""
    names = [name for name in arguments if name not in declared]
    return {name: _suggest_name(name, declared) for name in names[:_SHOWN_ARGUMENTS]}


def refuse_undeclared(tool: str, arguments: Mapping[str, Json], declared: frozenset[str] | None) -> Problem | None:
    """Return the Problem of the arguments that ``tool`` does not take, or None where it takes all of them."""
    if declared is None or arguments.keys() <= declared:
        return None
    found = explain_undeclared(arguments, declared)
    return Problem(
        kind=Kind.INVALID_ARGUMENTS,
        message=" ".join(f"{tool} takes no `{_cut_text(name)}`: {hint}" for name, hint in found.items()),
        parameter_errors={name: f"is not an argument: {hint}" for name, hint in found.items()},
    )


def _suggest_name(name: str, declared: frozenset[str]) -> str:
    known = sorted(declared)
    near = find_nearest(name, known)
    if near:
        return f"did you mean `{_cut_text(near)}`?"
    if not known:
        return "it takes no arguments."
    listed = ", ".join(f"`{_cut_text(one)}`" for one in known[:_SHOWN_NAMES])
    more = len(known) - _SHOWN_NAMES
    return f"it takes {listed} and {more} more." if more > 0 else f"it takes {listed}."


def _is_open(node: Mapping[str, Json]) -> bool:
    """Return whether ``node`` asks for names that it does not list, or refers to where they may be listed."""
    if any(node.get(key, False) is not False for key in _OPENING):
        return True
    return bool(node.get("patternProperties")) or "propertyNames" in node or any(key in node for key in _ELSEWHERE)


def _is_closed(node: Mapping[str, Json]) -> bool:
    return any(node.get(key) is False for key in _OPENING)


def _list_names(node: Mapping[str, Json]) -> Iterable[str]:
    for key in ("properties", "dependentRequired", "dependentSchemas"):
        inner = node.get(key)
        if isinstance(inner, Mapping):
            yield from (name for name in inner if isinstance(name, str))
            yield from (
                name for names in inner.values() if isinstance(names, list | tuple) for name in _select_strings(names)
            )
    yield from _select_strings(node.get("required"))


def _select_strings(names: Json) -> Iterable[str]:
    return (name for name in names if isinstance(name, str)) if isinstance(names, list | tuple) else ()


def _list_same_value(node: Mapping[str, Json]) -> Iterable[Json]:
    """Yield the schemas in ``node`` that speak of the same value."""
    for key in _COMBINED:
        branches = node.get(key)
        yield from branches if isinstance(branches, list | tuple) else ()
    yield from (node[key] for key in _BESIDE if key in node)
    dependent = node.get("dependentSchemas")
    yield from dependent.values() if isinstance(dependent, Mapping) else ()


def _cut_text(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
