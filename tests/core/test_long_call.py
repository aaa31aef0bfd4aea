"""The pure decisions about long calls: what every store and every server does in the same way."""

from __future__ import annotations

import pytest

from toolwire.core.call_status import CallStatus, LongCallState
from toolwire.core.long_call import (
    MAX_MESSAGE,
    AcceptAction,
    ClaimRun,
    LongCallRow,
    NewCall,
    build_continuation,
    choose_state,
    decide_acceptance,
    decide_run,
    digest_call_key,
    is_long,
    read_progress,
)
from toolwire.core.model import Kind, Problem, Progress, Tool, Value

OVER = (LongCallState.ENDED, LongCallState.CANCELLED, LongCallState.INTERRUPTED)
OPEN = (LongCallState.ACCEPTED, LongCallState.RUNNING, LongCallState.WAITING)
NEW = NewCall("ada", "id", "key", "T.t", b"same", b"request", can_rerun=False, keep_s=60.0)


def row(state: LongCallState, **facts: bool | bytes) -> LongCallRow:
    given = {
        "fingerprint": b"same",
        "is_held": False,
        "pinned": True,
        "can_rerun": False,
        "has_request": True,
        "cancel_asked": False,
    }
    return LongCallRow(state=state, **{**given, **facts})  # type: ignore[arg-type]  # facts are checked by the test


@pytest.mark.parametrize("state", LongCallState)
def test_only_three_states_are_final(state: LongCallState) -> None:
    assert state.is_final is (state in OVER)
    assert CallStatus(id="1", tool="T.t", state=state).is_over is state.is_final


def test_a_key_names_one_call_of_one_caller() -> None:
    one = digest_call_key("ada", "T.t", "k")
    assert one == digest_call_key("ada", "T.t", "k")
    assert len(one) * 4 >= 128
    others = [("bob", "T.t", "k"), ("ada", "T.u", "k"), ("ada", "T.t", "l"), ("adaT", ".t", "k"), ("ada", "T.", "tk")]
    assert len({one, *(digest_call_key(*other) for other in others)}) == len(others) + 1


def test_the_same_call_is_accepted_once_and_another_one_with_its_id_is_refused() -> None:
    assert decide_acceptance(None, NEW) is AcceptAction.ADD
    for state in LongCallState:
        assert decide_acceptance(row(state), NEW) is AcceptAction.KNOWN
        assert decide_acceptance(row(state, fingerprint=b"other"), NEW) is AcceptAction.REFUSE
        again = AcceptAction.AGAIN if state in OVER else AcceptAction.KNOWN
        assert decide_acceptance(row(state, pinned=False), NEW) is again


@pytest.mark.parametrize("state", [*OVER, LongCallState.WAITING])
def test_a_call_that_is_over_or_waits_for_its_user_is_not_run(state: LongCallState) -> None:
    for is_mine in (False, True):
        for is_held in (False, True):
            assert decide_run(row(state, is_held=is_held, can_rerun=True), is_mine=is_mine) is ClaimRun.LEAVE


def test_a_call_that_has_not_started_runs_once_its_process_is_gone() -> None:
    accepted = LongCallState.ACCEPTED
    assert decide_run(row(accepted, is_held=True), is_mine=False) is ClaimRun.LEAVE
    assert decide_run(row(accepted, is_held=True), is_mine=True) is ClaimRun.RUN
    assert decide_run(row(accepted), is_mine=False) is ClaimRun.RUN
    assert decide_run(row(accepted, has_request=False), is_mine=False) is ClaimRun.INTERRUPT
    assert decide_run(row(accepted, cancel_asked=True), is_mine=False) is ClaimRun.CANCEL


def test_a_call_whose_process_died_runs_again_only_if_its_tool_is_idempotent() -> None:
    running = LongCallState.RUNNING
    for is_mine in (False, True):
        assert decide_run(row(running, is_held=True, can_rerun=True), is_mine=is_mine) is ClaimRun.LEAVE
    assert decide_run(row(running, can_rerun=True), is_mine=False) is ClaimRun.RUN
    assert decide_run(row(running, can_rerun=False), is_mine=False) is ClaimRun.INTERRUPT
    assert decide_run(row(running, can_rerun=True, has_request=False), is_mine=False) is ClaimRun.INTERRUPT
    assert decide_run(row(running, can_rerun=True, cancel_asked=True), is_mine=False) is ClaimRun.CANCEL


@pytest.mark.parametrize(
    ("value", "part", "message"),
    [
        (0.25, 0.25, None),
        (1, 1.0, None),
        (7, None, None),
        (-0.1, None, None),
        (float("nan"), None, None),
        (True, None, None),
        ("half way", None, "half way"),
        ({"progress": 5, "total": 20, "message": "rows"}, 0.25, "rows"),
        ({"progress": 30, "total": 20}, None, None),
        ({"progress": 1, "total": 0}, None, None),
        ({"progress": 1, "total": None}, None, None),
        ({"progress": 0.5, "total": 10**400, "message": "rows"}, None, "rows"),
        ({"progress": 10**400, "total": 10**400}, 1.0, None),
        ([1, 2], None, None),
        ("x" * 5_000, None, "x" * MAX_MESSAGE),
    ],
)
def test_progress_is_read_from_what_the_tool_says(value: object, part: float | None, message: str | None) -> None:
    assert read_progress(Progress(value)) == (part, message)


def test_a_tool_is_long_if_it_says_so_or_takes_more_than_five_minutes() -> None:
    assert is_long(Tool(name="t", long=True))
    assert is_long(Tool(name="t", timeout_s=301.0))
    assert not is_long(Tool(name="t", timeout_s=300.0))
    assert not is_long(Tool(name="t"))


def test_only_a_call_that_its_caller_named_may_be_sent_again() -> None:
    status = CallStatus(id="abc", tool="T.t", state=LongCallState.RUNNING)
    for has_key in (False, True):
        problem = build_continuation(status, has_key=has_key)
        assert problem.kind is Kind.ACCEPTED
        assert problem.can_retry is has_key
        assert "abc" in problem.message
        assert problem.details["call"] == {"id": "abc", "state": "running"}


def test_the_end_of_a_call_is_its_result_unless_it_was_stopped() -> None:
    assert choose_state(Value(1)) is LongCallState.ENDED
    assert choose_state(Problem(kind=Kind.TOOL_FAILED, message="No.")) is LongCallState.ENDED
    assert choose_state(Problem(kind=Kind.CANCELLED, message="No.")) is LongCallState.CANCELLED
    assert choose_state(Problem(kind=Kind.INTERRUPTED, message="No.")) is LongCallState.INTERRUPTED
