"""Schemas without references: every one is replaced by what it means, and nothing can make the result explode."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.protocols.otc.schema import MAX_LEVELS, MAX_SCHEMAS, describe_schema, inline_references

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.requirement("OTC-009")
def test_reference_is_replaced_by_its_target():
    schema = {"properties": {"at": {"$ref": "#/$defs/Point"}}, "$defs": {"Point": POINT}}
    assert inline_references(schema) == {"properties": {"at": POINT}}


@pytest.mark.requirement("OTC-009")
def test_a_reference_may_lead_through_others_and_into_lists():
    schema = {
        "properties": {"a": {"$ref": "#/definitions/A"}, "b": {"$ref": "#/definitions/B%20b/anyOf/1"}},
        "definitions": {"A": {"$ref": "#/definitions/B%20b"}, "B b": {"anyOf": [{"type": "null"}, POINT]}},
    }
    assert inline_references(schema) == {"properties": {"a": {"anyOf": [{"type": "null"}, POINT]}, "b": POINT}}


@pytest.mark.parametrize("lost", ["#/$defs/Nothing", "https://example.com/schema", "#anchor", "#/enum/9", "file:///x"])
def test_dangling_reference_allows_anything(lost):
    assert inline_references({"properties": {"a": {"$ref": lost}}, "enum": [1]}) == {
        "properties": {"a": {}},
        "enum": [1],
    }


def test_a_description_beside_a_reference_wins():
    schema = {"properties": {"at": {"$ref": "#/$defs/P", "description": "Where."}}, "$defs": {"P": POINT}}
    assert inline_references(schema)["properties"]["at"] == {**POINT, "description": "Where."}


def test_rules_beside_a_reference_also_apply():
    schema = {"$ref": "#/$defs/P", "properties": {"y": {"type": "integer"}}, "$defs": {"P": POINT}}
    plain = inline_references(schema)
    assert jsonschema.Draft202012Validator(plain).is_valid({"x": 1, "y": 2})
    assert not jsonschema.Draft202012Validator(plain).is_valid({"x": "1", "y": 2})
    assert not jsonschema.Draft202012Validator(plain).is_valid({"x": 1, "y": "2"})


@pytest.mark.requirement("OTC-009")
def test_recursive_schema_is_cut_to_its_type():
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    children = inline_references({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}})["properties"]["children"]
    assert children == {"type": "array", "items": {"type": "object"}}


def test_a_parameter_may_be_called_like_a_keyword():
    schema = {"properties": {"$ref": {"type": "string"}, "definitions": {"type": "integer"}, "items": True}}
    assert inline_references(schema) == schema


def test_data_inside_a_schema_is_unchanged():
    schema = {"const": {"$ref": "#/nowhere"}, "default": {"$defs": 1}, "enum": [{"$id": "x"}]}
    assert inline_references(schema) == schema


def count(data):
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + sum(count(value) for value in inner)


def test_doubling_references_are_not_expanded():
    defs = {f"L{n}": {"properties": {k: {"$ref": f"#/$defs/L{n + 1}"} for k in "ab"}} for n in range(40)}
    assert count(inline_references({"$ref": "#/$defs/L0", "$defs": defs})) < 10 * MAX_SCHEMAS


def test_deep_schemas_and_long_chains_are_cut():
    deep = {"type": "string"}
    for _ in range(4 * MAX_LEVELS):
        deep = {"type": "array", "items": deep}
    chain = {f"L{n}": {"$ref": f"#/$defs/L{n + 1}"} for n in range(2_000)}
    assert count(inline_references(deep)) < 4 * MAX_LEVELS
    assert inline_references({"$ref": "#/$defs/L0", "$defs": chain}) == {}


@pytest.mark.requirement("OTC-011")
def test_every_parameter_has_a_description():
    schema = {"properties": {"a": {"description": "A."}, "b": {"title": "Size"}, "c": {}, "d": True, "e": {"title": 7}}}
    assert {name: value["description"] for name, value in describe_schema(schema)["properties"].items()} == {
        "a": "A.",
        "b": "Size",
        "c": "The argument c.",
        "d": "The argument d.",
        "e": "The argument e.",
    }


@pytest.mark.requirement("OTC-010")
def test_forbidden_parameter_stays_forbidden():
    plain = describe_schema({"properties": {"a": False}})
    assert not jsonschema.Draft202012Validator(plain).is_valid({"a": 1})


keys = st.sampled_from(["$ref", "$defs", "properties", "items", "allOf", "type", "a", "definitions", "description"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["#", "#/$defs/a", "#/properties/a", "#/allOf/0", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(keys, anything, max_size=5))
def test_any_data_has_an_inlined_form(schema):
    plain = describe_schema(schema)
    assert not any(key in plain for key in ("$ref", "$defs", "definitions"))
