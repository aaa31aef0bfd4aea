"""The call ledger: what is remembered of calls that carry their caller's own key, so that none runs twice.

Rules:
- A key belongs to the first call that came under it; another call under the same key is refused.
- A tool that is not declared idempotent runs at most once under a key, unless its own answer said ``can_retry``.
- What was refused before it ran is not recorded. What was running when its server died is ``interrupted``.
"""
# the rules above.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from hashlib import sha256
from types import MethodType
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from .model import AFTER_START, Call, Kind, Problem, Result, Tool, Value


class CallKey(NamedTuple):
    """What makes two calls the same call: whose it is, of which tool (without its version), and the caller's id."""

    principal: str
    tool: str
    call_id: str


class CallState(StrEnum):
    """Where a recorded call stands. ``ACCEPTED`` is taken by an engine that queues, and nothing of it has run."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


# D-26: arguments are not kept in a file.
class Claim(NamedTuple):
    """A request to run a call under its key.

    ``fingerprint`` is everything that decides what the call does, at any length; it holds no secret. A ledger that
    outlives its process stores only a digest of it, made by ``digest_fingerprint``.

    ``can_rerun`` says that the tool may run again when it is unknown whether it ran. ``awaited_attempt`` is the attempt
    that this claim waited for, 0 for none: a caller that waited gets that attempt's failure and does not retry.
    """

    key: CallKey
    fingerprint: bytes
    can_rerun: bool
    awaited_attempt: int = 0


class Ticket(NamedTuple):
    """The right to run a claimed call, once; ``attempt`` counts from 1, ``owner`` is as the ledger knows who has it."""

    key: CallKey
    owner: Any
    attempt: int


class CallEnding(NamedTuple):
    """How a call ended. Unless ``pinned``, the next claim under the key runs the tool again."""

    state: CallState
    result: Result
    pinned: bool


make_key = cast("Callable[[tuple[str, str, str]], CallKey]", MethodType(tuple.__new__, CallKey))
make_claim = cast("Callable[[tuple[CallKey, bytes, bool, int]], Claim]", MethodType(tuple.__new__, Claim))
make_ticket = cast("Callable[[tuple[CallKey, Any, int]], Ticket]", MethodType(tuple.__new__, Ticket))
make_ending = cast("Callable[[tuple[CallState, Result, bool]], CallEnding]", MethodType(tuple.__new__, CallEnding))
"""The same from all fields in their order, at half the cost: for those that are made for each call."""


class StoredResult(NamedTuple):
    """The call has been run: this is its answer."""

    result: Result


class InFlight(NamedTuple):
    """The call runs now, here or in another process. Claim again, having waited, to hear how it ended."""

    attempt: int


ClaimOutcome: TypeAlias = Ticket | StoredResult | InFlight | Problem
"""What a claim comes to; the Problem is CONFLICT, or OVERLOADED where nothing can be recorded now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLimits:
    """The bounds of one ledger. ``rows`` and ``bytes`` are of everything in it, ``answer_bytes`` of one answer.

    ``keep_s`` is how long an ended call is kept at the most. A caller who needs room in a full ledger loses the oldest
    of their own ended calls earlier, and nobody loses one for another.
    """

    rows: int = 100_000
    bytes: int = 256 << 20
    answer_bytes: int = 1 << 20
    keep_s: float = 86_400.0


def has_room(held: int, more: int, total: int, most: int) -> bool:
    """Return whether a caller who holds ``held`` of ``total`` may take ``more``, where there may be ``most`` in all.

    A caller holds at most three times what stays free, so that one caller's calls leave room for those of others,
    however many callers there are.
    """
    free = most - total - more
    return free >= 0 and (not held or held + more <= _SHARE * free)


