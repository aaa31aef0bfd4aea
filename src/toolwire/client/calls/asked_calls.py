"""Ask the user only once if the same call is made twice, in parallel or soon after a no.

Rules:
- A yes covers one call. If the same call is made again while the question waits, it is not sent. It gets the first
  call's result, with a note.
- A no counts for a minute. The same call gets it again, and nobody is asked.
- After a yes, the same call is a new call with its own question.
"""
# QF-03

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Protocol

from toolwire.consent.binding import REFUSAL_S
from toolwire.core.model import Kind, Problem, Result, Value

from .long_calls import LongCall

_MAX_REFUSALS = 1_000
_NOTE = (
    "the same call waited for the same answer of the user, which allows one call: it ran once, and this is its result"
)


class CallOutcome(Protocol):
    """A call's outcome besides its result: the last response's status, and the call that continues."""

    status: int | None
    long_call: LongCall | None


class AskedCall:
    """A call whose question waits. When it ``is_over``, ``result`` is its result, or None if it was abandoned.

    ``is_refused`` means that the user said no. ``is_permitted`` means that the yes also covers later calls.
    """

    __slots__ = ("is_over", "is_permitted", "is_refused", "result", "state")

    def __init__(self, state: CallOutcome) -> None:
        self.state: CallOutcome = state
        self.result: Result | None = None
        self.is_refused: bool = False
        self.is_permitted: bool = False
        self.is_over: bool = False

    def end(self, result: Result | None) -> None:
        """Give ``result`` to the same calls that wait."""
        self.result = result
        self.is_over = True


class AskedCalls:
    """A session's calls whose questions wait, and the refusals of the last minute, by call digest."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # calls run in several threads
        self._waiting: dict[str, AskedCall] = {}
        self._refusals: OrderedDict[str, tuple[float, Problem]] = OrderedDict()

    def find_refusal(self, key: str) -> Problem | None:
        """Return the user's no to the same call, if it is less than a minute old."""
        with self._lock:
            at, refusal = self._refusals.get(key, (0.0, None))
        return refusal if refusal is not None and self._clock() - at < REFUSAL_S else None

    def enter(self, key: str, state: CallOutcome) -> tuple[AskedCall, bool]:
        """Return the call that is asked about, and whether it is this call, which then must end it."""
        with self._lock:
            known = self._waiting.get(key)
            if known is not None:
                return known, False
            asked = self._waiting[key] = AskedCall(state)
            return asked, True

    def close(self, key: str, asked: AskedCall, refusal: Problem | None = None) -> None:
        """End the question of ``asked``. The same call is then a new one. Store ``refusal``, the user's no."""
        with self._lock:
            if self._waiting.get(key) is asked:
                del self._waiting[key]
            if refusal is not None:
                self._refusals.pop(key, None)
                self._refusals[key] = self._clock(), refusal
                if len(self._refusals) > _MAX_REFUSALS:
                    self._refusals.popitem(last=False)


def reuse_result(asked: AskedCall, result: Result, state: CallOutcome) -> Result:
    """Return the ``result`` of ``asked`` for the same call with ``state``, which was not sent."""
    state.status, state.long_call = asked.state.status, asked.state.long_call
    if isinstance(result, Value):
        return Value(deepcopy(result.value), {**(result.notes or {}), "same_call": _NOTE})
    if result.kind is Kind.DENIED:  # a model reads exactly these details
        return result
    return replace(result, details={**deepcopy(dict(result.details)), "same_call": _NOTE})
