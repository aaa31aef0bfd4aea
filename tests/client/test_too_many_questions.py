"""A program that answers for a person, and the most questions that it is asked in a minute."""

from __future__ import annotations

import re

import pytest

from toolwire import ClientRules, Kind, Problem, Session, Toolkit, Value, asgi, connect_sync
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
    with background(asgi(notes())) as url:
        with connect_sync(url, session=Session(rules=rules), approve=lambda _: True) as remote:
            results = [remote.call("note", {"text": "x"}) for _ in range(most + 1)]
        assert results[:-1] == [Value("x")] * most
        refusal = results[-1]
        assert isinstance(refusal, Problem)
        assert refusal.kind is Kind.RATE_LIMITED
        assert re.search(rf"\b{most} questions", refusal.message)
        assert "Session(rules=ClientRules(questions_a_minute=...))" in refusal.message
        more = Session(rules=ClientRules(questions_a_minute=most + 1))
        with connect_sync(url, session=more, approve=lambda _: True) as remote:
            assert all(remote.call("note", {"text": "x"}) == Value("x") for _ in range(most + 1))
