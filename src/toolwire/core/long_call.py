"""Define long calls, which go on when their caller leaves, and the store that remembers them.

Rules:
- A call is in the store before its caller is told its id, and so is each change of its state.
- An id belongs to its caller. The id of another caller is answered like an id that does not exist.
- One process runs a call at a time. A process that lost a call cannot change it any more.
- A tool that is not declared idempotent starts at most once; a call whose process died then ends as ``interrupted``.
"""
# LC-01, LC-03, LC-04

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha256
from math import isfinite
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard

from .call_status import CallPage, CallStatus, LongCallState
from .model import Json, Kind, Problem, Progress, Result, Tool, Value

LONG_AFTER_S = 300.0
"""A tool whose ``timeout_s`` is above this many seconds is long, whether or not it says so."""
MAX_MESSAGE = 1_000
"""The most characters of a call's message that are kept."""


class NewCall(NamedTuple):
    """A call to accept.

    ``id`` cannot be guessed. ``key`` is a digest of the caller, the tool and the id that the caller chose, or empty: a
    call with a known key is that call, with the id that it has. ``fingerprint`` is a digest of everything that decides
    what the call does. ``request`` is what another process needs to run it, without any token or secret; it is empty if
    only this process can run the call. ``can_rerun`` says that the tool may run again when it is unknown whether it
    ran. ``keep_s`` is how long its end is kept.
    ``is_queued``: any worker may run it, not only the process that accepted it.
    """

    principal: str
    id: str
    key: str
    tool: str
    fingerprint: bytes
    request: bytes
    can_rerun: bool
    keep_s: float
    is_queued: bool = False


class Lease(NamedTuple):
    """The right to run a call, until it ends or another process takes it. ``attempt`` counts its runs from 1.

    ``answers`` are what the user answered so far to what the tool asked, by the name of the question.
    """

    id: str
    owner: int
    attempt: int
    principal: str
    request: bytes
    answers: Mapping[str, Json]


class CallChange(NamedTuple):
    """A change of a running call. ``None`` leaves a field as it is.

    ``input`` is what the tool asks before it goes on; the call is then ``waiting``, and no process runs it. ``result``
    ends the call. If it is not ``pinned``, the same call with the same key runs again.
    """

    progress: float | None = None
    message: str | None = None
    input: Mapping[str, Json] | None = None
    result: Result | None = None
    pinned: bool = True


Acceptance: TypeAlias = CallStatus | Problem
"""The status of a call that was accepted, now or earlier. A Problem is CONFLICT, RATE_LIMITED or OVERLOADED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCallLimits:
    """The limits of the store of long calls.

    ``each`` and ``each_bytes`` bound the calls of one caller, with their requests and results; ``open_each`` those of
    them that are not over. ``answer_bytes`` bounds one result. ``rows`` bounds all calls. A caller who needs room loses
    the oldest of their own calls that are over, never a call of another caller.
    """

    each: int = 1_000
    each_bytes: int = 64 << 20
    open_each: int = 100
    answer_bytes: int = 4 << 20
    rows: int = 1_000_000


class LongCallStore(Protocol):
    """A store of long calls. No method raises: a store that cannot be used is a Problem, which says to try later."""

    async def accept(self, new: NewCall) -> Acceptance:
        """Record ``new`` and return its status; for a key that is known, the status of that call."""
        ...

    async def find(self, key: str) -> CallStatus | Problem | None:
        """Return the status of the call with this ``key``; None if there is none."""
        ...

    async def claim(self, call_id: str, asked: Set[str] = frozenset()) -> Lease | Problem | None:
        """Return the right to run the call, or None: it is over, it runs elsewhere, or it must not run again.

        A call whose process died, and which must not run again, is recorded as interrupted here, unless it has no
        answer to one of the questions that it ``asked``, by name, before it would start.
        """
        ...

    async def change(self, lease: Lease, change: CallChange) -> CallStatus | Problem | None:
        """Record ``change`` and return the status after it; None if ``lease`` is lost, so that nothing changed."""
        ...

    async def read(self, principal: str, call_id: str) -> CallStatus | Problem | None:
        """Return the status of a caller's call with its result; None if there is none."""
        ...

    async def list_calls(self, principal: str, limit: int, cursor: str = "") -> CallPage | Problem:
        """Return at most ``limit`` calls of a caller, newest first, from ``cursor`` on."""
        ...

    async def cancel(self, principal: str, call_id: str) -> CallStatus | Problem | None:
        """Ask to cancel a call and return its status. One that no process runs is cancelled at once."""
        ...

    async def cancel_removed(self, is_removed: Callable[[str], bool]) -> int | Problem:
        """Cancel all calls of the callers that ``is_removed`` is true of, and return how many these are."""
        ...

    async def answer(self, principal: str, call_id: str, answers: Mapping[str, Json]) -> CallStatus | Problem | None:
        """Record answers to what a waiting call asks, by name, and return its status; others are ignored.

        Once everything is answered, the call is ``accepted`` again, and may be claimed.
        """
        ...

    async def renew(self) -> Mapping[str, bool] | Problem:
        """Keep the calls of this process for another while: each id, and whether its caller asked to cancel it."""
        ...

    async def find_ready(self, limit: int) -> Sequence[str] | Problem:
        """Return the ids of calls that this process may claim: accepted ones, and those whose process died."""
        ...


