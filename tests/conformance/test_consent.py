"""Nothing is sent before a yes."""

from collections.abc import Callable

import pytest

from tests.support.conformance import CodecConnection, behaviours
from toolwire.core.check import Answer, Question
from toolwire.core.model import Problem, Value


@pytest.mark.requirement("XL-043", "XL-053")
def test_call_without_an_approver_sends_nothing(codec_connection: CodecConnection) -> None:
    assert list(behaviours.check_consent(codec_connection)) == []


@pytest.mark.requirement("XL-043", "XL-052")
def test_nothing_is_sent_during_the_question_or_after_a_denial(join: Callable[..., CodecConnection]) -> None:
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
    assert joined.call("erase", {"what": "one"}) == Value("erased one")  # the same call gets the same no for a minute
    assert sent == [before, before]
    assert asked[0].call.arguments == {"what": "all"}
