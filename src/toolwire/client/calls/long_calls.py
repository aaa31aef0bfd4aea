"""Read, wait for and cancel calls that continue on the server when their caller disconnects.

Rules:
- Only reads are repeated, never the call. The user's approval covers them, because each request is built here from the
  call's ID and goes only to the server's origin.
- The server sets the pace, at most four times a second. Without its advice or without a change, the pauses grow to five
  seconds.
- Waiting ends when the caller's time is over, whatever the server says. The call continues, and its ID is in the
  result.
"""
# LC-05

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.codec import CallReading, Codec, Flow, Listen, Peer, intercept, pause
from toolwire.core.http import Request
from toolwire.core.model import PROGRESS_EVENT, Json, Kind, Problem, Progress, Result, Tool
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import get_origin, has_same_origin
from toolwire.framing.call_document import is_call_id
from toolwire.framing.jsontext import get_object

T = TypeVar("T")

MAX_WAIT_S: Final = 7 * 86_400.0
"""The longest wait for one call, in seconds."""
MAX_LISTED: Final = 1_000
_MIN_PAUSE_S: Final = 0.25
_MAX_PAUSE_S: Final = 5.0
_GROWTH: Final = 1.3
_FIRST_WAIT_S: Final = 1.0
_MAX_WAIT_S: Final = 20.0
_SERVER_WAITED_S: Final = 0.9  # after this time, the server itself has waited for a change, so it is polled again soon
_MAX_ASKED_PAUSE_S: Final = 300.0  # MAX_PAUSE_S of the drivers is longer
_FAILING_S: Final = 30.0
_PATIENT_FAILING_S: Final = 600.0
_PASSING = frozenset({Kind.OVERLOADED, Kind.RATE_LIMITED, Kind.TIMEOUT, Kind.TOO_SLOW})
_LOST = frozenset({"dns", "refused", "timeout", "closed", "breaker"})
_NO_METHODS = "Long calls are not available: the protocol of this connection does not support them."


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """How long a caller waits for a call to end, in seconds. ``clock`` returns seconds and never goes back.

    If a server asks not to be polled for longer than the remaining time, the wait ends at once. With ``is_patient``, it
    continues with a poll every five minutes, even if the server cannot be reached for up to ten minutes. If the server
    supports it, it is asked to wait up to ``server_wait_s`` seconds for a change.
    """

    total_s: float
    clock: Callable[[], float]
    is_patient: bool = False
    server_wait_s: float = 20.0


class LongCall:
    """One long call at ``peer``: its ID, and its tool if known. ``can_ask`` means that the server can ask the user."""

    __slots__ = ("_answered", "_codec", "_has_read", "_peer", "id", "tool")

    def __init__(self, codec: Codec, peer: Peer, id_: str, tool: Tool | None = None, *, can_ask: bool = False) -> None:
        self._codec = codec
        self._peer = peer
        self._answered: set[str] | None = set() if can_ask else None
        self._has_read = False
        self.id: str = id_
        self.tool = tool

    @property
    def needs_tool(self) -> bool:
        """Whether the server must name the tool before it can ask the user."""
        return self._answered is not None and self.tool is None and not self._has_read

    def read(self, wait_s: float = 0.0) -> Flow[CallReading | Problem]:
        """Return the call's status, at once or after a change, at the latest after about ``wait_s`` seconds."""
        methods = self._codec.long_calls
        if methods is None:
            return _build_no_methods()
        # The user is told which call asks, so nothing is asked before the call's tool is known.
        answered = None if self.needs_tool else self._answered
        flow = methods.read(self._peer, self.tool, self.id, wait_s, answered)
        reading = yield from _guard_origin(flow, self._peer)
        self._has_read = True
        if isinstance(reading, CallReading) and self.tool is None:
            found = self._peer.catalog.find(reading.status.tool)
            self.tool = found if isinstance(found, Tool) else None
        return reading

    def cancel(self) -> Flow[Problem | None]:
        """Ask the server to cancel the call. Return a Problem if it refuses. The call can end by itself meanwhile."""
        methods = self._codec.long_calls
        if methods is None:
            return _build_no_methods()
        return (yield from _guard_origin(methods.cancel(self._peer, self.id), self._peer))

    def wait(self, limits: WaitLimits, retry_after_s: float | None = None) -> Flow[Result]:
        """Return the call's result when it is over, or why there is none yet. Changes are reported as progress.

        ``retry_after_s`` is the pause that the server requested when it accepted the call.
        """
        watcher = CallWatcher(self, limits, retry_after_s)
        while True:
            status = yield from watcher.find_change()
            if isinstance(status, Problem):
                return status
            if status.is_over:
                return read_end(status)
            if (progress := _describe_progress(status)) is not None:
                yield progress


