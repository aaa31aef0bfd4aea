"""In and out of Python's types: what passes untouched, what is refused in a sentence, and what is never written."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, PlainSerializer

from toolwire.core.model import Kind, Problem, Result, Value
from toolwire.define import Function, Toolkit


def define(**annotations: Any) -> Function:
    def use(a):  # type: ignore[no-untyped-def]  # the annotations come below
        return a

    use.__annotations__ = annotations
    return Toolkit("Kit").add(use)


def write(annotation: Any, value: Any) -> Result:
    return define(**{"return": annotation}).write(value)


def problem(result: Any) -> Problem:
    assert isinstance(result, Problem)
    return result


@pytest.mark.requirement("A-49", "S-15")
def test_undeclared_arguments_are_refused_by_name() -> None:
    def use(a: int, tag_name: str) -> None: ...

    refused = problem(Toolkit("Kit").add(use).read({"a": 1, "tag": "x", "self": 2}))
    assert refused.kind is Kind.INVALID_ARGUMENTS
    assert refused.parameter_errors == {
        "tag_name": "This argument is required.",
        "tag": "This tool has no such argument. Did you mean `tag_name`?",
        "self": "This tool has no such argument.",
    }


def test_absent_argument_keeps_the_python_default() -> None:
    def use(a: int, b: date = date(2024, 1, 2)) -> date:
        return b

    function = Toolkit("Kit").add(use)
    assert function.read({"a": 1}) == {"a": 1}
    assert function.read({"a": 1, "b": "2025-01-01"}) == {"a": 1, "b": date(2025, 1, 1)}


def test_an_absent_required_argument_is_named() -> None:
    refused = problem(define(a=int).read({}))
    assert (refused.kind, refused.parameter_errors) == (Kind.INVALID_ARGUMENTS, {"a": "This argument is required."})


def test_float_with_integral_value_becomes_an_integer() -> None:
    assert json.dumps(define(a=int).read({"a": 1.0})) == '{"a": 1}'
    assert json.dumps(define(a=list[int]).read({"a": [2.0]})) == '{"a": [2]}'


def test_integer_becomes_a_float_for_a_float_parameter() -> None:
    assert json.dumps(define(a=float).read({"a": 1})) == '{"a": 1.0}'


def test_an_integer_too_large_for_a_float_is_refused() -> None:
    assert "finite" in problem(define(a=float).read({"a": 10**400})).parameter_errors["a"]


def test_each_invalid_argument_is_named_by_place_and_without_its_value() -> None:
    @dataclass
    class Trip:
        days: list[date]

    def plan(a: Trip, b: date) -> None: ...

    function = Toolkit("Kit").add(plan)
    refused = problem(function.read({"a": {"days": ["2024-01-01", "hunter2"]}, "b": "hunter2"}))
    assert refused.kind is Kind.INVALID_ARGUMENTS
    assert refused.parameter_errors.keys() == {"a", "b"}
    assert refused.parameter_errors["a"].endswith(" at days.1.")
    assert refused.message.startswith("Invalid arguments. a: Input should be a valid date")
    assert "hunter2" not in repr(refused)


def test_failing_custom_validator_refuses_the_argument() -> None:
    def breaks(_: int) -> int:
        raise KeyError("hunter2")

    refused = problem(define(a=Annotated[int, AfterValidator(breaks)]).read({"a": 1}))
    assert refused.parameter_errors == {"a": "KeyError was raised."}


def test_text_with_a_lone_surrogate_is_refused() -> None:
    assert define(a=str).read({"a": "é"}) == {"a": "é"}
    assert "a" in problem(define(a=str).read({"a": "\ud800"})).parameter_errors


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        list[int],
        dict[str, list[float | None]],
        Literal["x", 2, True, None] | list[str],
        Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=9, description="Numbers.")],
    ],
)
def test_json_data_of_a_json_type_is_passed_without_a_copy(annotation: Any) -> None:
    values: dict[Any, Any] = {Any: {"x": [1]}, dict[str, list[float | None]]: {"x": [1.5, None]}}
    value = values.get(annotation, [7] if "Literal" not in str(annotation) else ["x"])
    function = define(a=annotation, **{"return": annotation})
    keywords = function.read({"a": value})
    assert isinstance(keywords, dict)
    assert keywords["a"] is value
    written = function.write(value)
    assert isinstance(written, Value)
    assert written.value is value


class Level(IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (int, Level.LOW, "1"),
        (int, True, "1"),
        (float, 1, "1.0"),
        (str, Name("x"), '"x"'),
        (Any, {"when": date(2024, 1, 2), "who": {1: ("a",)}}, '{"when": "2024-01-02", "who": {"1": ["a"]}}'),
        (Any, b"\xff", '"_w=="'),
        (dict[str, Any], {"x": Level.LOW}, '{"x": 1}'),
        (list[int], [True], "[1]"),
        (list[list[str]], [["a"], []], '[["a"], []]'),
        (None, None, "null"),
    ],
)
def test_values_close_to_json_are_written_as_json(annotation: Any, value: Any, text: str) -> None:
    written = write(annotation, value)
    assert isinstance(written, Value)
    assert json.dumps(written.value) == text


class User(BaseModel):
    name: str


def cyclic() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def deep(levels: int) -> list[Any]:
    nest: list[Any] = []
    for _ in range(levels - 1):
        nest = [nest]
    return nest


def breaks(_: int) -> int:
    raise KeyError("hunter2")


@pytest.mark.requirement("S-16")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, math.nan),
        (float, math.inf),
        (list[float], [1.0, -math.inf]),
        (dict[str, float], {"x": math.nan}),
        (Any, math.nan),
        (Any, [math.nan]),
        (Any, {"x": [1, math.inf]}),
        (Any, [1.5] * 40 + [math.nan]),
        (Any, {"x": date(2024, 1, 1), "y": math.nan}),
        (str, "\ud800"),
        (Any, ["\ud800"] * 40),
        (Any, ["é", "\ud800"]),
        (Any, {"\ud800": 1}),
        (Any, cyclic()),
        (Any, deep(201)),
        (Any, object()),
        (Any, [1] * 40 + [object()]),
        (int, "1"),
        (int, 1.5),
        (str, 1),
        (str, None),
        (bool, 1),
        (None, 1),
        (list[int], ["a"]),
        (list[int], (1,)),
        (dict[str, int], {"a": "b"}),
        (dict[str, int], [1]),
        (Literal["a"], "b"),
        (Literal[1], True),
        (Literal[1], [1]),
        (int | None, "x"),
        (int | str, 1.5),
        (User, {"name": "Ada"}),
        (datetime, "2024-01-01"),
        (Annotated[int, PlainSerializer(breaks)], 1),
    ],
)
def test_result_of_an_undeclared_type_or_not_json_is_a_problem(annotation: Any, value: Any) -> None:
    refused = problem(write(annotation, value))
    assert refused.kind is Kind.INTERNAL
    assert refused.message == "use returned a value that does not match its declared return type."
    assert refused.developer_message is not None
    assert refused.developer_message.startswith(f"use returned {type(value).__name__}: ")


def test_value_that_cannot_be_written_is_not_logged() -> None:
    refused = problem(write(list[int], ["hunter2, input_type='x"]))
    assert "hunter2" not in repr(refused)


def test_data_of_the_greatest_depth_is_written() -> None:
    assert isinstance(write(Any, deep(200)), Value)


def test_a_tagged_union_of_json_types_is_left_to_pydantic() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]

    function = define(a=Annotated[Cat | Dog, Field(discriminator="kind")])
    assert function.read({"a": {"kind": "dog"}}) == {"a": Dog(kind="dog")}


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=50) | st.dictionaries(st.text(), inner, max_size=50),
)
any_data = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.dates() | st.decimals(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
)
ANYTHING = define(a=Any, **{"return": Any})


@given(json_data)
def test_all_json_data_passes_untouched(data: Any) -> None:
    keywords = ANYTHING.read({"a": data})
    assert isinstance(keywords, dict)
    assert keywords["a"] is data
    written = ANYTHING.write(data)
    assert isinstance(written, Value)
    assert written.value is data


@pytest.mark.requirement("S-16")
@given(any_data)
def test_any_returned_object_is_written_as_json_or_a_problem(data: Any) -> None:
    written = ANYTHING.write(data)
    if isinstance(written, Value):
        json.dumps(written.value, allow_nan=False, ensure_ascii=False).encode()


READERS: list[Callable[[Any], Any]] = [
    define(a=annotation).read
    for annotation in (int, float, str, Literal[1, "x"], list[int], dict[int, str], User, date)
]


@given(st.sampled_from(READERS), json_data)
def test_reading_any_argument_raises_no_exception(read: Callable[[Any], Any], data: Any) -> None:
    outcome = read({"a": data})
    assert isinstance(outcome, dict | Problem)
