"""Marks for headers: those that are right are mirrored, and a schema with one that is wrong is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.protocols.mcp import header_arguments


def text(mark, **more):
    return {"type": "string", "x-mcp-header": mark, **more}


def build_object_schema(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        build_object_schema(a=text("Region"), b={"type": "integer", "x-mcp-header": "Priority"}),
        build_object_schema(a={"type": "boolean", "x-mcp-header": "!#$%&'*+-.^_`|~09"}),
        build_object_schema(deep=build_object_schema(deeper=build_object_schema(a=text("Region")))),
        build_object_schema(**{"x-mcp-header": {"type": "array"}}),  # an argument of that name is no mark
        build_object_schema(a={"type": "string", "default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": ""}]}),
        {"$ref": "https://elsewhere.example/schema", **build_object_schema(a={"$ref": "#/$defs/a"})},
    ],
)
def test_marks_that_are_right_have_no_fault(schema):
    assert header_arguments.find_fault(schema) == ""


@pytest.mark.parametrize("mark", ["", " ", "My Region", "Region:Primary", "Région", "Region\t1", "a\r\nb", "x" * 201])
def test_a_mark_that_is_no_name_of_a_header_is_a_fault(mark):
    assert "HTTP cannot have" in header_arguments.find_fault(build_object_schema(a=text(mark)))


@pytest.mark.parametrize("mark", [None, 7, True, {}, ["Region"]])
def test_a_mark_that_is_no_text_is_a_fault(mark):
    assert "HTTP cannot have" in header_arguments.find_fault(build_object_schema(a=text(mark)))


@pytest.mark.parametrize("type_", ["number", "object", "array", "null", ["string", "null"], {}, None])
def test_header_mark_on_a_non_scalar_is_a_fault(type_):
    assert "not a string, integer or boolean" in header_arguments.find_fault(
        build_object_schema(a={"type": type_, "x-mcp-header": "Region"})
    )


def test_header_mark_on_the_root_schema_is_a_fault():
    assert header_arguments.find_fault({"type": "object", "x-mcp-header": "All"})


@pytest.mark.parametrize("second", ["Region", "region", "REGION"])
def test_two_arguments_for_one_header_are_a_fault(second):
    assert "two arguments" in header_arguments.find_fault(
        build_object_schema(a=text("Region"), deep=build_object_schema(b=text(second)))
    )


MARKED = build_object_schema(a=text("Region"))


@pytest.mark.parametrize(
    "schema",
    [
        *({keyword: MARKED} for keyword in ("items", "contains", "additionalProperties", "unevaluatedProperties")),
        *({keyword: MARKED} for keyword in ("not", "if", "then", "else", "propertyNames", "unevaluatedItems")),
        *({keyword: [{}, MARKED]} for keyword in ("allOf", "anyOf", "oneOf", "prefixItems", "items")),
        *({keyword: {"x": MARKED}} for keyword in ("$defs", "definitions", "patternProperties", "dependentSchemas")),
        build_object_schema(a={"type": "array", "items": text("Item")}),
        build_object_schema(a={"anyOf": [text("Region"), {"type": "null"}]}),
    ],
)
def test_header_mark_outside_of_properties_is_a_fault(schema):
    assert "alone do not lead" in header_arguments.find_fault(schema)


def test_header_mark_below_the_mirrored_depth_is_a_fault():
    def nested(depth):
        schema = text("Deep")
        for _ in range(depth):
            schema = build_object_schema(a=schema)
        return schema

    assert header_arguments.find_fault(nested(20)) == ""
    assert len(header_arguments.find_mirrored(nested(20))) == 1
    assert header_arguments.find_fault(nested(21))
    assert header_arguments.find_fault(nested(2_000))


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "anyOf", "$defs", "type", "x-mcp-header", "a"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSONS)
def test_checking_header_marks_of_any_schema_raises_no_exception(schema):
    assert isinstance(header_arguments.find_fault(schema), str)
