"""Relax the keywords around a loosened schema, so that the complete schema never accepts less.

A cut schema accepts more than before. Inside a keyword that forbids or counts, this has the opposite effect: ``not``
refuses more, and a value may be valid for two branches of a ``oneOf``. Such keywords are replaced by others that
accept at least what the document accepts.
"""
# CV-25

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TypeAlias

from toolwire.core.model import Json
from toolwire.core.subschemas import change_subschemas, iterate_schemas


class Looseness(IntEnum):
    """How a converted schema compares with the one in the document."""

    EXACT = 0
    WIDER = 1
    """It accepts more values, and defines the same properties and items."""
    CUT = 2
    """It accepts more values, and may lack properties and items that the document defines."""


EXACT, WIDER, CUT = Looseness

Relax: TypeAlias = Callable[[dict[str, Json], str, str], tuple[dict[str, Json], Looseness]]
"""Relaxes a subschema; the other arguments are its keyword, and its name or index there (``""`` if single)."""

DEFINED = "#/$defs/"

_IN_PLACE = ("$ref", "allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then")
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_GUARDS = frozenset(("if", "maxContains", "not", "oneOf", *_UNEVALUATED))
_CONDITION = ("if", "then", "else")


def relax_words(schema: dict[str, Json], inside: Mapping[str, Looseness]) -> dict[str, Json]:
    """Return ``schema`` without keywords that would refuse too much; ``inside`` is the looseness under each keyword."""
    if not _GUARDS & schema.keys():
        return schema
    gone: set[str] = set()
    alternatives: list[list[Json]] = []
    # A wider branch may match a value together with another one, and then the oneOf refuses it: an anyOf does not.
    if inside.get("oneOf"):
        gone.add("oneOf")
        alternatives.append(schema["oneOf"])
    # What is under "not" accepts more now, so "not" refuses more: it has to go.
    if inside.get("not"):
        gone.add("not")
    # It is no longer known which of the two applies, so either may.
    if inside.get("if"):
        gone.update(_CONDITION)
        if "then" in schema and "else" in schema:
            alternatives.append([schema["then"], schema["else"]])
    # More items may count now than the document's own schema counts.
    if inside.get("contains"):
        gone.add("maxContains")
    # A property that was cut is "unevaluated" now, and would be refused.
    if any(inside.get(word) == CUT for word in _IN_PLACE):
        gone.update(_UNEVALUATED)
    members = {key: value for key, value in schema.items() if key not in gone}
    for branches in alternatives:
        if "anyOf" in members:
            members["allOf"] = [*members.get("allOf", ()), {"anyOf": branches}]
        else:
            members["anyOf"] = branches
    return members


def open_words(schema: dict[str, Json]) -> dict[str, Json]:
    """Return ``schema`` without limits on undefined properties: some definitions were left out."""
    return {key: value for key, value in schema.items() if key not in ("additionalProperties", "unevaluatedProperties")}


def rebuild_relaxed(
    schema: dict[str, Json], relax: Relax, looseness: Looseness = EXACT
) -> tuple[dict[str, Json], Looseness]:
    """Return a copy of ``schema`` with each schema directly inside it relaxed, and the looseness of the result.

    ``looseness`` is the looseness of the keywords of ``schema`` itself.
    """
    inside: dict[str, Looseness] = {}

    def change(one: Json, key: str, name: str) -> Json:
        if not isinstance(one, dict):
            return one
        changed, level = relax(one, key, name)
        inside[key] = max(level, inside.get(key, EXACT))
        return changed

    built = change_subschemas(schema, change)
    # The looseness of the keywords themselves acts like that of a reference: both describe the same value.
    return relax_words(built, {**inside, "$ref": looseness}), max(looseness, *inside.values(), EXACT)


def relax_references(schema: dict[str, Json], known: Mapping[str, Looseness]) -> dict[str, Json]:
    """Return ``schema`` relaxed around its references; ``known`` is the looseness of each definition."""

    def relax(one: dict[str, Json], *_: str) -> tuple[dict[str, Json], Looseness]:
        reference = one.get("$ref")
        level = known.get(reference.removeprefix(DEFINED), EXACT) if isinstance(reference, str) else EXACT
        return rebuild_relaxed(one, relax, level)

    return relax(schema)[0]


def is_guarded(schema: Json) -> bool:
    """Return whether ``schema`` contains a keyword that forbids or counts what a subschema accepts."""
    return any(_GUARDS & one.keys() for one in iterate_schemas(schema))


def spread(direct: Mapping[str, Looseness], refers: Mapping[str, tuple[str, ...]]) -> dict[str, Looseness]:
    """Return the looseness of each definition, including all that it ``refers`` to, from its own (``direct``)."""
    behind: dict[str, list[str]] = {}
    for name, targets in refers.items():
        for target in targets:
            behind.setdefault(target, []).append(name)
    found: dict[str, Looseness] = {}
    for level in (CUT, WIDER):
        waiting = [name for name, one in direct.items() if one == level]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = level
                waiting.extend(behind.get(name, ()))
    return found
