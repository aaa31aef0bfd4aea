"""Cut schemas to a size: first long descriptions, then the parts that a call is least likely to need."""
# CV-25

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from toolwire.core.model import Json
from toolwire.core.subschemas import change_subschemas, list_subschemas
from toolwire.framing import jsontext
from toolwire.protocols.openapi.document.descriptions import shorten_text
from toolwire.validation.schema_keywords import NAMED

from .relaxation import CUT, DEFINED, EXACT, WIDER, Looseness, rebuild_relaxed


class Sizes(NamedTuple):
    """Size limits in bytes: for a schema with full descriptions, for any schema, and with stubs of cut definitions."""

    telling: int = 8_000
    most: int = 31_000
    largest: int = 32_000


STUB: dict[str, Json] = {"description": "Cut short."}
"""The replacement of a definition for which there is no room."""

MAX_VALUES = 250_000
"""A schema with more values than that, without those of its definitions, is not converted."""

_BRIEF_CHARACTERS = 280
_REACHES = (8.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5)
_ANNOTATIONS = frozenset(("description", "examples", "title"))
_STUB_KEYWORDS = frozenset(("description", "title", "type"))
_LONG_ENUM = 50
_HUGE = 8

_OPTIONAL = 1.0
_REQUIRED = 0.5
_USED = 0.25
_BRANCH = 0.125
_UNLIKELY = 4.0
_UNLIKELY_WORDS = ("read-only", "read only", "readonly", "populated by the", "deprecated", "internal housekeeping")


def has_too_many_values(node: Json) -> bool:
    """Return whether ``node`` holds more than ``MAX_VALUES`` values. It looks at no more than these."""
    waiting, count = [node], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, (dict, list)):
            count += len(one)
            # Before they are copied: a single schema may have a million properties.
            if count > MAX_VALUES:
                return True
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return False


def iterate_inner(schema: dict[str, Json], used: Collection[str]) -> Iterator[tuple[str, str, Json, float]]:
    """Yield each schema directly inside ``schema``: keyword, name, schema, and distance from a call's needs.

    A required property is nearer than an optional one, a property in ``used`` (of an example) is nearer still, and a
    property that the server fills in is far away.
    """
    required = frozenset(schema.get("required", ()))
    for key, name, one in list_subschemas(schema):
        if key not in NAMED:
            # A part of an allOf is always needed; a branch may be the one that the caller does not take.
            yield key, name, one, 0.0 if key == "allOf" else _BRANCH
            continue
        near = _USED if name in used else _REQUIRED if name in required else _OPTIONAL
        observed = name == "status" and "spec" in schema[key]  # Kubernetes: the server writes status, the caller spec
        yield key, name, one, near + (_UNLIKELY if observed or _is_unlikely(one) else 0.0)


def _is_unlikely(schema: Json) -> bool:
    if not isinstance(schema, dict):
        return False
    description = schema.get("description")
    if schema.get("deprecated") is True or schema.get("readOnly") is True:
        return True
    return isinstance(description, str) and any(words in description.lower() for words in _UNLIKELY_WORDS)


def rank_definitions(schema: dict[str, Json], used: Collection[str]) -> dict[str, float]:
    """Return the names of the definitions that ``schema`` itself refers to, with the distance of each."""
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
    """Return ``schema`` cut to ``limit`` bytes if possible, and its looseness.

    The parts least likely to be needed are cut first; as a last step all descriptions are removed.
    """
    level = EXACT
    if len(jsontext.write(schema)) > _HUGE * limit:
        schema, level = _cut_huge_schema(schema, limit, used)
        if len(jsontext.write(schema)) <= limit:
            return schema, level
    else:
        for reach in _REACHES:
            schema, now = _cut_schema(schema, reach, used)
            level = max(level, now)
            if len(jsontext.write(schema)) <= limit:
                return schema, level
    schema, now = remove_texts(schema)
    return schema, max(level, now)


def _cut_huge_schema(schema: dict[str, Json], limit: int, used: Collection[str]) -> tuple[dict[str, Json], Looseness]:
    """Return ``schema`` cut as little as fits, or as far as possible.

    It begins with the smallest reach, so that the work is in proportion to what is left and not to ``schema``.
    """
    # D-17
    found = _cut_schema(schema, _REACHES[-1], used)
    # From the smallest reach upwards, until the next one is too large.
    for reach in _REACHES[-2::-1]:
        further = _cut_schema(schema, reach, used) if len(jsontext.write(found[0])) <= limit else None
        if further is None or len(jsontext.write(further[0])) > limit:
            break
        found = further
    return found


def shorten_descriptions(schema: dict[str, Json]) -> dict[str, Json]:
    """Return ``schema`` with each description shortened, except those of required properties."""
    built = change_subschemas(
        schema, lambda inner, *_: shorten_descriptions(inner) if isinstance(inner, dict) else inner
    )
    if isinstance(schema.get("description"), str):
        built["description"] = shorten_text(schema["description"], _BRIEF_CHARACTERS)
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(properties, dict):
        for name in required:
            one = properties.get(name)
            if isinstance(one, dict) and "description" in one:
                # Without a required property the call fails, so what it means is said in full.
                built["properties"][name]["description"] = one["description"]
    return built


def open_references(schema: dict[str, Json], names: Collection[str]) -> dict[str, Json]:
    """Return ``schema`` without references to the definitions ``names``: any value is valid there."""

    def relax(one: dict[str, Json], *_: str) -> tuple[dict[str, Json], Looseness]:
        if "$ref" in one and one["$ref"].removeprefix(DEFINED) in names:
            return rebuild_relaxed({key: value for key, value in one.items() if key != "$ref"}, relax, CUT)
        return rebuild_relaxed(one, relax)

    return relax(schema)[0]


def remove_texts(schema: dict[str, Json], *_: str) -> tuple[dict[str, Json], Looseness]:
    """Return ``schema`` without descriptions, titles and examples, and without long enums."""
    long = isinstance(schema.get("enum"), list) and len(schema["enum"]) > _LONG_ENUM
    members = {key: value for key, value in schema.items() if key not in _ANNOTATIONS and not (long and key == "enum")}
    return rebuild_relaxed(members, remove_texts, WIDER if long else EXACT)


def _cut_schema(schema: dict[str, Json], reach: float, used: Collection[str]) -> tuple[dict[str, Json], Looseness]:
    if reach < 0:
        # Beyond the reach only the type and the words remain.
        members = {key: value for key, value in schema.items() if key in _STUB_KEYWORDS}
        return members, EXACT if len(members) == len(schema) else CUT
    left = {(key, name): reach - step for key, name, _, step in iterate_inner(schema, used)}
    return rebuild_relaxed(schema, lambda inner, key, name: _cut_schema(inner, left[key, name], used))
