"""Arguments that are JSON data, and those that are not."""

import math
from collections import OrderedDict
from enum import Enum, IntEnum
from io import BytesIO
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Call, Kind, Problem, Tool
from toolwire.framing import jsontext
from toolwire.validation import copy_arguments

CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.text("a\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.requirement("S-16", "D-16")
@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, "\ud800", {"\ud800": 1}, {1}, b"x", object(), CYCLE, 10**5_000],
    ids=["nan", "infinity", "surrogate", "surrogate key", "set", "bytes", "object", "cycle", "5,001 digits"],
)
def test_arguments_without_json_equivalent_are_refused(value: Any) -> None:
    problem = copy_arguments(Call(Tool(name="x"), {"b": 1, "a": [value]}))
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.INVALID_ARGUMENTS
    assert problem.message.startswith("x was not called: a is not JSON data (")
    assert list(problem.parameter_errors) == ["a"]
    assert "\n" not in problem.message


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), BytesIO(b"x")])
def test_bytes_are_refused_with_the_way_to_give_a_file(value: Any) -> None:
    problem = copy_arguments(Call(Tool(name="x"), {"photo": value}))
    assert isinstance(problem, Problem)
    assert problem.message.startswith("x was not called: photo is not JSON data (")
    assert problem.message.endswith("a file is given as a Path or a File).")


@pytest.mark.parametrize("arguments", [7, [1], "x", None, {1: 2}, {"a": {1: 2}}])
def test_arguments_must_be_an_object_with_string_names(arguments: Any) -> None:
    assert isinstance(copy_arguments(Call(Tool(name="x"), arguments)), Problem)


class Colour(str, Enum):  # noqa: UP042 - people write it so
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Ratio(float):
    pass


class Pair(NamedTuple):
    first: int
    second: int


def test_subclasses_of_plain_types_become_plain_json_values() -> None:
    given = MappingProxyType(
        {"c": Colour.RED, "l": Level.HIGH, "r": Ratio(0.5), "t": (1, OrderedDict(a=None)), "n": Pair(1, 2)}
    )
    taken = copy_arguments(Call(Tool(name="x"), given))
    assert isinstance(taken, Call)
    assert taken.arguments == {"c": "red", "l": 3, "r": 0.5, "t": [1, {"a": None}], "n": [1, 2]}
    assert jsontext.write(taken.arguments) == b'{"c":"red","l":3,"r":0.5,"t":[1,{"a":null}],"n":[1,2]}'


@pytest.mark.requirement("D-20")
def test_later_changes_to_given_arguments_do_not_change_the_call() -> None:
    given: dict[str, Any] = {"a": {"path": ["/tmp/a"]}}
    taken = copy_arguments(Call(Tool(name="x"), given))
    given["a"]["path"][0] = "/etc/passwd"
    assert isinstance(taken, Call)
    assert taken.arguments == {"a": {"path": ["/tmp/a"]}}


@pytest.mark.requirement("S-16")
@given(st.dictionaries(st.text(), DATA))
def test_accepted_arguments_are_copied_unchanged(arguments: dict[str, Any]) -> None:
    taken = copy_arguments(Call(Tool(name="x"), arguments))
    if isinstance(taken, Call):
        assert taken.arguments == arguments
        assert jsontext.read(jsontext.write(taken.arguments)) == arguments
