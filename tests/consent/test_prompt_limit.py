"""Nobody is flooded with questions, and who said no three times is not asked again."""

from __future__ import annotations

import pytest

from toolwire.consent.prompt_limit import PromptLimit


class Clock:
    """Seconds, as a test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.requirement("XL-054", "D-19")
def test_a_tool_that_was_refused_three_times_is_not_asked_about_again() -> None:
    patience = PromptLimit(Clock())
    for refusals in range(3):
        assert not patience.is_blocked("x"), refusals
        patience.record_denial("x")
    assert patience.is_blocked("x")
    assert not patience.is_blocked("y")


def test_very_many_refused_tools_are_not_all_kept_and_those_that_are_stay() -> None:
    patience = PromptLimit(Clock())
    for number in range(10_001):
        for _ in range(3):
            patience.record_denial(str(number))
    assert patience.is_blocked("9999")
    assert not patience.is_blocked("10000")


@pytest.mark.requirement("XL-054", "D-19")
def test_no_minute_has_more_questions_than_wished() -> None:
    clock = Clock()
    patience = PromptLimit(clock, limit=2)
    assert patience.reserve_prompt() == 0.0
    clock.now += 20
    assert [patience.reserve_prompt(), patience.reserve_prompt()] == [0.0, 40.0]
    clock.now += 40
    assert [patience.reserve_prompt(), patience.reserve_prompt()] == [0.0, 20.0]


def test_one_question_may_always_be_asked() -> None:
    assert PromptLimit(Clock(), limit=0).reserve_prompt() == 0.0