class Ledger(Protocol):
    """Whatever remembers recorded calls. Nothing raises: what cannot be recorded is a Problem, or a line in the log."""

    async def claim(self, claim: Claim) -> ClaimOutcome:
        """Return the ticket for a call that may run now, or why it does not. One of many at once gets the ticket."""
        ...

    async def settle(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Remember how the call of ``ticket`` ended; None forgets this run of it, as if it had never come.

        What was known under the key before this run is then known again: a key stays with the call that came first.
        It may come twice for one ticket, the second time from whoever was cancelled during the first. Then the first
        that took effect holds and the second does nothing, whatever it says, also where the key has been given to
        another run in between: so a ledger that waits in here gives no ticket twice, not even after None.
        """
        ...


class ClaimAction(Enum):
    """What is to be done with a claim."""

    RUN = auto()
    REPLAY = auto()
    WAIT = auto()
    INTERRUPT = auto()
    REFUSE = auto()


class LedgerRow(NamedTuple):
    """What a ledger knows under a key. ``owned`` is False where the process that took the call is gone."""

    fingerprint: bytes
    state: CallState
    owned: bool
    pinned: bool
    attempt: int


def decide_claim(row: LedgerRow | None, claim: Claim) -> ClaimAction:
    """Return what ``claim`` comes to, given what is known under its key. The one decision all ledgers share."""
    # R8
    if row is None:
        return ClaimAction.RUN
    if row.fingerprint != claim.fingerprint:
        return ClaimAction.REFUSE
    if row.state in (CallState.ACCEPTED, CallState.RUNNING):
        if row.owned:
            return ClaimAction.WAIT
        return ClaimAction.RUN if claim.can_rerun or row.state is CallState.ACCEPTED else ClaimAction.INTERRUPT
    awaited = row.attempt == claim.awaited_attempt and row.state is CallState.FAILED
    return ClaimAction.REPLAY if row.pinned or awaited else ClaimAction.RUN


def digest_fingerprint(claim: Claim) -> Claim:
    """Return ``claim`` with the SHA-256 of its fingerprint in the place of that."""
    return claim._replace(fingerprint=sha256(claim.fingerprint).digest())


def build_key(call: Call) -> CallKey:
    """Return the key of ``call``."""
    return CallKey(call.context.principal, call.tool.id.partition("@")[0], call.key)


def can_rerun(tool: Tool) -> bool:
    """Return whether ``tool`` may run again where nobody knows whether it did."""
    return tool.idempotent or tool.safe


def build_ending(tool: Tool, result: Result) -> CallEnding | None:
    """Return how a call that gave ``result`` is remembered; None where nothing ran.

    An answer that leaves open what happened is kept for a tool that must not run twice, and only for such.
    """
    #
    if isinstance(result, Value):
        return make_ending((_DONE, result, True))
    if result.kind not in _RAN:
        return None
    known = result.kind is Kind.TOOL_FAILED
    return CallEnding(get_state(result), result, pinned=not result.can_retry and (known or not can_rerun(tool)))


def get_state(result: Result) -> CallState:
    """Return where a call stands that ended with ``result``."""
    return CallState.DONE if isinstance(result, Value) else _STATES.get(result.kind, CallState.FAILED)


def build_abandoned_ending(tool: Tool) -> CallEnding:
    """Return how a call ends that was cancelled while its caller was gone."""
    text = f"{tool.name} was cancelled when its caller left; whether it did its work is unknown."
    return CallEnding(CallState.CANCELLED, Problem(kind=Kind.CANCELLED, message=text), pinned=not can_rerun(tool))


def build_interrupted(key: CallKey) -> Problem:
    """Return the answer to a call whose server died while it ran."""
    # R2, R3
    text = f"{key.tool} was interrupted when its server stopped; whether it did its work is unknown."
    return Problem(kind=Kind.INTERRUPTED, message=text, details={"interrupted": True})


def build_conflict(key: CallKey) -> Problem:
    """Return the refusal of another call under a key that is taken."""
    #
    text = f"This key has come before, with another call of {key.tool}; send a new key with a new call."
    return Problem(kind=Kind.CONFLICT, message=text)


def is_replayed(result: Result) -> bool:
    """Return whether ``result`` was told before."""
    facts = result.notes if isinstance(result, Value) else result.details
    return facts is not None and facts.get("replayed") is True


def mark_replayed(facts: Mapping[str, object] | None) -> dict[str, object]:
    """Return ``facts`` with the mark of what was told before."""
    return {**(facts or {}), "replayed": True}


FULL = Problem(
    kind=Kind.OVERLOADED,
    message="The ledger of calls is full of calls that run; the call did not run.",
    can_retry=True,
    retry_after_ms=5_000,
)
UNAVAILABLE = Problem(
    kind=Kind.OVERLOADED,
    message="Calls cannot be recorded at the moment, so calls with a key are not run; the call did not run.",
    can_retry=True,
    retry_after_ms=5_000,
)

_SHARE = 3
_DONE = CallState.DONE  # a name of an enumeration costs as much to look up as ten others
_RAN = AFTER_START | {Kind.UNREACHABLE, Kind.BAD_ANSWER}
_STATES = {Kind.CANCELLED: CallState.CANCELLED, Kind.INTERRUPTED: CallState.INTERRUPTED}
