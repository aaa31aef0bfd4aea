"""Marks for headers: those that are right are mirrored, and a schema with one that is wrong is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.protocols.mcp import header_arguments


def text(mark, **more):
    return {"type": "string", "x-mcp-header": mark, **more}


def holding(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        holding(a=text("Region"), b={"type": "integer", "x-mcp-header": "Priority"}),
        holding(a={"type": "boolean", "x-mcp-header": "!#$%&'*+-.^_`|~09"}),
        holding(deep=holding(deeper=holding(a=text("Region")))),
        holding(**{"x-mcp-header": {"type": "array"}}),  # an argument of that name is no mark
        holding(a={"type": "string", "default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": ""}]}),
        {"$ref": "https://elsewhere.example/schema", **holding(a={"$ref": "#/$defs/a"})},
    ],
)
def test_marks_that_are_right_have_no_fault(schema):
    assert header_arguments.find_fault(schema) == ""


@pytest.mark.parametrize("mark", ["", " ", "My Region", "Region:Primary", "Région", "Region\t1", "a\r\nb", "x" * 201])
def test_a_mark_that_is_no_name_of_a_header_is_a_fault(mark):
    assert "HTTP cannot have" in header_arguments.find_fault(holding(a=text(mark)))


@pytest.mark.parametrize("mark", [None, 7, True, {}, ["Region"]])
def test_a_mark_that_is_no_text_is_a_fault(mark):
    assert "HTTP cannot have" in header_arguments.find_fault(holding(a=text(mark)))


@pytest.mark.parametrize("type_", ["number", "object", "array", "null", ["string", "null"], {}, None])
def test_a_mark_on_what_is_no_plain_value_is_a_fault(type_):
    assert "no string, integer or boolean" in header_arguments.find_fault(
        holding(a={"type": type_, "x-mcp-header": "Region"})
    )


def test_a_mark_on_the_whole_of_the_arguments_is_a_fault():
    assert header_arguments.find_fault({"type": "object", "x-mcp-header": "All"})


@pytest.mark.parametrize("second", ["Region", "region", "REGION"])
def test_two_arguments_for_one_header_are_a_fault(second):
    assert "two arguments" in header_arguments.find_fault(holding(a=text("Region"), deep=holding(b=text(second))))


MARKED = holding(a=text("Region"))


@pytest.mark.parametrize(
    "schema",
    [
        *({keyword: MARKED} for keyword in ("items", "contains", "additionalProperties", "unevaluatedProperties")),
        *({keyword: MARKED} for keyword in ("not", "if", "then", "else", "propertyNames", "unevaluatedItems")),
        *({keyword: [{}, MARKED]} for keyword in ("allOf", "anyOf", "oneOf", "prefixItems", "items")),
        *({keyword: {"x": MARKED}} for keyword in ("$defs", "definitions", "patternProperties", "dependentSchemas")),
        holding(a={"type": "array", "items": text("Item")}),
        holding(a={"anyOf": [text("Region"), {"type": "null"}]}),
    ],
)
def test_a_mark_that_properties_alone_do_not_lead_to_is_a_fault(schema):
    assert "alone do not lead" in header_arguments.find_fault(schema)


def test_a_mark_deeper_than_is_mirrored_is_a_fault():
    def nested(depth):
        schema = text("Deep")
        for _ in range(depth):
            schema = holding(a=schema)
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
def test_whatever_a_schema_is_it_is_judged_and_nothing_is_raised(schema):
    assert isinstance(header_arguments.find_fault(schema), str)
