"""Nobody is flooded with questions, and who said no three times is not asked again."""

from __future__ import annotations

import pytest

from tests.support.clock import Clock
from toolwire.consent.prompt_limit import PromptLimit


@pytest.mark.requirement("XL-054", "D-19")
def test_a_tool_that_was_refused_three_times_is_not_asked_about_again() -> None:
    patience = PromptLimit(Clock(100.0))
    for refusals in range(3):
        assert not patience.is_blocked("x"), refusals
        patience.record_denial("x")
    assert patience.is_blocked("x")
    assert not patience.is_blocked("y")


def test_prompt_limit_remembers_a_bounded_number_of_denied_tools() -> None:
    patience = PromptLimit(Clock(100.0))
    for number in range(10_001):
        for _ in range(3):
            patience.record_denial(str(number))
    assert patience.is_blocked("9999")
    assert not patience.is_blocked("10000")


@pytest.mark.requirement("XL-054", "D-19")
def test_questions_per_minute_do_not_exceed_the_limit() -> None:
    clock = Clock(100.0)
    patience = PromptLimit(clock, limit=2)
    assert patience.reserve_prompt() == 0.0
    clock.now += 20
    assert [patience.reserve_prompt(), patience.reserve_prompt()] == [0.0, 40.0]
    clock.now += 40
    assert [patience.reserve_prompt(), patience.reserve_prompt()] == [0.0, 20.0]


def test_prompt_limit_of_zero_still_permits_one_question() -> None:
    assert PromptLimit(Clock(100.0), limit=0).reserve_prompt() == 0.0
