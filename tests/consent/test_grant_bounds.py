"""A bounded grant covers the calls that it says, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire import DefinitionError, GrantBounds
from toolwire.consent.bounds_fields import build_bounds_fields
from toolwire.consent.grant import covers_call, describe_bounds, find_end
from toolwire.core.check import Question
from toolwire.core.model import Approval, Call, Condition, Tool

DEFAULTS = {"amount": {"type": "number", "default": 5}, "to": {"type": "string"}}
PAY = Tool(name="pay", input_schema={"type": "object", "properties": DEFAULTS})


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-100, 100), st.floats(), st.text(max_size=3))
POINTERS = st.sampled_from(["/amount", "/to", "/deep/er", "/list/0", "/other"])
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={"amount": VALUES, "to": VALUES, "deep": st.dictionaries(st.just("er"), VALUES), "list": st.lists(VALUES)},
)
CONDITIONS = st.one_of(
    st.builds(Condition, POINTERS, st.sampled_from(["eq", "ne"]), VALUES),
    st.builds(Condition, POINTERS, st.sampled_from(["lt", "le", "gt", "ge"]), st.integers(-100, 100)),
    st.builds(Condition, POINTERS, st.just("in"), st.lists(VALUES, min_size=1, max_size=4)),
    st.builds(Condition, POINTERS, st.just("present"), st.booleans()),
)


@pytest.mark.requirement("CC-03")
@given(conditions=st.lists(CONDITIONS, max_size=4), more=CONDITIONS, arguments=ARGUMENTS)
def test_each_condition_narrows_a_grant_and_an_empty_list_covers_no_call(
    conditions: list[Condition], more: Condition, arguments: Mapping[str, Any]
) -> None:
    before = covers_call(tuple(conditions), arguments)
    each = [covers_call((one,), arguments) for one in conditions]
    assert before is (bool(conditions) and all(each))
    assert covers_call((*conditions, more), arguments) <= (before or not conditions)
    assert covers_call((), arguments) is False
    assert covers_call(None, arguments) is True


@pytest.mark.requirement("CC-03")
@given(condition=CONDITIONS, arguments=ARGUMENTS)
def test_condition_on_an_absent_argument_is_never_met(condition: Condition, arguments: Mapping[str, Any]) -> None:
    name = condition.pointer.split("/")[1]
    left = {key: value for key, value in arguments.items() if key != name}
    assert covers_call((condition,), left) is False


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize(
    ("condition", "covered", "other"),
    [
        (("/amount", "le", 50), [50, 0.5, -1], [50.5, "50", True, None, [1], inf, nan]),
        (("/amount", "eq", 1), [1, 1.0], [True, "1", 2]),
        (("/amount", "in", ["Ada", 1]), ["Ada", 1], ["ada", "Ada ", True, ["Ada"]]),
        (("/amount", "matches", "^[a-z]+$"), ["ada"], ["Ada", "ada\n\n", 5]),
        (("/amount", "matches", "("), [], ["("]),
        (("/amount", "matches", "ada|bob"), ["ada", "bob"], ["ada eve", "eve bob", "adabob", "ada\n"]),
    ],
)
def test_grant_condition_does_not_cover_a_value_of_another_type(
    condition: Any, covered: list[Any], other: list[Any]
) -> None:
    assert [covers_call((Condition(*condition),), {"amount": one}) for one in covered] == [True] * len(covered)
    assert [covers_call((Condition(*condition),), {"amount": one}) for one in other] == [False] * len(other)


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"uses": 0},
        {"uses": -1},
        {"uses": True},
        {"uses": 2.0},
        {"uses": 1_000_001},
        {"until": nan},
        {"until": inf},
        {"until": "Friday"},
        {"until": True},
        {"conditions": [("amount", "le", 50)]},
        {"conditions": [("", "eq", {})]},
        {"conditions": [("/amount", "le", "50")]},
        {"conditions": [("/to", "in", [])]},
        {"conditions": [("/amount", "le", 50)] * 17},
        {"conditions": [("/amount", "eq", nan)]},
    ],
)
def test_invalid_or_unlimited_grant_bounds_are_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError):
        GrantBounds(**wrong)


def test_grant_bounds_are_described_in_words() -> None:
    conditions = (Condition("/to", "in", ["Ada", "Bob\u202e"]), Condition("/amount", "le", 50))
    text = describe_bounds(conditions, 10)
    assert text.startswith('/to is one of ["Ada", "Bob')
    assert text.endswith("and /amount is at most 50; 10 more calls")
    assert "\u202e" not in text
    assert describe_bounds(None, 1) == "any arguments; 1 more call"
    assert describe_bounds((), None) == "no call"


@pytest.mark.requirement("CC-03")
def test_bounds_shorten_the_life_of_a_grant_and_never_lengthen_it() -> None:
    assert find_end(100.0, 30.0, GrantBounds(uses=2)) == 130.0
    assert find_end(100.0, 30.0, GrantBounds(until=120.0)) == 120.0
    assert find_end(100.0, 30.0, GrantBounds(until=140.0)) == 130.0


@pytest.mark.requirement("CC-03")
def test_a_form_that_comes_back_keeps_what_the_user_chose() -> None:
    question = Question(Call(PAY, {"amount": 5}), "https://a.example", "POST https://a.example/pay", Approval.PER_CALL)
    plain = build_bounds_fields(question, {})
    kept = build_bounds_fields(question, {"bound unseen": "yes"})
    assert (plain.count(" checked"), kept.count(" checked")) == (1, 2)
    assert "None" not in plain
    long = replace(PAY, input_schema={"properties": {"x" * 600: {}}})
    page = build_bounds_fields(replace(question, call=Call(long, {"amount": 5})), {})
    assert f"<small>{'x' * 500}</small>" in page
