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
        ({"type": "integer"}, Shape.SIMPLE),
        ({"type": ["array", "null"]}, Shape.SIMPLE),
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
def test_result_shape_follows_the_output_schema(output: Any, shape: Shape) -> None:
    assert result.get_shape(output) is shape


@pytest.mark.requirement("S-6", "A-20", "OTRPC-011")
@pytest.mark.parametrize("shape", [Shape.ANY, Shape.SIMPLE, Shape.NOTHING])
def test_scalar_result_is_wrapped_under_the_name_of_the_return(shape: Shape) -> None:
    assert result.write(3, shape, "sum") == {"sum": 3}
    assert result.write([1], shape, "list") == {"list": [1]}


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("value", [{"id": 1}, {"a": 1, "b": 2}])
def test_no_value_is_an_empty_object_and_an_object_is_unwrapped(shape: Shape, value: dict[str, int]) -> None:
    assert result.write(None, shape, "result") == {}
    # Of a tool that promises no object, the one member of a result is the value.
    is_wrapped = shape is Shape.SIMPLE and len(value) == 1
    written = result.write(value, shape, "result")
    assert written == ({"result": value} if is_wrapped else value)
    assert result.read(written, shape, "result") == value


@pytest.mark.requirement("A-20")
@given(st.dictionaries(st.text(max_size=8), st.none() | st.integers(), max_size=3), st.text(max_size=8))
def test_an_object_that_a_tool_does_not_promise_survives_a_round_trip(value: dict[str, Any], name: str) -> None:
    assert result.read(result.write(value, Shape.SIMPLE, name), Shape.SIMPLE, name) == value


@pytest.mark.requirement("A-20", "C-3")
def test_single_member_of_a_result_is_the_value_if_no_object_is_declared() -> None:
    assert result.read({"count": 3}, Shape.SIMPLE, "Total") == 3
    assert result.read({"count": 3}, Shape.ANY, "Count") == 3
    assert result.read({"count": 3}, Shape.ANY, "Total") == {"count": 3}
    assert result.read({"a": 1, "b": 2}, Shape.SIMPLE, "a") == {"a": 1, "b": 2}
    assert result.read({"count": 3}, Shape.OBJECT, "count") == {"count": 3}
    assert result.read({"ok": True}, Shape.NOTHING, "ok") == {"ok": True}
    assert result.read({}, Shape.NOTHING, "result") is None


def test_a_result_that_is_no_object_is_the_value() -> None:
    assert result.read("text", Shape.OBJECT, "result") == "text"
    assert result.read([1], Shape.ANY, "result") == [1]


@pytest.mark.parametrize(
    ("output", "shape"),
    [
        ({"type": "array", "items": {"type": "integer"}}, Shape.SIMPLE),
        ({"type": "array", "items": OBJECT}, Shape.OBJECT),
        ({"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": OBJECT}}, Shape.OBJECT),
        ({"type": "array"}, Shape.ANY),
        (None, Shape.ANY),
    ],
)
def test_piece_shape_follows_the_item_schema(output: Any, shape: Shape) -> None:
    assert result.get_item_shape(output) is shape


scalars = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())
names = st.sampled_from(["result", "Result", "id", ""]) | st.text(max_size=8)
objects = st.dictionaries(names, scalars, max_size=3)


@pytest.mark.requirement("S-6", "OTRPC-009", "A-20")
@given(scalars | objects, names)
def test_any_value_of_an_undeclared_shape_survives_a_round_trip(value: Any, name: str) -> None:
    written = result.write(value, Shape.ANY, name)
    assert isinstance(written, dict)
    assert result.read(written, Shape.ANY, name) == value


@given(objects)
def test_any_object_of_a_tool_without_output_is_written_unchanged(value: dict[str, Any]) -> None:
    assert result.write(value, Shape.NOTHING, "result") == value
    assert result.read(value, Shape.NOTHING, "result") == (value or None)


@given(objects)
def test_any_object_of_a_declared_shape_survives_a_round_trip(value: dict[str, Any]) -> None:
    assert result.read(result.write(value, Shape.OBJECT, "result"), Shape.OBJECT, "result") == value
