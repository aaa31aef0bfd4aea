"""Define the call ledger, which remembers calls that carry an idempotency key, so that none runs twice.

Rules:
- A key belongs to the first call that uses it. A different call with the same key is refused.
- A tool that is not declared idempotent runs at most once for a key, unless its own result said ``can_retry``.
- A call that was refused before it ran is not recorded. A call whose server died while it ran is ``interrupted``.
"""
# the rules above.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from hashlib import sha256
from types import MethodType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from .model import AFTER_START, Call, Kind, Problem, Result, Tool, Value


class CallKey(NamedTuple):
    """What makes two calls the same call: the caller, the tool without its version, and the caller's own id."""

    principal: str
    tool: str
    call_id: str


class CallState(StrEnum):
    """The state of a recorded call. ``ACCEPTED``: an engine queued the call, and it has not started."""

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
    """The right to run a claimed call once. ``attempt`` counts from 1; ``owner`` is the ledger's mark of its holder."""

    key: CallKey
    owner: Any
    attempt: int


class CallEnding(NamedTuple):
    """How a call ended. If it is not ``pinned``, the next claim with the key runs the tool again."""

    state: CallState
    result: Result
    pinned: bool


make_key: Final = cast("Callable[[tuple[str, str, str]], CallKey]", MethodType(tuple.__new__, CallKey))
make_claim: Final = cast("Callable[[tuple[CallKey, bytes, bool, int]], Claim]", MethodType(tuple.__new__, Claim))
make_ticket: Final = cast("Callable[[tuple[CallKey, Any, int]], Ticket]", MethodType(tuple.__new__, Ticket))
make_ending: Final = cast(
    "Callable[[tuple[CallState, Result, bool]], CallEnding]", MethodType(tuple.__new__, CallEnding)
)
"""Make each value from a tuple of all its fields, in half the time: they are made for each call."""


class StoredResult(NamedTuple):
    """The call has already run: this is its result."""

    result: Result


class InFlight(NamedTuple):
    """The call runs now, here or in another process. Wait and claim again to get its result."""

    attempt: int


