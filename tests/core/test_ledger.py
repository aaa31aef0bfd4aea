"""The decision that all ledgers share, and what is remembered of an answer."""

import pytest

from toolwire.core.ledger import (
    Claim,
    Key,
    Row,
    State,
    Step,
    conflict,
    ending,
    given_up,
    interrupted,
    key_of,
    next_step,
    replayed,
    told_again,
)
from toolwire.core.model import Call, Context, Kind, Problem, Tool, Value

KEY = Key("ada", "Kit.pay", "k1")
ONCE, AGAIN = Claim(KEY, b"same", False), Claim(KEY, b"same", True)


def row(state: State, *, owned: bool = True, pinned: bool = True, fingerprint: bytes = b"same") -> Row:
    return Row(fingerprint, state, owned, pinned, 1)


@pytest.mark.requirement("R8", "A-42")
@pytest.mark.parametrize(
    ("known", "claim", "step"),
    [
        (None, ONCE, Step.RUN),
        (row(State.RUNNING), ONCE, Step.WAIT),
        (row(State.ACCEPTED), ONCE, Step.WAIT),
        (row(State.RUNNING, owned=False), ONCE, Step.INTERRUPT),
        (row(State.RUNNING, owned=False), AGAIN, Step.RUN),
        (row(State.ACCEPTED, owned=False), ONCE, Step.RUN),
        (row(State.DONE), ONCE, Step.REPLAY),
        (row(State.INTERRUPTED), ONCE, Step.REPLAY),
        (row(State.FAILED, pinned=False), ONCE, Step.RUN),
        (row(State.FAILED, pinned=False), ONCE._replace(waited=1), Step.REPLAY),
        (row(State.INTERRUPTED, pinned=False), AGAIN._replace(waited=1), Step.RUN),
        *((row(state, fingerprint=b"other"), AGAIN, Step.REFUSE) for state in State),
    ],
)
def test_what_a_claim_comes_to(known: Row | None, claim: Claim, step: Step) -> None:
    assert next_step(known, claim) is step


RAN = {Kind.TOOL_FAILED, Kind.TIMEOUT, Kind.CANCELLED, Kind.INTERRUPTED, Kind.INTERNAL}
OPEN = (RAN | {Kind.UNREACHABLE, Kind.BAD_ANSWER}) - {Kind.TOOL_FAILED}


@pytest.mark.requirement("A-42")
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("can_retry", [False, True])
def test_an_answer_is_kept_if_the_tool_ran_and_nobody_may_try_again(
    kind: Kind, idempotent: bool, can_retry: bool
) -> None:
    ended = ending(Tool(name="x", idempotent=idempotent), Problem(kind=kind, message="No.", can_retry=can_retry))
    if kind not in OPEN | {Kind.TOOL_FAILED}:
        assert ended is None
    else:
        assert ended is not None
        assert ended.pinned == (not can_retry and not (idempotent and kind in OPEN))


def test_a_value_is_always_kept() -> None:
    ended = ending(Tool(name="x", safe=True), Value(1))
    assert ended is not None
    assert (ended.state, ended.pinned) == (State.DONE, True)


def test_a_key_is_of_the_caller_and_of_the_tool_whatever_its_version() -> None:
    first, second = (
        Call(Tool(name="pay", toolkit="Kit", version=version), {}, "k1", Context(principal="ada"), key="k1")
        for version in ("1.0.0", "2.0.0")
    )
    assert key_of(first) == key_of(second) == KEY


@pytest.mark.requirement("R2", "R3")
def test_who_comes_back_hears_that_nobody_knows_whether_it_ran() -> None:
    problem = interrupted(KEY)
    assert (problem.kind, problem.can_retry) == (Kind.INTERRUPTED, False)
    assert "unknown" in problem.message
    left = given_up(Tool(name="pay"))
    assert isinstance(left.result, Problem)
    assert (left.result.kind, left.state, left.pinned) == (Kind.CANCELLED, State.CANCELLED, True)
    assert not given_up(Tool(name="look", safe=True)).pinned


@pytest.mark.requirement("A-42")
def test_another_call_under_a_key_that_is_taken_is_refused() -> None:
    assert conflict(KEY).kind is Kind.CONFLICT
    assert "send a new key" in conflict(KEY).message


def test_what_is_told_again_says_so() -> None:
    assert told_again({"a": 1}) == {"a": 1, "replayed": True}
    assert replayed(Value(1, notes=told_again(None)))
    assert replayed(Problem(kind=Kind.INTERNAL, message="No.", details=told_again(None)))
    assert not replayed(Value(1))
    assert not replayed(Problem(kind=Kind.INTERNAL, message="No."))
