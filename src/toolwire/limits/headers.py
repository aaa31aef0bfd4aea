"""Read from response headers how long a client must wait."""
# XL-065

from __future__ import annotations

import re
from collections.abc import Callable

from toolwire.core.http import Response, get_header
from toolwire.framing.dates import parse_timestamp

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
