"""A query string read back as arguments."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Kind, Problem, Schema, Tool
from toolwire.protocols.openapi.request.query import QueryField, QueryForm, list_fields, read_query


def list_fields_by_name(schema: Schema | bool, *, required: bool = False, **members: Any) -> dict[str, QueryField]:
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"] if required else [], **members}
    return {field.name: field for field in list_fields(Tool(name="x", safe=True, input_schema=whole))}


TEXTS: list[tuple[Schema, str, object]] = [
    ({"type": "integer"}, "5", 5),
    ({"type": "integer"}, "-0", 0),
    ({"type": "integer"}, str(2**70), 2**70),
    ({"type": "integer"}, "5.0", "5.0"),
    ({"type": "integer"}, "05", "05"),
    ({"type": "integer"}, "five", "five"),
    ({"type": "integer"}, "", ""),
    ({"type": "integer"}, "1e5", "1e5"),
    ({"type": "integer"}, "9" * 5000, "9" * 5000),
    ({"type": "number"}, "5", 5),
    ({"type": "number"}, "-1.5e3", -1500.0),
    ({"type": "number"}, "1e999", "1e999"),
    ({"type": "number"}, "NaN", "NaN"),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "False", "False"),
    ({"type": "boolean"}, "1", "1"),
    ({"type": "string"}, "5", "5"),
    ({"type": "string"}, "true", "true"),
    ({"type": "string"}, "null", "null"),
    ({"type": ["integer", "null"]}, "5", 5),
    ({"type": ["integer", "null"]}, "null", None),
    ({"type": ["string", "null"]}, "null", "null"),
    ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "true", True),
    ({"enum": [1, 2]}, "1", 1),
    ({"const": "1"}, "1", "1"),
]


@pytest.mark.parametrize(("schema", "text", "value"), TEXTS)
def test_query_text_is_converted_by_its_schema_or_left_for_validation(schema: Schema, text: str, value: object) -> None:
    got = read_query(f"a={quote(text)}", list_fields_by_name(schema))
    assert got == {"a": value}
    assert type(got["a"]) is type(value)


FORMS: list[tuple[Schema | bool, bool, QueryForm]] = [
    ({"type": "string"}, True, QueryForm.TEXT),
    ({"type": ["string", "null"]}, False, QueryForm.TEXT),
    ({"type": ["string", "null"]}, True, QueryForm.JSON),
    ({"type": ["string", "null"], "default": "x"}, False, QueryForm.JSON),
    ({"type": ["string", "integer"]}, True, QueryForm.JSON),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, False, QueryForm.TEXT),
    ({"$ref": "#/$defs/E"}, True, QueryForm.TEXT),
    ({"enum": ["1", 1]}, True, QueryForm.JSON),
    ({"type": "array", "items": {"type": "string"}}, True, QueryForm.REPEATED),
    ({"type": "array", "items": {"$ref": "#/$defs/E"}}, False, QueryForm.REPEATED),
    ({"type": "array", "items": {"type": "string"}, "default": ["a"]}, False, QueryForm.JSON),
    ({"type": "array", "items": {"type": ["string", "null"]}}, True, QueryForm.JSON),
    ({"type": "array"}, True, QueryForm.JSON),
    ({"type": "array", "prefixItems": [{"type": "string"}]}, True, QueryForm.JSON),
    ({"type": "object"}, True, QueryForm.JSON),
    ({"$ref": "#/$defs/Loop"}, True, QueryForm.JSON),
    ({"$ref": "#/$defs/Gone"}, True, QueryForm.JSON),
    ({"$ref": "#/$defs/Round"}, True, QueryForm.JSON),
    ({}, True, QueryForm.JSON),
    (True, True, QueryForm.JSON),
    (False, True, QueryForm.JSON),
]
DEFS = {
    "E": {"enum": ["a", "b"]},
    "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}] * 9},
    "Round": {"$ref": "#/$defs/Round"},
}


@pytest.mark.parametrize(("schema", "required", "form"), FORMS)
def test_parameter_is_a_plain_text_only_if_its_schema_is_unambiguous(
    schema: Schema | bool, required: bool, form: QueryForm
) -> None:
    assert list_fields_by_name(schema, required=required, **{"$defs": DEFS})["a"].form is form


def test_repeated_keys_are_an_array() -> None:
    array = list_fields_by_name({"type": "array", "items": {"type": "integer"}})
    assert read_query("a=1&a=2&a=x", array) == {"a": [1, 2, "x"]}
    assert read_query("", array) == {}


@pytest.mark.requirement("A-49")
def test_undeclared_query_field_stays_text_for_validation() -> None:
    assert read_query("b=9&a=1&c=x&c=y&&", list_fields_by_name({"type": "integer"})) == {
        "a": 1,
        "b": "9",
        "c": ["x", "y"],
    }


def test_required_array_absent_from_the_query_is_empty() -> None:
    assert read_query("", list_fields_by_name({"type": "array", "items": {"type": "integer"}}, required=True)) == {
        "a": []
    }


def test_a_scalar_given_twice_is_refused_by_name() -> None:
    problem = read_query("a=1&a=2", list_fields_by_name({"type": "integer"}))
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.INVALID_ARGUMENTS
    assert problem.parameter_errors == {"a": "is given more than once"}


def test_invalid_json_query_value_is_refused_by_name() -> None:
    problem = read_query("a=%7B", list_fields_by_name({"type": "object"}))
    assert isinstance(problem, Problem)
    assert problem.parameter_errors == {"a": "must be JSON text"}


def test_a_plus_is_a_space_and_an_escaped_plus_is_a_plus() -> None:
    assert read_query("a=x+y%2Bz%20%C3%A9", list_fields_by_name({"type": "string"})) == {"a": "x y+z é"}


@pytest.mark.parametrize("query", ["a=%", "a=%4", "a=%zz", "a=%ff", "a=%c3", "%ff=1", "b=%c3%28", "a=%ED%A0%80"])
def test_invalid_percent_escape_is_malformed_anywhere(query: str) -> None:
    problem = read_query(query, list_fields_by_name({"type": "string"}))
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.MALFORMED


@given(st.text(max_size=60))
def test_any_query_is_read_or_refused(query: str) -> None:
    for schema in ({"type": "string"}, {"type": "number"}, {"type": "array", "items": {"type": "boolean"}}, {}):
        assert isinstance(read_query(query, list_fields_by_name(schema, required=True)), dict | Problem)
        assert isinstance(read_query(f"a={query}", list_fields_by_name(schema)), dict | Problem)
