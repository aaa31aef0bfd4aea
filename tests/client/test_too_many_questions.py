"""A program that answers for a person, and the most questions that it is asked in a minute."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.clock import Clock
from toolwire import (
    ClientRateLimits,
    ClientRules,
    Kind,
    Problem,
    Question,
    RateLimit,
    Session,
    Toolkit,
    Value,
    asgi,
    connect_sync,
)
from toolwire.testing.loopback import background


def notes() -> Toolkit:
    tools = Toolkit("Notes")

    @tools.tool
    def note(text: str) -> str:
        return text

    return tools


@pytest.mark.requirement("I-10")
@pytest.mark.parametrize(("rules", "most"), [(ClientRules(), 10), (ClientRules(questions_a_minute=3), 3)])
def test_refusal_for_too_many_questions_names_the_setting_that_raises_the_limit(rules: ClientRules, most: int) -> None:
    clock = Clock(100.0)

    def read_and_allow(_: Question) -> bool:
        clock.now += 1
        return True

    with background(asgi(notes())) as url:
        with connect_sync(url, session=Session(rules=rules, clock=clock), approve=read_and_allow) as remote:
            results = [remote.call("note", {"text": "x"}) for _ in range(most + 1)]
        assert results[:-1] == [Value("x")] * most
        refusal = results[-1]
        assert isinstance(refusal, Problem)
        assert refusal.kind is Kind.RATE_LIMITED
        assert re.search(rf"\b{most} questions", refusal.message)
        assert "Session(rules=ClientRules(questions_a_minute=...))" in refusal.message
        more = Session(rules=ClientRules(questions_a_minute=most + 1), clock=clock)
        with connect_sync(url, session=more, approve=read_and_allow) as remote:
            assert all(remote.call("note", {"text": "x"}) == Value("x") for _ in range(most + 1))


@pytest.mark.requirement("XL-054", "D-19")
@pytest.mark.parametrize(("reading_s", "asked"), [(0.2, 30), (0.3, 10)])
def test_a_program_that_answers_at_once_is_asked_about_each_call(reading_s: float, asked: int) -> None:
    clock, questions = Clock(100.0), []

    def decide(question: Question) -> bool:
        clock.now += reading_s
        questions.append(question)
        return question.call.arguments["text"] == "x"

    with (
        background(asgi(notes())) as url,
        connect_sync(url, session=Session(clock=clock), approve=decide) as remote,
    ):
        results = [remote.call("note", {"text": "x"}) for _ in range(30)]
        assert not remote.call("note", {"text": "y"}).ok
    assert sum(one.ok for one in results) == asked
    assert len(questions) == asked + (asked == 30), "the refused call is asked about too, unless the limit is reached"


@pytest.mark.requirement("XL-064")
@pytest.mark.parametrize(("limits", "which"), [({"tool": 2}, "tool"), ({"tool": None, "connection": 2}, "connection")])
def test_refusal_for_too_many_calls_names_the_setting_that_raises_the_limit(limits: Any, which: str) -> None:
    rates = {name: most and RateLimit(max=most, window="1m") for name, most in limits.items()}
    session = Session(limits=ClientRateLimits(**rates), rules=ClientRules(questions_a_minute=10))
    with (
        background(asgi(notes())) as url,
        connect_sync(url, session=session, approve=lambda _: True, protocol="openapi") as remote,
    ):
        refusal = [remote.call("note", {"text": "x"}) for _ in range(3)][-1]
    assert isinstance(refusal, Problem)
    assert refusal.message.endswith(
        f" This client allows 2 calls in 1m for one {which}. Raise it with "
        f"Session(limits=ClientRateLimits({which}=...))."
    )
