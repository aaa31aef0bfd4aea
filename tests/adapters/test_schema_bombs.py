"""Schemas that grow at each step are told to a model in bounded work, whatever the provider."""

from collections.abc import Callable
from cProfile import Profile
from typing import Any

import pytest

from toolwire.adapters.schema import Provider, build_tool_schema

LEVELS = 1_500


def levels(level: Callable[[dict[str, str]], dict[str, Any]], count: int = 40) -> dict[str, Any]:
    """Return a schema of an object whose ``x`` goes down ``count`` levels; ``level`` makes each, from a reference."""
    made = {f"a{number}": level({"$ref": f"#/$defs/a{number + 1}"}) for number in range(count)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**made, f"a{count}": {}}}


def build_chained_schema() -> dict[str, Any]:
    """Return a schema in which each property refers to the next one, by a pointer that leads through them."""
    named = {f"p{number}": {"$ref": f"#/properties/t/properties/p{number + 1}"} for number in range(LEVELS)}
    return {"type": "object", "properties": {"t": {"type": "object", "properties": named}}}


BOMBS = {
    "allOf": levels(lambda after: {"allOf": [after, after]}),
    "anyOf": levels(lambda after: {"anyOf": [after, after]}),
    "oneOf": levels(lambda after: {"oneOf": [after, after]}),
    "properties": levels(lambda after: {"properties": {"l": after, "r": after}}),
    "nullable choices": levels(lambda after: {"anyOf": [{"allOf": [after]}, {"anyOf": [after, after]}]}),
    "depth": levels(lambda after: {"type": "object", "properties": {"n": after}}, LEVELS),
    "references": build_chained_schema(),
    "one property in many parts": {
        "type": "object",
        "allOf": [{"properties": {"a": {"allOf": [{"minLength": number}]}}} for number in range(900)],
    },
}


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("provider", Provider)
@pytest.mark.parametrize("bomb", BOMBS)
def test_written_schema_never_exceeds_its_size_limit(bomb: str, provider: Provider) -> None:
    shaped = build_tool_schema(BOMBS[bomb], provider)  # it would hang here, or run out of levels
    assert len(str(shaped.schema)) < 1_000_000
    assert shaped.read_arguments({"x": {"n": None}})


PARTS = 1_000
MAX_CALLS = 9_000_000
SPELLED = "abcdefghijkl"
WIDE = {f"q{number}": {} for number in range(PARTS)}


def spell(number: int) -> str:
    """Return one of the 4,096 ways to write ``SPELLED`` in a reference: a bit of ``number`` for each character."""
    return "".join(f"%{ord(one):02x}" if number >> place & 1 else one for place, one in enumerate(SPELLED))


def build_shared_schema(reference: Callable[[int], dict[str, Any]], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of many properties, each of which refers to ``definitions``."""
    return {"type": "object", "properties": {f"p{one}": reference(one) for one in range(PARTS)}, "$defs": definitions}


SHARED = {
    "one definition by many references": build_shared_schema(
        lambda number: {"$ref": f"#/$defs/{spell(number)}"}, {SPELLED: {"type": "object", "properties": WIDE}}
    ),
    "many definitions of one name": build_shared_schema(
        lambda number: {"$ref": f"#/$defs/d{number}/properties/x"},
        {f"d{number}": {"properties": {"x": {"type": "string"}}} for number in range(PARTS)},
    ),
    "many choices of one object": build_shared_schema(
        lambda _: {"anyOf": [{"$ref": "#/$defs/e"}]}, {"e": {"properties": WIDE}}
    ),
    "one type many times": {
        "type": "object",
        "properties": {"x": {"type": ["string"] * PARTS, "enum": [1, "a"] * PARTS}},
    },
    "many uses of long values": build_shared_schema(
        lambda _: {"allOf": [{"$ref": "#/$defs/e"}, {"enum": ["a"]}]}, {"e": {"enum": [*WIDE, "z" * 20_000]}}
    ),
    "many uses of a long text": build_shared_schema(
        lambda _: {"$ref": "#/$defs/e", "minLength": 1}, {"e": {"default": "z" * 20_000}}
    ),
}


def count_calls(profile: Profile) -> int:
    """Return how many functions were called, of Python and of C."""
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("provider", Provider)
@pytest.mark.parametrize("bomb", SHARED)
def test_shared_schema_parts_are_converted_once(bomb: str, provider: Provider) -> None:
    profile = Profile(subcalls=False)
    shaped = profile.runcall(build_tool_schema, SHARED[bomb], provider)
    assert count_calls(profile) < MAX_CALLS
    assert len(str(shaped.schema)) < 5_000_000