class CallWork(Protocol):
    """What runs the calls that an engine was offered: ``run`` returns when the call is over or runs elsewhere."""

    async def run(self, call_id: str) -> None:
        """Run the call if it may run now. More than one offer of a call does no harm."""
        ...


class CallEngine(Protocol):
    """Where accepted calls are offered to be run: in this process, or by workers on other machines.

    An engine may offer a call more than once, and to several workers at the same time: the store decides whether it
    runs. An engine that loses a call does no harm either: each process looks for calls that nobody runs.
    """

    is_shared: bool
    """Whether other processes run what this engine is offered."""

    async def begin(self, work: CallWork) -> None:
        """Begin to run calls with ``work``, if this process is a worker."""
        ...

    async def enqueue(self, call_id: str) -> bool:
        """Offer a call that is in the store; return whether the engine took it. It never waits for the call."""
        ...

    async def end(self, grace_s: float) -> None:
        """Stop: give running calls ``grace_s`` seconds, then cancel them."""
        ...


class AcceptAction(Enum):
    """What to do with a call to accept."""

    ADD = auto()
    KNOWN = auto()
    AGAIN = auto()
    REFUSE = auto()


class ClaimRun(Enum):
    """What to do with a claim of a long call."""

    RUN = auto()
    LEAVE = auto()
    CANCEL = auto()
    INTERRUPT = auto()


class LongCallRow(NamedTuple):
    """What a store knows of a call. ``is_held`` is False if no living process has it."""

    fingerprint: bytes
    state: LongCallState
    is_held: bool
    pinned: bool
    can_rerun: bool
    has_request: bool
    cancel_asked: bool


def decide_acceptance(row: LongCallRow | None, new: NewCall) -> AcceptAction:
    """Return what to do with ``new``, given the row of its key. All stores share this decision."""
    if row is None:
        return AcceptAction.ADD
    if row.fingerprint != new.fingerprint:
        return AcceptAction.REFUSE
    return AcceptAction.AGAIN if row.state.is_final and not row.pinned else AcceptAction.KNOWN


def decide_run(row: LongCallRow, *, is_mine: bool) -> ClaimRun:
    """Return what to do when a process claims the call of ``row``; ``is_mine``: the claiming process accepted it."""
    is_new = row.state is LongCallState.ACCEPTED
    if row.state.is_final or row.state is LongCallState.WAITING or (row.is_held and not (is_mine and is_new)):
        return ClaimRun.LEAVE
    if row.cancel_asked:
        return ClaimRun.CANCEL
    can_run = row.has_request or is_mine if is_new else row.can_rerun and row.has_request
    return ClaimRun.RUN if can_run else ClaimRun.INTERRUPT


def digest_call_key(principal: str, tool: str, key: str) -> str:
    """Return what stands for the ``key`` that a caller chose for a call of ``tool``; no other caller's is the same."""
    # The id of the call is random nevertheless: callers without names choose keys that others can guess.
    parts = "".join(f"{len(part)}:{part}" for part in (principal, tool, key))
    return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def is_long(tool: Tool) -> bool:
    """Return whether calls of ``tool`` go on when their caller leaves."""
    return tool.long or (tool.timeout_s is not None and tool.timeout_s > LONG_AFTER_S)


