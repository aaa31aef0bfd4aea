"""Schemas of a document as a model sees them, where they say something rare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.codec import Peer
from toolwire.core.model import Json
from toolwire.protocols.openapi.schema.combine import join_branches
from toolwire.validation import compile_schema

Read = Callable[..., Peer]


@pytest.fixture
def converted(peer: Read) -> Callable[..., Any]:
    """Converts the schema of a body: it becomes the argument ``a``; the findings come with it."""

    def convert(schema: Json, version: str = "3.1.0") -> tuple[Json, str]:
        body = {"content": {"application/json": {"schema": {"properties": {"a": schema}}}}}
        operation = {"operationId": "x", "x-llm": {}, "requestBody": body}
        found = peer({"openapi": version, "info": {"title": "T"}, "paths": {"/x": {"post": operation}}})
        (tool,) = found.catalog.tools
        argument = tool.parameters["a"]
        return argument, "\n".join(found.memo.findings)

    return convert


@pytest.mark.requirement("CV-21")
def test_what_is_read_only_is_gone_from_every_branch_and_from_what_is_required(converted: Callable[..., Any]) -> None:
    hidden = {"readOnly": True, "type": "integer"}
    branches = [
        {"properties": {"id": hidden, "name": {"type": "string"}}, "required": ["id", "name"], "minProperties": 1},
        {"required": ["id"], "maxProperties": 9},
        {"maxProperties": 8},
    ]
    argument, _ = converted({"allOf": branches, "required": ["id"]})
    assert argument == {
        "allOf": [
            {"properties": {"name": {"type": "string"}}, "required": ["name"], "minProperties": 1},
            {"maxProperties": 9},
            {"maxProperties": 8},
        ]
    }


@pytest.mark.requirement("CV-30", "D-15")
def test_a_pattern_for_names_that_is_none_is_left_out_and_said(converted: Callable[..., Any]) -> None:
    argument, said = converted({"patternProperties": {"(": {"type": "string"}, "^n": {"type": "integer"}}})
    assert argument == {"patternProperties": {"^n": {"type": "integer"}}}
    assert "a pattern for names of properties in it cannot be used" in said


@pytest.mark.requirement("CV-20")
def test_bytes_of_3_0_say_how_they_are_written(converted: Callable[..., Any]) -> None:
    argument, _ = converted({"type": "string", "format": "byte"}, "3.0.3")
    assert argument == {"type": "string", "format": "byte", "contentEncoding": "base64"}


@pytest.mark.requirement("CV-25")
@pytest.mark.parametrize(("example", "kept"), [("short", ["short"]), ("x" * 61, None), ([1], None), (True, None)])
def test_only_a_short_example_is_told(converted: Callable[..., Any], example: Json, kept: Json) -> None:
    argument, _ = converted({"example": example})
    assert argument.get("examples") == kept


@pytest.mark.requirement("CV-30")
def test_words_that_hold_what_they_may_are_kept_and_others_said(converted: Callable[..., Any]) -> None:
    words = {"multipleOf": 0.5, "dependentRequired": {"a": ["b"]}}
    assert converted(words) == (words, "")
    argument, said = converted({"multipleOf": 0, "dependentRequired": {"a": "b"}})
    assert argument == {}
    assert "a multipleOf that is none" in said
    assert "a dependentRequired that is none" in said


@pytest.mark.requirement("CV-19")
def test_a_branch_that_only_requires_joins_the_object_it_is_of() -> None:
    schema = {"properties": {"a": {}}, "allOf": [{"required": ["a"]}, {"title": "Pair", "required": ["a", "b"]}]}
    assert join_branches(schema) == {"properties": {"a": {}}, "title": "Pair", "required": ["a", "b"]}
    assert compile_schema(join_branches(schema))({"a": 1}) is not None


@pytest.mark.requirement("CV-30")
def test_what_is_almost_right_is_taken_and_what_nobody_knows_is_passed_over(converted: Callable[..., Any]) -> None:
    argument, said = converted({"type": ["string", "date", "string"], "allOf": [], "colour": "red", "x-mine": 1})
    assert (argument, said) == ({"type": ["string"]}, "")
    argument, said = converted({"type": ["date"]})
    assert argument == {}
    assert "a type that is none" in said


@pytest.mark.requirement("CV-18")
def test_a_schema_that_many_operations_use_is_the_same_in_each(peer: Read) -> None:
    body = {"content": {"application/json": {"schema": {"properties": {"a": {"$ref": "#/components/schemas/A"}}}}}}
    paths = {f"/{name}": {"post": {"x-llm": {}, "requestBody": body}} for name in "xyz"}
    schemas = {"A": {"properties": {"again": {"$ref": "#/components/schemas/A"}, "n": {"type": "integer"}}}}
    whole = {"openapi": "3.1.0", "info": {"title": "T"}, "paths": paths, "components": {"schemas": schemas}}
    first, *others = (dict(tool.input_schema) for tool in peer(whole).catalog.tools)
    assert first["$defs"]["A"]["properties"] == {"again": {"$ref": "#/$defs/A"}, "n": {"type": "integer"}}
    assert others == [first, first]


@pytest.mark.requirement("CV-20")
def test_null_in_a_list_of_types_and_nullable_are_one_null(converted: Callable[..., Any]) -> None:
    argument, _ = converted({"type": ["object", "null"], "nullable": True}, "3.0.3")
    assert argument == {"type": ["object", "null"]}
    compile_schema({"type": "object", "properties": {"a": argument}})
