"""Run the calls of one upstream within its own limits, so that one that hangs or fails costs the others nothing.

Rules:
- An upstream has at most so many running calls. Further calls are refused at once, and take nothing from the others.
- One caller has at most three quarters of these places, so that its slow calls leave some to the others.
- Its calls are counted together against its rate, whoever makes them.
- What is known of its health comes from its calls: nothing is sent only to find out.
"""
# GW-01, GW-05

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from toolwire.client.connection.remote import Remote
from toolwire.core.check import Check
from toolwire.core.health import HealthState, UpstreamHealth
from toolwire.core.model import Call, Kind, Problem, RateLimit, Result, Tool
from toolwire.core.toolbox import Notify, Toolbox, ToolUpstream, embed_stored_bytes, find_home
from toolwire.core.url_display import name_server
from toolwire.limits import LocalRates, MemoryWindows, Windows
from toolwire.limits.limit_check import build_rate_check
from toolwire.server.run.rate_count import CountCall, count_by
from toolwire.telemetry.redaction import redact_text

from .personal_toolbox import PersonalToolbox
from .reconnecting_toolbox import ReconnectingToolbox

RUNNING = 128
"""How many calls of one upstream may run at a time, if it names no number: a quarter of what a server takes."""

_FAILURES = frozenset({Kind.UNREACHABLE, Kind.TIMEOUT, Kind.BAD_ANSWER})
_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamLimits:
    """The limits of one upstream for all callers together.

    - ``rate``: the rate limit of its calls.
    - ``running``: how many calls can run at once.
    - ``trusted``: the tools, by name or ID, whose claim to destroy nothing is trusted. True trusts all.
    - ``approvers``: the groups that answer questions, by pattern of tool names. Nobody else can.
    """

    rate: RateLimit | None = None
    running: int = RUNNING
    trusted: bool | frozenset[str] = False
    approvers: Mapping[str, Sequence[str]] = field(default_factory=dict)


NO_LIMITS = UpstreamLimits()


def find_approvers(approvers: Mapping[str, Sequence[str]], tool: str) -> tuple[str, ...]:
    """Return the groups that answer questions about ``tool``; none if its caller's user does."""
    # PL-03
    return tuple(next((groups for pattern, groups in approvers.items() if fnmatchcase(tool, pattern)), ()))


