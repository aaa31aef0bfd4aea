"""A schema with more values than can be worked on in time is left out, and its tool is still there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.test_document_bombs import openapi
from toolwire.convert import ReadDocument, read
from toolwire.protocols.openapi.schema.schema_size import MAX_VALUES, has_too_many_values


def nested(count: int) -> Any:
    return {"properties": {"x": {"properties": {f"p{n}": {} for n in range(count)}}}}


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize("where", ["inline", "definition"])
def test_a_schema_of_too_many_values_is_left_out_and_said(where: str) -> None:
    large = nested(MAX_VALUES)
    if where == "definition":
        large = {"type": "object", "properties": {"y": {"$ref": "#/$defs/a"}}, "$defs": {"a": large}}
    found = read(json.dumps(openapi(large)).encode())
    assert isinstance(found, ReadDocument)
    (tool,) = found.catalog.tools
    assert tool.name == "op"
    assert len(json.dumps(dict(tool.input_schema))) < 1_000


@pytest.mark.requirement("D-17")
def test_values_are_counted_in_objects_and_lists() -> None:
    assert not has_too_many_values({"enum": list(range(MAX_VALUES - 1))})
    assert has_too_many_values({"enum": list(range(MAX_VALUES))})
    assert not has_too_many_values(nested(MAX_VALUES - 3))
    assert has_too_many_values(nested(MAX_VALUES))
    assert not has_too_many_values(True)