def read_progress(progress: Progress) -> tuple[float | None, str | None]:
    """Return the part from 0 to 1 and the message that ``progress`` says; None for what it does not say.

    A number is a part if it is from 0 to 1. An object has ``progress``, perhaps with ``total``, and ``message``.
    """
    value = progress.value
    if isinstance(value, str):
        return None, value[:MAX_MESSAGE]
    data: Mapping[str, Json] = value if isinstance(value, dict) else {"progress": value}
    part, total, message = data.get("progress"), data.get("total", 1), data.get("message")
    text = message[:MAX_MESSAGE] if isinstance(message, str) else None
    if not _is_number(part) or not _is_number(total) or total <= 0 or not 0 <= part <= total:
        return None, text
    try:
        return part / total, text
    except OverflowError:  # a whole number of any length is no float
        return None, text


def _is_number(value: Json) -> TypeGuard[float]:
    return type(value) is int or (type(value) is float and isfinite(value))


def choose_state(result: Result) -> LongCallState:
    """Return the state of a call that ended with ``result``."""
    if isinstance(result, Value):
        return LongCallState.ENDED
    return _STATES.get(result.kind, LongCallState.ENDED)


def build_interruption(tool: str, *, has_started: bool) -> Problem:
    """Return the result of a call whose process died, and which no other process may run."""
    if not has_started:
        text = (
            f"{tool} did not start: its server stopped first, and the call needs a secret that is not "
            "stored. Call it again."
        )
        return Problem(kind=Kind.INTERRUPTED, message=text, details={"interrupted": True})
    text = f"{tool} was interrupted when its server stopped. It is unknown whether it completed."
    return Problem(kind=Kind.INTERRUPTED, message=text, details={"interrupted": True})


def build_cancellation(tool: str) -> Problem:
    """Return the result of a call that its caller cancelled."""
    return Problem(kind=Kind.CANCELLED, message=f"{tool} was cancelled by its caller.")


def build_unanswered(tool: str) -> Problem:
    """Return the result of a call whose user did not decide in time, or whose caller withdrew the question."""
    return Problem(
        kind=Kind.DENIED,
        message=f"{tool} was not called, because its user did not decide in time.",
        details={"denied": True, "reason": "timeout"},
    )


def build_continuation(status: CallStatus, *, has_key: bool, retry_after_ms: int = 1_000) -> Problem:
    """Return why a long call has no value yet; ``details`` has its id and state for programs.

    ``has_key``: the caller chose an id for the call, so that the same call sent again gets its result. Any other call
    that is sent again is a new call, so it must not be sent again.
    """
    how = "send the same call again, or ask for its result by this id" if has_key else "ask for its result by this id"
    return Problem(
        kind=Kind.ACCEPTED,
        message=f"{status.tool} continues as call {status.id}: {how}.",
        can_retry=has_key,
        retry_after_ms=retry_after_ms,
        details={"call": {"id": status.id, "state": status.state.value}},
    )


UNAVAILABLE = Problem(
    kind=Kind.OVERLOADED,
    message="Long calls cannot be recorded or read now. Try again later.",
    can_retry=True,
    retry_after_ms=5_000,
)
FULL = Problem(
    kind=Kind.OVERLOADED,
    message="The call did not run: the store of long calls is full.",
    can_retry=True,
    retry_after_ms=60_000,
)
NO_CALL = Problem(kind=Kind.NOT_FOUND, message="You have no call with this ID on this server.")
"""The answer to an id that is unknown, or another caller's."""


def build_too_many(limits: LongCallLimits) -> Problem:
    """Return the refusal of a call of a caller who has too many that are not over."""
    text = f"You have {limits.open_each} long calls here that are not over, or no room for another one"
    return Problem(
        kind=Kind.RATE_LIMITED,
        message=f"{text}, so this one did not run. Wait for one to finish, or cancel one.",
        can_retry=True,
        retry_after_ms=10_000,
    )


_STATES = {Kind.CANCELLED: LongCallState.CANCELLED, Kind.INTERRUPTED: LongCallState.INTERRUPTED}
