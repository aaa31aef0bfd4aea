"""A schema with more values than can be worked on in time is left out, and its tool is still there."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.support.document_bombs import openapi
from toolwire.convert import ReadDocument, read
from toolwire.framing import jsontext
from toolwire.protocols.openapi.schema import schema_size
from toolwire.protocols.openapi.schema.schema_size import MAX_VALUES, has_too_many_values


def build_nested_schema(count: int) -> Any:
    return {"properties": {"x": {"properties": {f"p{n}": {} for n in range(count)}}}}


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("where", ["inline", "definition"])
def test_schema_with_too_many_values_is_dropped_and_reported(where: str) -> None:
    large = build_nested_schema(MAX_VALUES)
    if where == "definition":
        large = {"type": "object", "properties": {"y": {"$ref": "#/$defs/a"}}, "$defs": {"a": large}}
    found = read(json.dumps(openapi(large)).encode())
    assert isinstance(found, ReadDocument)
    (tool,) = found.catalog.tools
    assert tool.name == "op"
    assert len(json.dumps(dict(tool.input_schema))) < 1_000


@pytest.mark.requirement("D-17")
def test_schema_size_counts_values_in_objects_and_lists() -> None:
    assert not has_too_many_values({"enum": list(range(MAX_VALUES - 1))})
    assert has_too_many_values({"enum": list(range(MAX_VALUES))})
    assert not has_too_many_values(build_nested_schema(MAX_VALUES - 3))
    assert has_too_many_values(build_nested_schema(MAX_VALUES))
    assert not has_too_many_values(True)


def grow(chance: random.Random, depth: int) -> dict[str, Any]:
    """Return a schema with branches, required and unlikely properties, and guards around what may be cut."""
    names = [f"p{number}" for number in range(chance.randint(1, 9))]
    inner = {name: grow(chance, depth - 1) if depth else {"type": "string"} for name in names}
    schema: dict[str, Any] = {"type": "object", "properties": inner, "required": names[: chance.randint(0, 3)]}
    if depth and chance.random() < 0.4:
        word = chance.choice(["oneOf", "anyOf", "allOf"])
        schema[word] = [grow(chance, depth - 1) for _ in range(2)]
    if depth and chance.random() < 0.2:
        schema["not"] = grow(chance, depth - 1)
    if chance.random() < 0.3:
        schema |= {"description": "deprecated " + "x" * chance.randint(0, 90), "readOnly": chance.random() < 0.5}
    return schema


def cut_step_by_step(schema: dict[str, Any], limit: int, used: set[str]) -> dict[str, Any]:
    """Return the schema after each reach in turn, until it fits: the meaning of a cut, and slow if it is huge."""
    for reach in schema_size._REACHES:
        schema, _ = schema_size._cut_schema(schema, reach, used)
        if len(jsontext.write(schema)) <= limit:
            return schema
    return schema_size.remove_texts(schema)[0]


@pytest.mark.requirement("D-17", "CV-25")
@pytest.mark.parametrize("seed", range(20))
def test_fast_schema_cut_equals_the_step_by_step_cut(seed: int) -> None:
    chance = random.Random(seed)
    schema, used = grow(chance, 3), {"p1", "p4"}
    size = len(jsontext.write(schema))
    for part in (2, 9, 20, 50, 200):
        limit = size // part
        assert schema_size.cut_schema(schema, limit, used)[0] == cut_step_by_step(schema, limit, used), part
