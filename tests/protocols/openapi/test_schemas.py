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
def convert_schema(peer: Read) -> Callable[..., Any]:
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
def test_read_only_property_is_removed_from_all_branches_and_from_required(convert_schema: Callable[..., Any]) -> None:
    hidden = {"readOnly": True, "type": "integer"}
    branches = [
        {"properties": {"id": hidden, "name": {"type": "string"}}, "required": ["id", "name"], "minProperties": 1},
        {"required": ["id"], "maxProperties": 9},
        {"maxProperties": 8},
    ]
    argument, _ = convert_schema({"allOf": branches, "required": ["id"]})
    assert argument == {
        "allOf": [
            {"properties": {"name": {"type": "string"}}, "required": ["name"], "minProperties": 1},
            {"maxProperties": 9},
            {"maxProperties": 8},
        ]
    }


@pytest.mark.requirement("CV-30", "D-15")
def test_invalid_property_name_pattern_is_dropped_and_reported(convert_schema: Callable[..., Any]) -> None:
    argument, reply = convert_schema({"patternProperties": {"(": {"type": "string"}, "^n": {"type": "integer"}}})
    assert argument == {"patternProperties": {"^n": {"type": "integer"}}}
    assert "a pattern for names of properties in it cannot be used" in reply


@pytest.mark.requirement("CV-20")
def test_format_byte_of_3_0_is_declared_as_base64(convert_schema: Callable[..., Any]) -> None:
    argument, _ = convert_schema({"type": "string", "format": "byte"}, "3.0.3")
    assert argument == {"type": "string", "format": "byte", "contentEncoding": "base64"}


@pytest.mark.requirement("CV-25")
@pytest.mark.parametrize(("example", "kept"), [("short", ["short"]), ("x" * 61, None), ([1], None), (True, None)])
def test_only_a_short_example_is_kept(convert_schema: Callable[..., Any], example: Json, kept: Json) -> None:
    argument, _ = convert_schema({"example": example})
    assert argument.get("examples") == kept


@pytest.mark.requirement("CV-30")
def test_valid_keywords_are_kept_and_invalid_ones_reported(convert_schema: Callable[..., Any]) -> None:
    words = {"multipleOf": 0.5, "dependentRequired": {"a": ["b"]}}
    assert convert_schema(words) == (words, "")
    argument, reply = convert_schema({"multipleOf": 0, "dependentRequired": {"a": "b"}})
    assert argument == {}
    assert '"multipleOf" of a schema in it is invalid' in reply
    assert '"dependentRequired" of a schema in it is invalid' in reply


@pytest.mark.requirement("CV-19")
def test_branch_with_only_required_is_merged_into_its_object() -> None:
    schema = {"properties": {"a": {}}, "allOf": [{"required": ["a"]}, {"title": "Pair", "required": ["a", "b"]}]}
    assert join_branches(schema) == {"properties": {"a": {}}, "title": "Pair", "required": ["a", "b"]}
    assert compile_schema(join_branches(schema))({"a": 1}) is not None


@pytest.mark.requirement("CV-30")
def test_unknown_types_and_keywords_are_ignored(convert_schema: Callable[..., Any]) -> None:
    argument, reply = convert_schema({"type": ["string", "date", "string"], "allOf": [], "colour": "red", "x-mine": 1})
    assert (argument, reply) == ({"type": ["string"]}, "")
    argument, reply = convert_schema({"type": ["date"]})
    assert argument == {}
    assert '"type" of a schema in it is invalid' in reply


@pytest.mark.requirement("CV-18")
def test_schema_shared_by_operations_is_equal_in_each(peer: Read) -> None:
    body = {"content": {"application/json": {"schema": {"properties": {"a": {"$ref": "#/components/schemas/A"}}}}}}
    paths = {f"/{name}": {"post": {"x-llm": {}, "requestBody": body}} for name in "xyz"}
    schemas = {"A": {"properties": {"again": {"$ref": "#/components/schemas/A"}, "n": {"type": "integer"}}}}
    whole = {"openapi": "3.1.0", "info": {"title": "T"}, "paths": paths, "components": {"schemas": schemas}}
    first, *others = (dict(tool.input_schema) for tool in peer(whole).catalog.tools)
    assert first["$defs"]["A"]["properties"] == {"again": {"$ref": "#/$defs/A"}, "n": {"type": "integer"}}
    assert others == [first, first]


@pytest.mark.requirement("CV-20")
def test_null_type_and_nullable_together_give_one_null(convert_schema: Callable[..., Any]) -> None:
    argument, _ = convert_schema({"type": ["object", "null"], "nullable": True}, "3.0.3")
    assert argument == {"type": ["object", "null"]}
    compile_schema({"type": "object", "properties": {"a": argument}})
