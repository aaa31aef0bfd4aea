"""The decision that all ledgers share, and what is remembered of an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.ledger import (
    CallKey,
    CallState,
    Claim,
    ClaimAction,
    LedgerRow,
    build_abandoned_ending,
    build_conflict,
    build_ending,
    build_interrupted,
    build_key,
    compute_excess,
    decide_claim,
    is_replayed,
    mark_replayed,
)
from toolwire.core.model import Call, Context, Kind, Problem, Tool, Value

KEY = CallKey("ada", "Kit.pay", "k1")
ONCE, AGAIN = Claim(KEY, b"same", False), Claim(KEY, b"same", True)


def row(state: CallState, *, owned: bool = True, pinned: bool = True, fingerprint: bytes = b"same") -> LedgerRow:
    return LedgerRow(fingerprint, state, owned, pinned, 1)


@pytest.mark.requirement("R8", "A-42")
@pytest.mark.parametrize(
    ("known", "claim", "step"),
    [
        (None, ONCE, ClaimAction.RUN),
        (row(CallState.RUNNING), ONCE, ClaimAction.WAIT),
        (row(CallState.ACCEPTED), ONCE, ClaimAction.WAIT),
        (row(CallState.RUNNING, owned=False), ONCE, ClaimAction.INTERRUPT),
        (row(CallState.RUNNING, owned=False), AGAIN, ClaimAction.RUN),
        (row(CallState.ACCEPTED, owned=False), ONCE, ClaimAction.RUN),
        (row(CallState.DONE), ONCE, ClaimAction.REPLAY),
        (row(CallState.INTERRUPTED), ONCE, ClaimAction.REPLAY),
        (row(CallState.FAILED, pinned=False), ONCE, ClaimAction.RUN),
        (row(CallState.FAILED, pinned=False), ONCE._replace(awaited_attempt=1), ClaimAction.REPLAY),
        (row(CallState.INTERRUPTED, pinned=False), AGAIN._replace(awaited_attempt=1), ClaimAction.RUN),
        *((row(state, fingerprint=b"other"), AGAIN, ClaimAction.REFUSE) for state in CallState),
    ],
)
def test_decide_claim_returns_the_next_step_for_each_known_call(
    known: LedgerRow | None, claim: Claim, step: ClaimAction
) -> None:
    assert decide_claim(known, claim) is step


RAN = {Kind.TOOL_FAILED, Kind.TIMEOUT, Kind.CANCELLED, Kind.INTERRUPTED, Kind.INTERNAL}
OPEN = (RAN | {Kind.UNREACHABLE, Kind.BAD_ANSWER}) - {Kind.TOOL_FAILED}


@pytest.mark.requirement("A-42")
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("can_retry", [False, True])
def test_ledger_stores_a_problem_only_if_the_tool_ran(kind: Kind, idempotent: bool, can_retry: bool) -> None:
    ended = build_ending(Tool(name="x", idempotent=idempotent), Problem(kind=kind, message="No.", can_retry=can_retry))
    if kind not in OPEN | {Kind.TOOL_FAILED}:
        assert ended is None
    else:
        assert ended is not None
        assert ended.pinned == (not can_retry and not (idempotent and kind in OPEN))


def test_ledger_always_stores_a_value() -> None:
    ended = build_ending(Tool(name="x", safe=True), Value(1))
    assert ended is not None
    assert (ended.state, ended.pinned) == (CallState.DONE, True)


def test_ledger_key_depends_on_caller_and_tool_but_not_version() -> None:
    first, second = (
        Call(Tool(name="pay", toolkit="Kit", version=version), {}, "k1", Context(principal="ada"), key="k1")
        for version in ("1.0.0", "2.0.0")
    )
    assert build_key(first) == build_key(second) == KEY


@pytest.mark.requirement("R2", "R3")
def test_interrupted_call_is_reported_with_unknown_outcome() -> None:
    problem = build_interrupted(KEY)
    assert (problem.kind, problem.can_retry) == (Kind.INTERRUPTED, False)
    assert "unknown" in problem.message
    left = build_abandoned_ending(Tool(name="pay"))
    assert isinstance(left.result, Problem)
    assert (left.result.kind, left.state, left.pinned) == (Kind.CANCELLED, CallState.CANCELLED, True)
    assert not build_abandoned_ending(Tool(name="look", safe=True)).pinned


@pytest.mark.requirement("A-42")
def test_ledger_refuses_another_call_under_a_used_key() -> None:
    assert build_conflict(KEY).kind is Kind.CONFLICT
    assert "This idempotency key was already used for another call of" in build_conflict(KEY).message


def test_replayed_result_is_marked_as_replayed() -> None:
    assert mark_replayed({"a": 1}) == {"a": 1, "replayed": True}
    assert is_replayed(Value(1, notes=mark_replayed(None)))
    assert is_replayed(Problem(kind=Kind.INTERNAL, message="No.", details=mark_replayed(None)))
    assert not is_replayed(Value(1))
    assert not is_replayed(Problem(kind=Kind.INTERNAL, message="No."))


@pytest.mark.requirement("A-42", "D-34")
@given(st.data(), st.integers(0, 60), st.integers(0, 70), st.integers(0, 8))
def test_excess_is_the_least_that_a_caller_must_lose_for_room(
    data: st.DataObject, most: int, total: int, more: int
) -> None:
    held = data.draw(st.integers(0, total))

    def has_room(lost: int) -> bool:
        free = most - (total - lost) - more
        return free >= 0 and (lost == held or held - lost + more <= 3 * free)

    excess = compute_excess(held, more, total, most)
    assert excess > held or has_room(excess)
    assert not any(has_room(lost) for lost in range(min(excess, held)))
