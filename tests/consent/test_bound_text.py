"""What a user types as a bound is read exactly, or refused with a sentence."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.consent.bound_text import parse_bound, parse_bounds, parse_named_bound, parse_until, parse_uses
from toolwire.core.condition import find_condition_fault
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Condition

NOW = datetime(2026, 11, 25, 15, 0, tzinfo=timezone(timedelta(hours=1)))  # a Wednesday
DAY = 86_400


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize(
    ("text", "shown", "read"),
    [
        ("", 20, ("/a~1b", "eq", 20)),
        ("", {"x": [1]}, ("/a~1b", "eq", {"x": [1]})),
        ("*", 20, None),
        ("<= 50", 20, ("/a~1b", "le", 50)),
        ("<=50.5", 20, ("/a~1b", "le", 50.5)),
        ("At most 50", 20, ("/a~1b", "le", 50)),
        ("> 5", "text", ("/a~1b", "gt", 5)),
        ("= 5", 20, ("/a~1b", "eq", 5)),
        ("= 5", "text", ("/a~1b", "eq", "5")),
        ('= "5"', "text", ("/a~1b", "eq", "5")),
        ("= true", True, ("/a~1b", "eq", True)),
        ("in Ada, Bob", "Ada", ("/a~1b", "in", ["Ada", "Bob"])),
        ("one of 1, 2", 1, ("/a~1b", "in", [1, 2])),
        ('in ["a,b", 1]', "a", ("/a~1b", "in", ["a,b", 1])),
        ("matches ^[a-z]+$", "a", ("/a~1b", "matches", "^[a-z]+$")),
    ],
)
def test_parse_bound_reads_each_notation(text: str, shown: Any, read: Any) -> None:
    assert parse_bound("a/b", shown, text) == read


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize(
    "text", ["50", "any", "<= many", "<= true", "inAda", "in", "in a,,b", "in []", "in [1", "<=", "<= \u0665", "=> 5"]
)
def test_invalid_bound_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        parse_bound("amount", 20, text)


def test_default_bound_does_not_store_a_long_value() -> None:
    with pytest.raises(DefinitionError, match="too long"):
        parse_bound("body", "x" * 1_000, "")


@pytest.mark.requirement("CC-03")
@given(st.text(max_size=30), st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.none()))
def test_any_typed_bound_is_a_valid_condition_or_an_error(text: str, shown: Any) -> None:
    try:
        found = parse_bound("a", shown, text)
    except DefinitionError:
        return
    assert (found is None) is (text.strip() == "*")
    if found is not None and found.op != "matches":
        assert not find_condition_fault(found._asdict())


def test_named_bound_starts_with_an_argument_name_or_a_pointer() -> None:
    assert parse_named_bound("amount <= 50") == ("/amount", "le", 50)
    assert parse_named_bound("/deep/er in Ada, Bob") == ("/deep/er", "in", ["Ada", "Bob"])
    for wrong in ("", "amount", "<= 50", "  "):
        with pytest.raises(DefinitionError):
            parse_named_bound(wrong)


def test_number_of_uses_is_parsed() -> None:
    assert (parse_uses("10"), parse_uses(" 1 "), parse_uses("*")) == (10, 1, None)
    for wrong in ("", "0", "-1", "1.5", "ten", "1000001", "99999999", "\u0661"):
        with pytest.raises(DefinitionError, match="number of calls"):
            parse_uses(wrong)


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("today", 9),
        ("tomorrow", 33),
        ("wednesday", 9),
        ("Friday", 57),
        ("tuesday", 24 * 6 + 9),
        ("2026-11-26", 33),
        ("2026-11-26T15:00", 24),
        ("2026-11-26T15:00Z", 25),
        ("20261126T15", 24),
        ("12h", 12),
        ("2d", 48),
        ("1 w", 168),
    ],
)
def test_end_time_is_parsed_and_a_date_means_the_end_of_that_day(text: str, hours: float) -> None:
    assert parse_until(NOW, text) == NOW.timestamp() + hours * 3_600
    assert parse_until(NOW, "") is None


@pytest.mark.parametrize(
    "wrong", ["soon", "2026-11-24", "2026-11-25T14:59", "0h", "2026-13-01", "999999w", "9999-12-31"]
)
def test_invalid_or_past_end_time_is_refused(wrong: str) -> None:
    with pytest.raises(DefinitionError):
        parse_until(NOW, wrong)


@pytest.mark.requirement("QF-03")
def test_limit_of_each_amount_and_of_their_sum_are_typed_together() -> None:
    small, all_of_them = Condition("/amount", "le", 50), Condition("/amount", "sum", 200)
    for text in ("<= 50 and sum 200", "<= 50, sum 200", "at most 50 and sum <= 200"):
        assert parse_bounds("amount", 20, text) == [small, all_of_them]
    assert parse_bounds("amount", 20, "sum 200") == [all_of_them]
    assert parse_bounds("amount", 20, "*") == []
    assert parse_bounds("to", "Ada", "in Ada, sum 3") == [Condition("/to", "in", ["Ada", "sum 3"])]
    assert parse_named_bound("amount sum 200") == all_of_them
    for wrong in ("sum", "sum much", "<= 50 and sum Ada"):
        with pytest.raises(DefinitionError):
            parse_bounds("amount", 20, wrong)
