"""Schemas made to fit a size: what is told at length goes first, then what a call is least likely to need. [CV-25]"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from toolwire.core.model import Json
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document.descriptions import shorten_text

from .keywords import NAMED, ONE, SEVERAL, rebuild
from .relaxation import CUT, DEFINED, EXACT, WIDER, Looseness, rebuild_relaxed


class Sizes(NamedTuple):
    """How large a schema may be, in bytes: to be told at length, to be told at all, and with what says what is cut."""

    telling: int = 8_000
    most: int = 31_000
    largest: int = 32_000


STUB: dict[str, Json] = {"description": "Cut short."}
"""What stands for a definition that there is no room for."""

_BRIEF_CHARACTERS = 280
_REACHES = (8.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5)
_TOLD = frozenset(("description", "examples", "title"))
_KEPT = frozenset(("description", "title", "type"))
_LONG_ENUM = 50

_OPTIONAL = 1.0
_REQUIRED = 0.5
_USED = 0.25
_BRANCH = 0.125
_UNLIKELY = 4.0
_UNLIKELY_WORDS = ("read-only", "read only", "readonly", "populated by the", "deprecated", "internal housekeeping")


def iterate_inner(schema: dict[str, Json], used: Collection[str]) -> Iterator[tuple[str, str, Json, float]]:
    """Yield each schema directly inside ``schema``: its word, its name, itself, and how far from a call's needs it is.

    A property that must be given is nearer than one that may be left out, one that is in ``used``, as in an example,
    nearer still, and one that a server fills in is far away.
    """
    required = frozenset(schema.get("required", ()))
    for key, value in schema.items():
        if key in ONE:
            yield key, "", value, _BRANCH
        elif key in SEVERAL and isinstance(value, list):
            for number, one in enumerate(value):
                yield key, str(number), one, 0.0 if key == "allOf" else _BRANCH
        elif key in NAMED and isinstance(value, dict):
            for name, one in value.items():
                near = _USED if name in used else _REQUIRED if name in required else _OPTIONAL
                observed = name == "status" and "spec" in value  # beside what is wished for, as in Kubernetes
                yield key, name, one, near + (_UNLIKELY if observed or _is_unlikely(one) else 0.0)


def _is_unlikely(schema: Json) -> bool:
    if not isinstance(schema, dict):
        return False
    said = schema.get("description")
    if schema.get("deprecated") is True or schema.get("readOnly") is True:
        return True
    return isinstance(said, str) and any(words in said.lower() for words in _UNLIKELY_WORDS)


def rank_definitions(schema: dict[str, Json], used: Collection[str]) -> dict[str, float]:
    """Return the names of the definitions that ``schema`` itself refers to, and how far away each is."""
    found: dict[str, float] = {}
    waiting: list[tuple[Json, float]] = [(schema, 0.0)]
    while waiting:
        one, distance = waiting.pop()
        if not isinstance(one, dict):
            continue
        if "$ref" in one:
            name = one["$ref"].removeprefix(DEFINED)
            found[name] = min(distance, found.get(name, distance))
        waiting.extend((inner, distance + step) for _, _, inner, step in iterate_inner(one, used))
    return found


def cut_schema(schema: dict[str, Json], limit: int, used: Collection[str]) -> tuple[dict[str, Json], Looseness]:
    """Return ``schema`` in at most ``limit`` bytes if cutting can do that, and how loose it is then.

    What is least likely to be needed is cut first; the last resort has no words either.
    """
    level = EXACT
    for reach in _REACHES:
        schema, now = _cut_schema(schema, reach, used)
        level = max(level, now)
        if len(jsontext.write(schema)) <= limit:
            return schema, level
    schema, now = remove_texts(schema)
    return schema, max(level, now)


def shorten_descriptions(schema: dict[str, Json]) -> dict[str, Json]:
    """Return ``schema`` with what matters most of each description; a property that must be given is told whole."""
    built = rebuild(schema, lambda inner: shorten_descriptions(inner) if isinstance(inner, dict) else inner)
    if isinstance(schema.get("description"), str):
        built["description"] = shorten_text(schema["description"], _BRIEF_CHARACTERS)
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(properties, dict):
        for name in required:
            one = properties.get(name)
            if isinstance(one, dict) and "description" in one:
                built["properties"][name]["description"] = one["description"]
    return built


def open_references(schema: dict[str, Json], names: Collection[str]) -> dict[str, Json]:
    """Return ``schema`` with anything in place of its references to the definitions ``names``."""

    def relax(one: dict[str, Json], *_: str) -> tuple[dict[str, Json], Looseness]:
        if "$ref" in one and one["$ref"].removeprefix(DEFINED) in names:
            return rebuild_relaxed({key: value for key, value in one.items() if key != "$ref"}, relax, CUT)
        return rebuild_relaxed(one, relax)

    return relax(schema)[0]


def remove_texts(schema: dict[str, Json], *_: str) -> tuple[dict[str, Json], Looseness]:
    """Return ``schema`` with nothing but what is checked, and without long lists of values."""
    long = isinstance(schema.get("enum"), list) and len(schema["enum"]) > _LONG_ENUM
    kept = {key: value for key, value in schema.items() if key not in _TOLD and not (long and key == "enum")}
    return rebuild_relaxed(kept, remove_texts, WIDER if long else EXACT)


def _cut_schema(schema: dict[str, Json], reach: float, used: Collection[str]) -> tuple[dict[str, Json], Looseness]:
    if reach < 0:
        kept = {key: value for key, value in schema.items() if key in _KEPT}
        return kept, EXACT if len(kept) == len(schema) else CUT
    left = {(key, name): reach - step for key, name, _, step in iterate_inner(schema, used)}
    return rebuild_relaxed(schema, lambda inner, key, name: _cut_schema(inner, left[key, name], used))
