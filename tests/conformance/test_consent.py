"""Nothing is sent before a yes."""

from collections.abc import Callable

import pytest

from toolwire.core.check import Answer, Question
from toolwire.core.model import Problem, Value
from toolwire.testing.conformance import CodecConnection, behaviours


@pytest.mark.requirement("XL-043", "XL-053")
def test_without_a_way_to_ask_nothing_is_sent(joined: CodecConnection) -> None:
    assert list(behaviours.check_consent(joined)) == []


@pytest.mark.requirement("XL-043", "XL-052")
def test_nothing_is_sent_while_the_person_thinks_or_when_they_say_no(join: Callable[..., CodecConnection]) -> None:
    asked: list[Question] = []
    sent: list[int] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        sent.append(len(joined.exchanges))
        return Answer(allowed=len(asked) > 1, reason="" if len(asked) > 1 else "too soon")

    joined = join(approve=approve)
    before = len(joined.exchanges)
    refused = joined.call("erase", {"what": "all"})
    assert isinstance(refused, Problem)
    assert refused.details == {"denied": True, "reason": "too soon"}
    assert len(joined.exchanges) == before
    assert joined.call("erase", {"what": "all"}) == Value("erased all")
    assert sent == [before, before]
    assert asked[0].call.arguments == {"what": "all"}