class Upstream:
    """One Toolbox of a gateway, with its limits and its health.

    ``windows`` is where its calls are counted; without it, in this process alone, as ``local`` says.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        name: str,
        *,
        limits: UpstreamLimits = NO_LIMITS,
        scopes: tuple[str, ...] | None = None,
        windows: Windows | None = None,
        local: LocalRates | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.toolbox = toolbox
        self.name = name
        self._limits = limits
        self._scopes = scopes
        self._clock, self._wall = clock, wall
        self._count = None if limits.rate is None else self._build_counter(limits.rate, windows, local)
        self._most_each = -(-3 * limits.running // 4)
        self._running_each: dict[str, int] = {}
        self._running = self._calls = self._answered = self._failures = self._in_row = 0
        self._is_paused = False
        self._last_failure = ""
        self._last_failure_at: float | None = None
        self._failing_since: float | None = None
        self._latency_ms: float | None = None

    def describe_source(self, tool: Tool) -> ToolUpstream:
        """Return what is known of the upstream as the source of ``tool``, one of its own."""
        is_entrance = isinstance(self.toolbox, PersonalToolbox) and self.toolbox.is_entrance(tool)
        trusted = self._limits.trusted
        is_trusted = trusted if isinstance(trusted, bool) else not trusted.isdisjoint((tool.name, tool.id))
        approvers = find_approvers(self._limits.approvers, tool.name)
        return ToolUpstream(self.name, is_trusted or _declares_effects(self.toolbox), is_entrance, approvers)

    async def run(self, call: Call, notify: Notify) -> Result:
        """Run ``call`` within the limits and return its result."""
        if self._running >= self._limits.running:
            text = (
                f"{call.tool.name} did not run: {self.name} is already running its maximum of "
                f"{self._limits.running} calls."
            )
            return Problem(kind=Kind.OVERLOADED, message=text, can_retry=True, retry_after_ms=1_000)
        caller = call.context.principal
        running = self._running_each.get(caller, 0)
        if caller and running >= self._most_each:
            text = f"{call.tool.name} did not run: {running} of your calls are already running at {self.name}."
            return Problem(kind=Kind.RATE_LIMITED, message=text, can_retry=True, retry_after_ms=1_000)
        # AT-58: before the rate is counted, which may wait for a database: else calls that come meanwhile find room.
        self._running += 1
        self._running_each[caller] = running + 1
        try:
            if self._count is not None and (refusal := await self._count(call)) is not None:
                return refusal
            self._calls += 1
            started = self._clock()
            result = await self.toolbox.run(call, notify)
        finally:
            self._running -= 1
            if left := self._running_each[caller] - 1:
                self._running_each[caller] = left
            else:
                del self._running_each[caller]
        if isinstance(result, Problem) and (result.kind in _FAILURES or result.details.get("reason") == "withdrawn"):
            result = self._name_itself(result, call)
        self._record(result, (self._clock() - started) * 1_000)
        return embed_stored_bytes(result, self.toolbox)

    def describe_health(self) -> UpstreamHealth:
        """Return how the upstream is."""
        state: HealthState = "paused" if self._is_paused else "failing" if self._in_row else "ok"
        failure, failed_at, since = self._last_failure, self._last_failure_at, self._failing_since
        if (waiting := self._find_waiting()) is not None:
            state = "waiting"
            failure, failed_at, since = redact_text(waiting.fault)[:_MAX_SHOWN], waiting.tried_at, waiting.since
        is_hidden = isinstance(self.toolbox, PersonalToolbox) and self.toolbox.is_hidden
        return UpstreamHealth(
            name=self.name,
            state=state,
            tools=0 if is_hidden else len(self.toolbox.catalog().tools),
            running=self._running,
            calls=self._calls,
            answered=self._answered,
            failures=self._failures,
            failures_in_row=self._in_row,
            last_failure=failure,
            last_failure_at=failed_at,
            failing_since=since,
            latency_ms=self._latency_ms,
            scopes=self._scopes,
        )

    def _find_waiting(self) -> ReconnectingToolbox | None:
        """Return what waits for the upstream, or None if it has been reached."""
        box = self.toolbox
        if isinstance(box, PersonalToolbox):
            return box.shared if isinstance(box.shared, ReconnectingToolbox) and not box.is_connected else None
        return box if isinstance(box, ReconnectingToolbox) and not box.is_connected else None

    def _name_itself(self, failure: Problem, call: Call) -> Problem:
        """Return ``failure`` with the name of the upstream in place of its address, which is the operator's alone."""
        # PL-04
        source = find_home(self.toolbox, call.tool).source
        return replace(failure, message=name_server(failure.message, source, f"the upstream {self.name}"))

    def _record(self, result: Result, took_ms: float) -> None:
        if isinstance(result, Problem) and result.details.get("reason") == "breaker":
            # Nothing was sent, so the failure before is still the last one.
            self._is_paused = self._is_paused or result.details.get("breaker_of") == "all"
            return
        if isinstance(result, Problem) and result.kind in _FAILURES:
            self._is_paused = False
            self._failures += 1
            self._failing_since = self._failing_since if self._in_row else self._wall()
            self._in_row += 1
            self._last_failure = redact_text(result.message)[:_MAX_SHOWN]
            self._last_failure_at = self._wall()
        elif not (isinstance(result, Problem) and result.details.get("sent") is False):
            self._is_paused = False
            self._answered += 1
            self._in_row = 0
            self._failing_since = None
            self._latency_ms = took_ms

    def _build_counter(self, rate: RateLimit, windows: Windows | None, local: LocalRates | None) -> CountCall:
        windows = MemoryWindows(self._clock) if windows is None else windows
        key = f"\0{self.name}"
        owner = f"{self.name} was called as often as its limit allows"
        check: Check = build_rate_check(windows, local, lambda _: (key, rate), owner)
        return count_by(windows, check)


def _declares_effects(toolbox: Toolbox) -> bool:
    """Return whether ``toolbox`` is code of this process, or has a protocol whose methods say what a call does."""
    match toolbox:
        case PersonalToolbox():
            return _declares_effects(toolbox.shared)
        case ReconnectingToolbox():
            return toolbox.toolbox is not None and _declares_effects(toolbox.toolbox)
        case Remote():
            return toolbox.protocol == "openapi"
        case _:
            return True
