"""Arguments that are JSON data, and those that are not."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.check import ALLOW, Deny
from toolwire.core.model import Call, Kind, Tool
from toolwire.framing import jsontext
from toolwire.validation import data_check

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
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    verdict = data_check(Call(Tool(name="x"), {"a": [value]}))
    assert isinstance(verdict, Deny)
    assert verdict.problem.kind is Kind.INVALID_ARGUMENTS
    assert verdict.problem.message.startswith("x was not called")


@pytest.mark.requirement("S-16")
@given(st.dictionaries(st.text(), DATA))
def test_what_is_let_through_comes_back_the_same(arguments: dict[str, Any]) -> None:
    if data_check(Call(Tool(name="x"), arguments)) is ALLOW:
        assert jsontext.read(jsontext.write(arguments)) == arguments
