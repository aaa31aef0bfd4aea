"""The decision that all ledgers share, and what is remembered of an answer."""

import pytest

from toolwire.core.ledger import Claim, Key, Row, State, Step, ending, next_step
from toolwire.core.model import Kind, Problem, Tool, Value

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
