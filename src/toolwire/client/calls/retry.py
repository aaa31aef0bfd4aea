"""Repeat a call where that is safe, within limits on attempts and time.

Rules:
- A call is repeated unchanged, under its own id, only if it cannot run twice: the server recognizes repeated ids, or
  the tool only reads or is declared idempotent.
- If the tool ran, failed, and says that a new call may succeed, a new call is made under a new id.
- If a server asks for a longer wait than the limits allow, the call is not repeated.
"""

# C-11, A-41, A-42: only what cannot run twice is repeated. OTC-030, OXP-015: a new call has a new id.
# OTC-032: attempts and waits are bounded.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import urandom
from random import random

from toolwire.core.codec import Codec, Flow, Peer, pause
from toolwire.core.http import Request
from toolwire.core.model import Call, Kind, Problem, Result, Tool, Value


def new_id() -> str:
    """Return a random UUID (version 4) as text."""
    # A-37, C-9: each call has a new id. ``str(uuid4())`` takes more than twice the time.
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


_NOTHING_RAN = frozenset({Kind.RATE_LIMITED, Kind.OVERLOADED})
# The connection failed, and a new one may succeed. With any other reason, such as "tls" or "blocked", a repetition
# would fail again.
_LOST = frozenset({"dns", "refused", "timeout", "closed"})
_FIRST_S = 0.2
_SPREAD = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How often a call may be repeated, and how many seconds all waits together may take.

    ``chance`` returns a number from 0 to 1; it spreads the waits of many clients. ``new_id`` returns a new call id.

    Raises:
        ValueError: ``retries`` is not 0 to 10, or ``total_s`` is negative.
    """

    retries: int = 2
    total_s: float = 30.0
    chance: Callable[[], float] = random
    new_id: Callable[[], str] = new_id

    def __post_init__(self) -> None:
        if type(self.retries) is not int or not 0 <= self.retries <= 10:
            raise ValueError(f"retries must be a number from 0 to 10, not {self.retries!r}")
        if not self.total_s >= 0:
            raise ValueError(f"total_s must be a number of seconds, not {self.total_s!r}")


DEFAULT_RETRIES = RetryLimits()


def send_with_retries(
    codec: Codec, peer: Peer, call: Call, limits: RetryLimits, *, is_confirmed: bool = False
) -> Flow[Result]:
    """Send ``call``, repeat it where that is allowed and can help, and return its result; see ``retry_call``."""
    result = yield from codec.send(peer, call)
    if isinstance(result, Problem):
        result = yield from retry_call(codec, peer, call, limits, result, is_confirmed=is_confirmed)
    return result


def retry_call(
    codec: Codec, peer: Peer, call: Call, limits: RetryLimits, problem: Problem, *, is_confirmed: bool = False
) -> Flow[Result]:
    """Repeat ``call`` after ``problem`` where that is allowed and can help, and return its last result.

    After more than one attempt, the result has their number as ``attempts``: in the notes of a Value, in the details
    of a Problem. With ``is_confirmed``, the call carries a confirmation, which is valid once: no new call is made after
    it, and a repetition that the server wants confirmed again does not hide the failure before it.
    """
    result: Result = problem
    left_s = limits.total_s
    attempts = 1
    while isinstance(result, Problem) and attempts <= limits.retries:
        following = find_next_attempt(peer, call, result, limits.new_id)
        # Sending it again could run the tool twice, or cannot help.
        if following is None or (is_confirmed and following is not call):
            break
        wait_s = _find_wait_s(result, attempts, limits.chance())
        if wait_s > left_s:
            break
        yield from pause(wait_s)
        left_s -= wait_s
        attempts += 1
        call = following
        failure, result = result, (yield from codec.send(peer, call))
        if is_confirmed and isinstance(result, Problem) and result.kind is Kind.UNCONFIRMED:
            result = failure
            break
    return _add_attempts(result, attempts)


def find_next_attempt(peer: Peer, call: Call, problem: Problem, new_id: Callable[[], str]) -> Call | None:
    """Return the call to make after ``call`` ended with ``problem``, or None if it must not be repeated."""
    if not (peer.deduplicates_calls or call.tool.safe or call.tool.idempotent) or call.tool.streams:
        return None  # C-11: it may have run, or its progress was shown already
    if problem.kind is Kind.ACCEPTED:
        return None  # LC-05: it goes on, and is asked about by its id
    if problem.kind in _NOTHING_RAN:
        return call
    if problem.kind is Kind.UNREACHABLE:
        # A server that is being started, such as a program, says when it will be there.
        return call if problem.details.get("reason") in _LOST or problem.retry_after_ms is not None else None
    if not problem.can_retry:
        return None
    id_ = new_id()
    context = replace(call.context, call_id=id_) if call.context.call_id else call.context
    return call._replace(call_id=id_, context=context)


def relies_on_claim(peer: Peer, tool: Tool, request: Request | None, retries: RetryLimits) -> bool:
    """Return whether a call may be repeated only because its site claims that it is idempotent."""
    if not retries.retries or not tool.idempotent or tool.safe or tool.streams or peer.deduplicates_calls:
        return False
    return request is None or request.method not in _IDEMPOTENT


# RFC 9110, 9.2.2: twice has the effect of once with these methods. QUERY is newer, and only reads.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "QUERY", "PUT", "DELETE"})
REPEAT_NOTICE = (
    "If no answer arrives, the request is sent again: the server says that repeating it has no further effect."
)


def _find_wait_s(problem: Problem, attempts: int, chance: float) -> float:
    """Return the seconds to wait: what the server asked for, or twice as long after each attempt.

    A random share is added, so that many clients do not come back at the same moment.
    """
    asked_s = problem.retry_after_ms / 1_000 if problem.retry_after_ms is not None else _FIRST_S * 2 ** (attempts - 1)
    return asked_s * (1 + _SPREAD * chance)


def _add_attempts(result: Result, attempts: int) -> Result:
    if attempts == 1:
        return result
    if isinstance(result, Value):
        return replace(result, notes={**(result.notes or {}), "attempts": attempts})
    return replace(result, details={**result.details, "attempts": attempts})
