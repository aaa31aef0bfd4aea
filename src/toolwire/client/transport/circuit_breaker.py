"""Refuse requests to a server that does not answer for a while, so that calls fail at once and not at their limit.

Rules:
- After so many failures in a row of one origin, its requests are refused for some seconds.
- Then one request is let through. If it fails, the pause is twice as long, up to a minute.
- Any response closes the breaker: a status of 500 is an answer too. What the rules of this side refuse does not count.
"""
# R12

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from toolwire.core.dataclass import dataclass
from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem
from toolwire.telemetry.upstreams import report_breaker

_FAILURES = frozenset({"dns", "refused", "tls", "timeout", "closed", "not_http"})
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0
_ORIGINS = 256


@dataclass(slots=True)
class _Circuit:
    """The failures in a row of one origin. While it is open, ``pause_s`` is positive, and ``until`` is its end."""

    failures: int = 0
    pause_s: float = 0.0
    until: float = 0.0
    is_tried: bool = False


class CircuitBreaker:
    """The breakers of one transport, by origin. ``failures`` open one; 0 is no breaker.

    While ``circuits`` is empty, no origin has failed: then none is refused, and no response need be recorded.
    """

    __slots__ = ("_clock", "_failures", "circuits")

    def __init__(self, failures: int, clock: Callable[[], float]) -> None:
        self._failures = failures
        self._clock = clock
        self.circuits: dict[str, _Circuit] = {}

    def refuse(self, origin: str) -> Problem | None:
        """Return why ``origin`` is not asked now, or None if it may be; then the outcome must be recorded."""
        circuit = self.circuits.get(origin)
        if circuit is None or not circuit.pause_s:
            return None
        now = self._clock()
        if now < circuit.until:
            return _build_refusal(origin, circuit.failures, circuit.until - now)
        # Until the outcome of this request is known, others wait; if it never is, for one more pause.
        circuit.until = now + circuit.pause_s
        circuit.is_tried = True
        return None

    def record(self, origin: str, outcome: Response | Problem) -> None:
        """Count an outcome of ``origin``."""
        if isinstance(outcome, Response):
            self._close(origin)
            return
        if not self._failures or outcome.details.get("reason") not in _FAILURES:
            return
        circuit = self.circuits.get(origin)
        if circuit is None:
            # A table that is emptied at its limit needs no bookkeeping for each call.
            if len(self.circuits) >= _ORIGINS:
                self.circuits.clear()
            circuit = self.circuits[origin] = _Circuit()
        circuit.failures += 1
        if circuit.is_tried:
            circuit.is_tried = False
            circuit.pause_s = min(2 * circuit.pause_s, _LONGEST_PAUSE_S)
        elif circuit.pause_s or circuit.failures < self._failures:
            return  # requests that were sent before it opened say nothing new
        else:
            circuit.pause_s = _FIRST_PAUSE_S
            report_breaker(origin, is_open=True)
        circuit.until = self._clock() + circuit.pause_s

    def _close(self, origin: str) -> None:
        circuit = self.circuits.pop(origin, None)
        if circuit is not None and circuit.pause_s:
            report_breaker(origin, is_open=False)


def _build_refusal(origin: str, failures: int, wait_s: float) -> Problem:
    seconds = ceil(wait_s)
    return Problem(
        kind=Kind.UNREACHABLE,
        message=f"{origin} failed {failures} times in a row, so it is asked again in {seconds} s; nothing was sent.",
        can_retry=True,
        retry_after_ms=ceil(wait_s * 1_000),
        details={"reason": "breaker", "sent": False},
    )
