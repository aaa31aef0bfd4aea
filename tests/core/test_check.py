"""Checks stand in a row, and the first that does not allow decides."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.check import ALLOW, Allow, Answer, Check, Deny, KnownResult, Question, Verdict, apply_checks
from toolwire.core.codec import ask, fetch
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Call, Kind, Problem, Progress, Tool, Value
from toolwire.core.toolbox import ignore_progress

CALL = Call(Tool(name="x"), {})
DENY = Deny(Problem(kind=Kind.DENIED, message="No."))
KNOWN = KnownResult(Value(1))


def says(verdict: Verdict) -> Check:
    return lambda _: verdict


@given(st.lists(st.sampled_from([ALLOW, Allow(), DENY, KNOWN])))
def test_first_verdict_other_than_allow_decides(verdicts: Sequence[Verdict]) -> None:
    stopping = [verdict for verdict in verdicts if not isinstance(verdict, Allow)]
    assert apply_checks(CALL, [says(verdict) for verdict in verdicts]) == (stopping[0] if stopping else ALLOW)


def test_later_checks_do_not_run_after_a_refusal() -> None:
    def never(call: Call) -> Verdict:
        raise AssertionError(call)

    assert apply_checks(CALL, [says(DENY), never]) is DENY


def test_fetch_yields_one_request_and_returns_its_response() -> None:
    flow = fetch(Request("GET", "https://example.com/"))
    assert flow.send(None) == Request("GET", "https://example.com/")
    with pytest.raises(StopIteration) as stop:
        flow.send(Response(204))
    assert stop.value.value == Response(204)


def test_ask_yields_one_question_and_returns_its_answer() -> None:
    question = Question(CALL, "https://example.com", "POST https://example.com/x", Approval.PER_CALL)
    flow = ask(question)
    assert flow.send(None) is question
    with pytest.raises(StopIteration) as stop:
        flow.send(Answer(allowed=True))
    assert stop.value.value == Answer(allowed=True)


def test_progress_without_a_listener_is_accepted() -> None:
    hearing = ignore_progress(Progress(1))
    with pytest.raises(StopIteration):
        hearing.send(None)