class CallWatcher:
    """Follows one call from change to change, until the call or the time of ``limits`` is over.

    It waits before the first read only if the server requested that when it accepted the call.
    """

    __slots__ = ("_call", "_pace", "_status", "_stopwatch", "limits")

    def __init__(self, call: LongCall, limits: WaitLimits, retry_after_s: float | None = 0.0) -> None:
        self._call = call
        self._pace = _Pace(retry_after_s, _PATIENT_FAILING_S if limits.is_patient else _FAILING_S)
        self._status: CallStatus | None = None
        self._stopwatch = _Stopwatch(limits)
        self.limits: WaitLimits = limits

    @property
    def is_over(self) -> bool:
        """Whether the last status is final."""
        return self._status is not None and self._status.is_over

    def find_change(self) -> Flow[CallStatus | Problem]:
        """Return the next status that differs from the previous one, or why there is none."""
        stopwatch, pace = self._stopwatch, self._pace
        while True:
            delay_s, left_s = pace.find_delay_s(), stopwatch.find_left_s()
            if self.limits.is_patient:
                delay_s = min(delay_s, _MAX_ASKED_PAUSE_S, max(left_s, _MIN_PAUSE_S))
            if delay_s > left_s:
                return _build_unfinished(self._call, self._status, delay_s)
            yield from pause(delay_s, is_poll=True)
            stopwatch.add(delay_s)
            asked_at = stopwatch.now()
            wait_s = min(self.limits.server_wait_s, pace.find_wait_s(), max(0.0, stopwatch.find_left_s()))
            reading = yield from self._call.read(wait_s)
            took_s = stopwatch.now() - asked_at
            if isinstance(reading, Problem):
                if not pace.add_failure(reading, delay_s + took_s):
                    return _name_call(reading, self._call)
                continue
            before, self._status = self._status, reading.status
            has_changed = _differs(before, reading.status)
            pace.add_reading(reading, has_changed=has_changed, took_s=took_s)
            if has_changed:
                return reading.status


def list_calls(codec: Codec, peer: Peer, limit: int, cursor: str = "") -> Flow[CallPage | Problem]:
    """Return at most ``limit`` long calls of this caller, newest first, from ``cursor`` on."""
    methods = codec.long_calls
    if methods is None:
        return _build_no_methods()
    return (yield from _guard_origin(methods.list_calls(peer, max(1, min(limit, MAX_LISTED)), cursor), peer))


def find_call_id(result: Result) -> str:
    """Return the ID of the call that continues after ``result``, or ``""`` if the call is over."""
    if not isinstance(result, Problem) or result.kind is not Kind.ACCEPTED:
        return ""
    id_ = get_object(result.details, "call").get("id")
    return id_ if isinstance(id_, str) and is_call_id(id_) else ""


def read_end(status: CallStatus) -> Result:
    """Return the result of a call that is over."""
    if status.result is not None:
        return status.result
    if status.state is LongCallState.CANCELLED:
        return Problem(kind=Kind.CANCELLED, message=f"The call {show_id(status.id)} was cancelled.")
    text = f"The call {show_id(status.id)} is {status.state.value}, and the server returned no result."
    kind = Kind.INTERRUPTED if status.state is LongCallState.INTERRUPTED else Kind.BAD_ANSWER
    return Problem(kind=kind, message=text)


def show_id(id_: str) -> str:
    """Return ``id_`` for a message. The ID of another API's call is a URL, whose query can contain a secret."""
    return show_url(id_) if "/" in id_ else id_


def build_foreign_call(url: str, home: str) -> Problem:
    """Return the Problem of a call whose status URL is at another origin."""
    text = (
        f"The call's status URL is at {get_origin(url) or show_url(url)}, not at {get_origin(home)}, so "
        "it was not read."
    )
    return Problem(kind=Kind.BAD_ANSWER, message=text, details={"reason": "origin", "sent": False})


def _guard_origin(flow: Flow[T], peer: Peer) -> Flow[T]:
    """Run ``flow``, whose requests may go only to the peer's origin or to an origin that the user allowed."""

    def check(step: Request | Listen) -> Request | Listen | Problem:
        url = (step.request if isinstance(step, Listen) else step).url
        if has_same_origin(url, peer.url) or get_origin(url) in peer.origins:
            return step
        return build_foreign_call(url, peer.url)

    return intercept(flow, on_request=check)


