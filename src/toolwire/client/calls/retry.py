"""Calls that are made again where that is safe: a conversation around a codec's ``send``.

Rules:
- A call is sent again as it is, under its own id, only where it cannot run twice: the server keeps calls by their id,
  or the tool only reads or says that twice is as once. [C-11, A-41, A-42]
- Where the tool ran, failed, and says that a new call may work, there is a new call under a new id. [OTC-030, OXP-015]
- Attempts and waiting are bounded; a wait that is asked for is kept or nothing is sent. [OTC-032]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import random

from toolwire.core.codec import Codec, Flow, Peer, pause
from toolwire.core.http import Request
from toolwire.core.model import Call, Kind, Problem, Result, Tool, Value

from .call_ids import new_id

_NOTHING_RAN = frozenset({Kind.RATE_LIMITED, Kind.OVERLOADED})
_LOST = frozenset({"dns", "refused", "timeout", "closed"})
_FIRST_S = 0.2
_SPREAD = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How often a call may be made again, and how long all its waits together may take.

    ``chance`` gives a number from 0 to 1 that spreads the waits of many callers; ``new_id`` names a new call.

    Raises:
        ValueError: ``more`` is not 0 to 10, or ``total_s`` is negative.
    """

    retries: int = 2
    total_s: float = 30.0
    chance: Callable[[], float] = random
    new_id: Callable[[], str] = new_id

    def __post_init__(self) -> None:
        if type(self.retries) is not int or not 0 <= self.retries <= 10:
            raise ValueError(f"retries is a number from 0 to 10, not {self.retries!r}")
        if not self.total_s >= 0:
            raise ValueError(f"total_s is a number of seconds, not {self.total_s!r}")


DEFAULT_RETRIES = RetryLimits()


def send(codec: Codec, peer: Peer, call: Call, retries: RetryLimits) -> Flow[Result]:
    """Return how ``call`` ended, after more attempts where they are allowed and can help.

    With more than one, the result says how many: ``attempts`` in the notes of a Value, in the details of a Problem.
    """
    left_s = retries.total_s
    attempts = 1
    while True:
        result = yield from codec.send(peer, call)
        if not isinstance(result, Problem) or attempts > retries.retries:
            break
        following = find_next_attempt(peer, call, result, retries.new_id)
        if following is None:
            break
        wait_s = _find_wait_s(result, attempts, retries.chance())
        if wait_s > left_s:
            break
        yield from pause(wait_s)
        left_s -= wait_s
        attempts += 1
        call = following
    return _add_attempts(result, attempts)


def find_next_attempt(peer: Peer, call: Call, problem: Problem, new_id: Callable[[], str]) -> Call | None:
    """Return the call to make after ``call`` ended with ``problem``, or None where there is to be none. [C-11]"""
    if not (peer.deduplicates_calls or call.tool.safe or call.tool.idempotent) or call.tool.streams:
        return None  # it may have run, or its progress was shown already
    if problem.kind in _NOTHING_RAN:
        return call
    if problem.kind is Kind.UNREACHABLE:
        return call if problem.details.get("reason") in _LOST else None
    if not problem.can_retry:
        return None
    id_ = new_id()
    context = replace(call.context, call_id=id_) if call.context.call_id else call.context
    return call._replace(call_id=id_, context=context)


def relies_on_claim(peer: Peer, tool: Tool, request: Request | None, retries: RetryLimits) -> bool:
    """Return whether a call may be sent again only because its site says that twice is as once."""
    if not retries.retries or not tool.idempotent or tool.safe or tool.streams or peer.deduplicates_calls:
        return False
    return request is None or request.method not in _IDEMPOTENT


_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "QUERY", "PUT", "DELETE"})
SENT_AGAIN = "If no answer comes, this is sent again: the site says that twice is as once."


def _find_wait_s(problem: Problem, attempts: int, chance: float) -> float:
    """Return how long to wait: what was asked for, else twice as long each time; a little more for some than others."""
    asked_s = problem.retry_after_ms / 1_000 if problem.retry_after_ms is not None else _FIRST_S * 2 ** (attempts - 1)
    return asked_s * (1 + _SPREAD * chance)


def _add_attempts(result: Result, attempts: int) -> Result:
    if attempts == 1:
        return result
    if isinstance(result, Value):
        return replace(result, notes={**(result.notes or {}), "attempts": attempts})
    return replace(result, details={**result.details, "attempts": attempts})
