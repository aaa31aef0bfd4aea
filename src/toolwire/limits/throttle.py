"""Throttle the calls of a client by the user's limits, and by those of the site if they are stricter.

Rules:
- A limit that a site declares can only tighten: the user's limits also hold.
- Only calls that are sent count.
- A server can make the client wait longer, never shorter.
"""
# XL-067, XL-064, XL-065: the rules above.

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolwire.core.http import Response, get_header
from toolwire.core.model import Kind, Problem, RateLimit, Tool
from toolwire.framing.dates import parse_timestamp

from .window import MemoryWindows

_TIGHTENED = frozenset({429, 503})
_CONNECTION = ""
_OWN = "\0"
_TOOLS = 10_000


_TOOL_DEFAULT = RateLimit(max=60, window="1m")
_CONNECTION_DEFAULT = RateLimit(max=300, window="1m")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRateLimits:
    """A client's rate limits: ``tool`` for each tool, and ``connection`` for all tools of a connection together.

    ``None`` means no limit.
    """

    tool: RateLimit | None = _TOOL_DEFAULT
    connection: RateLimit | None = _CONNECTION_DEFAULT


CLIENT_DEFAULTS = ClientRateLimits()
NO_DEFAULTS = ClientRateLimits(tool=None, connection=None)


class Throttle:
    """Count the calls of one user over one connection.

    ``clock`` gives seconds and never goes back; ``wall`` gives seconds since 1970, for servers that say a date.
    """

    # XL-062

    def __init__(
        self, *, clock: Callable[[], float], wall: Callable[[], float], defaults: ClientRateLimits = CLIENT_DEFAULTS
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._defaults = defaults
        self._windows = MemoryWindows(clock)
        self._paused: dict[str, float] = {}
        self._known: dict[int, tuple[Tool, tuple[tuple[str, RateLimit], ...]]] = {}

    def wait_s(self, tool: Tool) -> float:
        """Return how many seconds must pass before ``tool`` can be called; 0.0 for now. Counts nothing."""
        waits = [self._windows.wait(key, limit) for key, limit in self._list_limits(tool)]
        return max(0.0, self._get_pause(tool), *waits)

    def take(self, tool: Tool, *, has_waited: bool = False) -> float:
        """Count a call of ``tool`` that is about to be sent and return 0.0, or how many seconds it must wait.

        ``has_waited`` says that the pause that the server asked for is over.
        """
        if has_waited:
            self._paused.pop(tool.id, None)
        if self._paused and (pause := self._get_pause(tool)) > 0.0:
            return pause
        limits = self._list_limits(tool)
        return self._windows.take_all(limits) if limits else 0.0

    def count_remaining(self, tool: Tool) -> int | None:
        """Return how many calls of ``tool`` are left now, or ``None`` if there is no limit."""
        found = [self._windows.count_remaining(key, limit) for key, limit in self._list_limits(tool)]
        return min(found) if found else None

    def record_response(self, tool: Tool, response: Response) -> None:
        """Pause ``tool`` if a response asks for that."""
        if response.status in _TIGHTENED:
            self.pause(tool, read_pause_s(response, self._wall))

    def pause(self, tool: Tool, seconds: float) -> None:
        """Send no call of ``tool`` for ``seconds``, or for an earlier pause if that one ends later."""
        if seconds > 0.0 and (tool.id in self._paused or len(self._paused) < _TOOLS):
            self._paused[tool.id] = max(self._paused.get(tool.id, 0.0), self._clock() + seconds)

    def explain_wait(self, tool: Tool) -> str:
        """Return in a sentence which limit makes ``tool`` wait now, and what raises it; ``""`` if none does."""
        if self._get_pause(tool) > 0.0:
            return "Its server asked for a pause."
        for key, limit in self._list_limits(tool):
            if self._windows.wait(key, limit) <= 0.0:
                continue
            allows = f"allows {limit.max} calls in {limit.window}"
            if key == tool.id:
                return f"Its server {allows}."
            name = "tool" if key else "connection"
            return f"This client {allows} for one {name}. Raise it with Session(limits=ClientRateLimits({name}=...))."
        return ""

    def _get_pause(self, tool: Tool) -> float:
        return self._paused.get(tool.id, 0.0) - self._clock()

    def _list_limits(self, tool: Tool) -> Sequence[tuple[str, RateLimit]]:
        known = self._known.get(id(tool))
        if known is None or known[0] is not tool:
            if len(self._known) >= _TOOLS:
                self._known.clear()
            limits = (
                (tool.id, tool.rate_limit),
                (_OWN + tool.id, self._defaults.tool),
                (_CONNECTION, self._defaults.connection),
            )
            known = self._known[id(tool)] = (tool, tuple((key, limit) for key, limit in limits if limit is not None))
        return known[1]


def build_rate_limited(tool: Tool, wait_s: float, why: str = "") -> Problem:
    """Return the Problem of a call that was not made because of a limit; a model gets its details.

    ``why`` is a sentence about the limit.
    """
    wait_ms = max(1, -int(-wait_s * 1_000 // 1))
    return Problem(
        kind=Kind.RATE_LIMITED,
        message=f"{tool.name} was called as often as its limit allows. The call was not made. {why}".rstrip(),
        can_retry=True,
        retry_after_ms=wait_ms,
        details={"rate_limited": True, "retry_after_ms": wait_ms},
    )


_DIGITS = re.compile(r"[0-9]{1,9}")
_REMAINING = re.compile(r"(?:^|[;,\s])(?:r|remaining)\s*=\s*([0-9]{1,9})", re.IGNORECASE)
_RESET = re.compile(r"(?:^|[;,\s])(?:t|reset)\s*=\s*([0-9]{1,9})", re.IGNORECASE)
_MAX_PAUSE_S = 86_400.0


def read_pause_s(response: Response, wall: Callable[[], float]) -> float:
    """Return for how many seconds the server wants no more calls, at most a day; 0.0 if it does not say.

    Reads ``Retry-After`` in seconds or as a date, else ``RateLimit`` (or its parts) if no calls remain.
    ``wall`` gives seconds since 1970.
    """
    retry_after = get_header(response.headers, b"retry-after").strip()
    if _DIGITS.fullmatch(retry_after):
        return _clamp_seconds(float(retry_after))
    if retry_after:
        return _clamp_seconds(_measure_until(retry_after, wall))
    limit = get_header(response.headers, b"ratelimit")
    remaining = _match_number(_REMAINING, limit) or _read_number(response, b"remaining")
    reset = _match_number(_RESET, limit) or _read_number(response, b"reset")
    if remaining is None or reset is None or float(remaining) > 0:
        return 0.0
    seconds = float(reset)
    return _clamp_seconds(seconds - wall() if seconds > 1e8 else seconds)  # some give the moment, most the seconds


def _read_number(response: Response, what: bytes) -> str | None:
    for name in (b"ratelimit-" + what, b"x-ratelimit-" + what):
        text = get_header(response.headers, name).strip()
        if re.fullmatch(r"[0-9]{1,11}", text):
            return text
    return None


def _match_number(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text[:1_000])
    return None if found is None else found[1]


def _measure_until(date: str, wall: Callable[[], float]) -> float:
    moment = parse_timestamp(date)
    return 0.0 if moment is None else moment - wall()


def _clamp_seconds(seconds: float) -> float:
    return min(max(seconds, 0.0), _MAX_PAUSE_S)