def prefer_async(request: Request) -> Request:
    """Return ``request`` with the preference that the server accepts a long call and responds at once (RFC 7240)."""
    return request._replace(headers=(*request.headers, _PREFER))


_PREFER = (b"prefer", b"respond-async")


class _Stopwatch:
    """Counts the remaining seconds of ``limits``. Pauses count in full, even if the clock stands still."""

    __slots__ = ("_began_at", "_limits", "_paused_s")

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self._began_at = limits.clock()
        self._paused_s = 0.0

    def now(self) -> float:
        return self._limits.clock()

    def add(self, paused_s: float) -> None:
        self._paused_s += paused_s

    def find_left_s(self) -> float:
        return self._limits.total_s - max(self._paused_s, self._limits.clock() - self._began_at)


class _Pace:
    """Decides how long to wait before the call is read again."""

    __slots__ = ("_asked_s", "_failing_s", "_is_first", "_most_failing_s", "_unchanged", "_wait_s")

    def __init__(self, asked_s: float | None, most_failing_s: float) -> None:
        self._asked_s = asked_s
        self._most_failing_s = most_failing_s
        self._failing_s = 0.0
        self._unchanged = 0
        self._wait_s = _FIRST_WAIT_S
        self._is_first = True

    def find_delay_s(self) -> float:
        if self._is_first and self._asked_s == 0.0:
            return 0.0
        own_s = min(_MIN_PAUSE_S * _GROWTH ** min(self._unchanged, 40), _MAX_PAUSE_S)
        return own_s if self._asked_s is None else max(own_s, self._asked_s)

    def find_wait_s(self) -> float:
        """Return how long the server can wait before it responds. The time grows while nothing changes."""
        # A server might respond only when the call is over, so progress is seen only as often as it is polled.
        return self._wait_s

    def add_reading(self, reading: CallReading, *, has_changed: bool, took_s: float) -> None:
        self._is_first, self._failing_s, self._asked_s = False, 0.0, reading.retry_after_s
        self._wait_s = _FIRST_WAIT_S if has_changed else min(2 * self._wait_s, _MAX_WAIT_S)
        if has_changed:
            self._unchanged = 0
        elif took_s < _SERVER_WAITED_S:
            self._unchanged += 1

    def add_failure(self, problem: Problem, passed_s: float) -> bool:
        """Count a reading that failed, and return whether to try again."""
        wait_ms = problem.retry_after_ms
        self._is_first, self._asked_s = False, None if wait_ms is None else min(wait_ms / 1_000, _MAX_ASKED_PAUSE_S)
        self._failing_s += max(passed_s, _MIN_PAUSE_S)
        self._unchanged += 1
        is_lost = problem.kind is Kind.UNREACHABLE and problem.details.get("reason") in _LOST
        return (is_lost or problem.kind in _PASSING) and self._failing_s <= self._most_failing_s


def _differs(before: CallStatus | None, status: CallStatus) -> bool:
    return before is None or (before.state, before.progress, before.message) != (
        status.state,
        status.progress,
        status.message,
    )


def _describe_progress(status: CallStatus) -> Progress | None:
    members: dict[str, Json] = {}
    if status.progress is not None:
        members["progress"] = status.progress
    if status.message:
        members["message"] = status.message
    return Progress(members, PROGRESS_EVENT) if members else None


def _build_no_methods() -> Problem:
    return Problem(kind=Kind.NOT_FOUND, message=_NO_METHODS, details={"sent": False})


def _build_unfinished(call: LongCall, status: CallStatus | None, delay_s: float) -> Problem:
    name = call.tool.name if call.tool is not None else "The call"
    shown, state = show_id(call.id), LongCallState.RUNNING if status is None else status.state
    how = "is still running" if state is not LongCallState.WAITING else "waits for an answer of the user"
    if status is not None and status.progress is not None:
        how += f" ({status.progress:.0%})"
    return Problem(
        kind=Kind.ACCEPTED,
        message=f"{name} {how} as call {shown}. It was not stopped. Read its result later with this ID.",
        can_retry=True,
        retry_after_ms=int(min(delay_s, MAX_WAIT_S) * 1_000),
        details={"call": {"id": call.id, "state": state.value}},
    )


def _name_call(problem: Problem, call: LongCall) -> Problem:
    """Return ``problem`` with the call's ID. The call continues unless the server has deleted it."""
    if problem.kind is Kind.NOT_FOUND:
        return problem
    details: dict[str, Json] = {**problem.details, "call": {"id": call.id, "state": "running"}}
    text = f"{problem.message} The call might still be running. Its ID is {show_id(call.id)}."
    return replace(problem, message=text, details=details)
