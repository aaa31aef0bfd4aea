"""A tool's value becomes the result object of an answer, and comes back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.protocols.opentool import result
from toolwire.protocols.opentool.result import Shape

OBJECT = {"type": "object"}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("output", "shape"),
    [
        (None, Shape.NOTHING),
        ({}, Shape.ANY),
        ({"type": "integer"}, Shape.ANY),
        (OBJECT, Shape.OBJECT),
        ({"$ref": "#/$defs/A", "$defs": {"A": OBJECT}}, Shape.OBJECT),
        ({"anyOf": [OBJECT, OBJECT]}, Shape.OBJECT),
        ({"anyOf": [OBJECT, NULL]}, Shape.OBJECT_OR_NULL),
        ({"type": ["object", "null"]}, Shape.OBJECT_OR_NULL),
        ({"type": ["object", 7]}, Shape.ANY),
        ({"oneOf": [OBJECT, {"type": "string"}]}, Shape.ANY),
        ({"$ref": "#"}, Shape.ANY),
        ({"$ref": "#/$defs/Gone"}, Shape.ANY),
    ],
)
def test_the_shape_is_what_the_output_schema_allows(output: Any, shape: Shape) -> None:
    assert result.shape(output) is shape


@pytest.mark.requirement("S-6", "A-20", "OTRPC-011")
def test_a_scalar_stands_under_the_name_of_the_return() -> None:
    assert result.write(3, Shape.ANY, "sum") == {"sum": 3}
    assert result.write([1], Shape.ANY, "list") == {"list": [1]}


@pytest.mark.requirement("A-20")
def test_nothing_is_an_empty_object_and_an_object_is_itself() -> None:
    assert result.write(None, Shape.NOTHING, "result") == {}
    assert result.write({"id": 1}, Shape.OBJECT, "result") == {"id": 1}


@pytest.mark.requirement("A-20", "C-3")
def test_the_one_member_of_a_result_is_the_value_whatever_it_is_called() -> None:
    assert result.read({"count": 3}, Shape.ANY) == 3
    assert result.read({"a": 1, "b": 2}, Shape.ANY) == {"a": 1, "b": 2}
    assert result.read({"count": 3}, Shape.OBJECT) == {"count": 3}
    assert result.read({"ok": True}, Shape.NOTHING) == {"ok": True}
    assert result.read({}, Shape.NOTHING) is None


def test_a_result_that_is_no_object_is_the_value() -> None:
    assert result.read("text", Shape.OBJECT) == "text"
    assert result.read([1], Shape.ANY) == [1]


scalars = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())
objects = st.dictionaries(st.text(max_size=8), scalars, max_size=3)


@pytest.mark.requirement("S-6", "OTRPC-009")
@given(scalars | objects, st.text(max_size=8))
def test_any_value_of_an_undeclared_shape_comes_back(value: Any, name: str) -> None:
    written = result.write(value, Shape.ANY, name)
    assert isinstance(written, dict)
    assert result.read(written, Shape.ANY) == value


@given(objects)
def test_any_object_of_a_tool_that_declares_nothing_goes_out_as_it_is(value: dict[str, Any]) -> None:
    assert result.write(value, Shape.NOTHING, "result") == value
    assert result.read(value, Shape.NOTHING) == (value or None)


@given(objects)
def test_any_object_of_a_declared_shape_comes_back(value: dict[str, Any]) -> None:
    assert result.read(result.write(value, Shape.OBJECT, "result"), Shape.OBJECT) == value
