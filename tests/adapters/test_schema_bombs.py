"""Schemas that grow at each step are told to a model in bounded work, whatever the provider."""

from collections.abc import Callable
from typing import Any

import pytest

from toolwire.adapters.schema import Provider, shape

LEVELS = 1_500


def levels(level: Callable[[dict[str, str]], dict[str, Any]], count: int = 40) -> dict[str, Any]:
    """Return a schema of an object whose ``x`` goes down ``count`` levels; ``level`` makes each, from a reference."""
    made = {f"a{number}": level({"$ref": f"#/$defs/a{number + 1}"}) for number in range(count)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**made, f"a{count}": {}}}


def chained() -> dict[str, Any]:
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
    "references": chained(),
    "one property in many parts": {
        "type": "object",
        "allOf": [{"properties": {"a": {"allOf": [{"minLength": number}]}}} for number in range(900)],
    },
}


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("provider", Provider)
@pytest.mark.parametrize("bomb", BOMBS)
def test_no_schema_is_written_beyond_its_bound(bomb: str, provider: Provider) -> None:
    shaped = shape(BOMBS[bomb], provider)  # it would hang here, or run out of levels
    assert len(str(shaped.schema)) < 1_000_000
    assert shaped.read({"x": {"n": None}})