ClaimOutcome: TypeAlias = Ticket | StoredResult | InFlight | Problem
"""The outcome of a claim. A Problem is CONFLICT, or OVERLOADED if nothing can be recorded now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLimits:
    """The limits of one ledger: ``rows`` and ``bytes`` in total, ``answer_bytes`` for one result.

    ``keep_s`` is the longest time that an ended call is kept. If the ledger is full, a caller who needs room loses the
    oldest of their own ended calls earlier, up to a thousandth of ``rows`` at a time, never a call of another caller.
    """

    rows: int = 100_000
    bytes: int = 256 << 20
    answer_bytes: int = 1 << 20
    keep_s: float = 86_400.0


def compute_excess(used: int, more: int, total: int, most: int) -> int:
    """Return how much of ``used`` a caller must lose before it may take ``more``; 0 if it may take that now.

    All callers hold ``total``, and may hold ``most``. One caller holds at most three times what stays free, so that
    there is room for other callers, however many.
    """
    free = most - total - more
    over = used + more - _MAX_PART * free
    # What the caller loses becomes free, and counts three times on the other side. The division rounds up.
    return max(-free, -(-over // (1 + _MAX_PART)) if used else 0, 0)


class Ledger(Protocol):
    """A store of recorded calls. No method raises: a failure is a Problem or a line in the log."""

    async def claim(self, claim: Claim) -> ClaimOutcome:
        """Return the ticket for a call that may run now, or why it may not. One of concurrent claims gets it."""
        ...

    async def finish(self, ticket: Ticket, ending: CallEnding | None) -> None:
        """Record how the call of ``ticket`` ended; ``None`` forgets this run, as if it had never been claimed.

        After ``None``, the key is as it was before the run: it still belongs to the call that came first.

        ``finish`` may run twice for one ticket, the second time after a cancellation during the first. The first that
        takes effect holds; the second does nothing, even if another run has got the key meanwhile. So a ledger that
        waits in here never gives out a ticket twice.
        """
        ...


class ClaimAction(Enum):
    """What to do with a claim."""

    RUN = auto()
    REPLAY = auto()
    WAIT = auto()
    INTERRUPT = auto()
    REFUSE = auto()


class LedgerRow(NamedTuple):
    """What a ledger stores for a key. ``owned`` is ``False`` if the process that ran the call is gone."""

    fingerprint: bytes
    state: CallState
    owned: bool
    pinned: bool
    attempt: int


def decide_claim(row: LedgerRow | None, claim: Claim) -> ClaimAction:
    """Return what to do with ``claim``, given the row of its key. All ledgers share this decision."""
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
    """Return ``claim`` with the SHA-256 of its fingerprint instead of the fingerprint."""
    key, fingerprint, can_rerun, awaited_attempt = claim
    return make_claim((key, sha256(fingerprint).digest(), can_rerun, awaited_attempt))


def build_key(call: Call) -> CallKey:
    """Return the key of ``call``."""
    return CallKey(call.context.principal, call.tool.id.partition("@")[0], call.key)


def can_rerun(tool: Tool) -> bool:
    """Return whether ``tool`` may run again when it is unknown whether it ran."""
    return tool.idempotent or tool.safe


def build_ending(tool: Tool, result: Result) -> CallEnding | None:
    """Return the ending to record for a call with this ``result``, or ``None`` if the tool did not run.

    A result that leaves open what happened is pinned only for a tool that must not run twice.
    """
    #
    if isinstance(result, Value):
        return make_ending((_DONE, result, True))
    if result.kind not in _RAN:
        return None
    known = result.kind is Kind.TOOL_FAILED
    return CallEnding(get_state(result), result, pinned=not result.can_retry and (known or not can_rerun(tool)))


def get_state(result: Result) -> CallState:
    """Return the state of a call that ended with ``result``."""
    return CallState.DONE if isinstance(result, Value) else _STATES.get(result.kind, CallState.FAILED)


def build_abandoned_ending(tool: Tool) -> CallEnding:
    """Return the ending of a call that was cancelled because its caller left."""
    text = f"{tool.name} was cancelled when its caller disconnected. It is unknown whether it completed."
    return CallEnding(CallState.CANCELLED, Problem(kind=Kind.CANCELLED, message=text), pinned=not can_rerun(tool))


def build_interrupted(key: CallKey) -> Problem:
    """Return the Problem of a call whose server died while it ran."""
    # R2, R3
    text = f"{key.tool} was interrupted when its server stopped. It is unknown whether it completed."
    return Problem(kind=Kind.INTERRUPTED, message=text, details={"interrupted": True})


def build_conflict(key: CallKey) -> Problem:
    """Return the Problem of a different call with a key that is in use."""
    #
    text = f"This idempotency key was already used for another call of {key.tool}. Use a new key for a new call."
    return Problem(kind=Kind.CONFLICT, message=text)


def is_replayed(result: Result) -> bool:
    """Return whether ``result`` is a stored result that is returned again."""
    facts = result.notes if isinstance(result, Value) else result.details
    return facts is not None and facts.get("replayed") is True


def mark_replayed(facts: Mapping[str, object] | None) -> dict[str, object]:
    """Return ``facts`` with the mark of a stored result that is returned again."""
    return {**(facts or {}), "replayed": True}


FULL = Problem(
    kind=Kind.OVERLOADED,
    message="The call did not run: all recorded calls are still running, so the record of calls is full.",
    can_retry=True,
    retry_after_ms=5_000,
)
UNAVAILABLE = Problem(
    kind=Kind.OVERLOADED,
    message="The call did not run: calls cannot be recorded now, so calls with an idempotency key are refused.",
    can_retry=True,
    retry_after_ms=5_000,
)

_MAX_PART = 3
_DONE = CallState.DONE  # looking up a member of an enumeration takes as long as ten other names
_RAN = AFTER_START | {Kind.UNREACHABLE, Kind.BAD_ANSWER}
_STATES = {Kind.CANCELLED: CallState.CANCELLED, Kind.INTERRUPTED: CallState.INTERRUPTED}
