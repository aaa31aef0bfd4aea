"""Refuse requests to a server that does not answer for a while, so that calls fail at once and not at their limit.

Rules:
- After so many failures in a row of one origin, its requests are refused for some seconds.
- Then one request is let through. If it fails, the pause is twice as long, up to a minute.
- Any response closes the breaker: a status of 500 is an answer too. What the rules of this side refuse does not count.
- A request that was sent may have failed by what it contains. So the failures of one caller of a gateway stop its own
  requests alone, until requests of another caller fail too.
"""
# R12

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import ceil

from toolwire.core.http import Response
from toolwire.core.model import Kind, Problem
from toolwire.telemetry.counts import report_breaker

CALLER: ContextVar[str] = ContextVar("toolwire_caller", default="")
"""The caller of a gateway for whom a request is sent; empty for all others, who are one."""

_FAILURES = frozenset({"dns", "refused", "tls", "timeout", "closed", "not_http"})
_FIRST_PAUSE_S = 5.0
_MAX_PAUSE_S = 60.0
_ORIGINS = 256
_CALLERS = 1_024


@dataclass(slots=True)
class _Circuit:
    """The failures in a row of one origin, or of one caller there. While it is open, ``pause_s`` is positive.

    ``until`` is the end of the pause.
    """

    failures: int = 0
    pause_s: float = 0.0
    until: float = 0.0
    is_tried: bool = False
    callers: dict[str, _Circuit] = field(default_factory=dict)

    def try_at(self, now: float) -> float:
        """Return how many seconds are left of the pause; 0 if a request may be sent, whose outcome must be recorded."""
        if not self.pause_s:
            return 0.0
        if now < self.until:
            return self.until - now
        # Until the outcome of this request is known, others wait; if it never is, for one more pause.
        self.until = now + self.pause_s
        self.is_tried = True
        return 0.0

    def add_failure(self, most: int, now: float) -> bool:
        """Count a failure, and return whether it opens the circuit: the failure number ``most`` does."""
        self.failures += 1
        is_opened = not self.pause_s and self.failures >= most
        if self.is_tried:
            self.is_tried = False
            self.pause_s = min(2 * self.pause_s, _MAX_PAUSE_S)
        elif is_opened:
            self.pause_s = _FIRST_PAUSE_S
        else:
            return False  # requests that were sent before it opened say nothing new
        self.until = now + self.pause_s
        return is_opened


class CircuitBreaker:
    """The breakers of one transport, by origin. ``failures`` open one; 0 is no breaker.

    ``name`` stands for all origins in the metric: the name of an upstream, whose address is the operator's alone.
    While ``circuits`` is empty, no origin has failed: then none is refused, and no response need be recorded.
    """

    __slots__ = ("_clock", "_failures", "_name", "circuits")

    def __init__(self, failures: int, clock: Callable[[], float], name: str = "") -> None:
        self._failures = failures
        self._clock = clock
        self._name = name
        self.circuits: dict[str, _Circuit] = {}

    def refuse(self, origin: str) -> Problem | None:
        """Return why ``origin`` is not asked now, or None if it may be; then the outcome must be recorded."""
        circuit = self.circuits.get(origin)
        if circuit is None:
            return None
        now = self._clock()
        # First that of the caller: whose calls fail anyway does not use up the trial of all.
        own = circuit.callers.get(CALLER.get()) if circuit.callers else None
        if own is not None and (wait_s := own.try_at(now)):
            return _build_refusal(f"{origin} did not answer your last {own.failures} calls", wait_s, "caller")
        if wait_s := circuit.try_at(now):
            return _build_refusal(f"{origin} failed {circuit.failures} times in a row", wait_s, "all")
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
        caller, now = CALLER.get(), self._clock()
        # D-34: where nothing was sent, the server alone is the reason.
        if caller and outcome.details.get("sent", True):
            if len(circuit.callers) >= _CALLERS:
                circuit.callers.clear()
            own = circuit.callers.setdefault(caller, _Circuit())
            own.add_failure(self._failures, now)
            # The failure that opens the breaker for all must be that of another caller.
            if own.failures >= self._failures and not circuit.is_tried:
                return
        if circuit.add_failure(self._failures, now):
            self._report(origin)

    def _close(self, origin: str) -> None:
        circuit = self.circuits.pop(origin, None)
        if circuit is not None and circuit.pause_s:
            self._report(origin)

    def _report(self, origin: str) -> None:
        # PL-04
        changed = self.circuits.values() if self._name else filter(None, [self.circuits.get(origin)])
        report_breaker(self._name or origin, is_open=any(circuit.pause_s for circuit in changed))


def _build_refusal(what: str, wait_s: float, whose: str) -> Problem:
    return Problem(
        kind=Kind.UNREACHABLE,
        message=f"{what}. It is called again in {ceil(wait_s)} s; nothing was sent.",
        can_retry=True,
        retry_after_ms=ceil(wait_s * 1_000),
        details={"reason": "breaker", "breaker_of": whose, "sent": False},
    )
