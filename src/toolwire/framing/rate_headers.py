"""Read the rate limits of a response: Retry-After, RateLimit and their JSON members, in milliseconds.

Rules:
- There is no clock here: a date is relative to the response's own Date.
- Fields that cannot be read are ignored. No wait is longer than 30 days.
"""
# XL-065, XL-101: the rules above.

from __future__ import annotations

import re
from typing import NamedTuple

from toolwire.core.http import Headers, Response, get_header
from toolwire.core.model import Json

from .dates import parse_timestamp

_MAX_MS = 30 * 86_400_000
_SECONDS = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?)[0-9]*")  # more digits than that are too many anyway
_REMAINING = re.compile(r"(?:\br|\bremaining)\s*=\s*([0-9]{1,12})", re.IGNORECASE)
_RESET = re.compile(r"(?:\bt|\breset)\s*=\s*([0-9]{1,12})", re.IGNORECASE)
_SINCE_1970 = 1_000_000_000


class Rate(NamedTuple):
    """How many calls are left until the limit resets in ``reset_ms``, or ``None`` if the server does not say when."""

    remaining: int
    reset_ms: int | None


def read_retry_after_ms(response: Response) -> int | None:
    """Return how long to wait before the next try: Retry-After, else the reset of a rate that is used up."""
    text = get_header(response.headers, b"retry-after").strip()
    if seconds := _SECONDS.fullmatch(text):
        return min(int(float(seconds[1]) * 1_000), _MAX_MS)
    if text:
        return _measure_until(parse_timestamp(text), response.headers)
    rate = read(response.headers)
    return rate.reset_ms if rate is not None and rate.remaining == 0 else None


def parse_wait_ms(value: Json) -> int | None:
    """Return a wait as a member of JSON says it: a whole number that is not below 0, as 1500 or 1500.0."""
    # OTC-032
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0 or value % 1:
        return None
    return int(min(value, _MAX_MS))


def read(headers: Headers) -> Rate | None:
    """Return the rate that the fields tell, in any of the spellings that are in use, or None."""
    # XL-065
    for name, _ in headers:
        if name.startswith((b"ratelimit", b"x-ratelimit")):
            return _read_rate(headers)
    return None


def _read_rate(headers: Headers) -> Rate | None:
    text = get_header(headers, b"ratelimit")[:1_000]
    remaining, reset = _REMAINING.search(text), _RESET.search(text)
    if remaining is not None:
        return Rate(int(remaining[1]), _parse_reset_ms(reset[1] if reset else "", headers))
    for start in (b"ratelimit-", b"x-ratelimit-"):
        left = get_header(headers, start + b"remaining").strip()
        if left.isascii() and left.isdigit() and len(left) <= 12:
            return Rate(int(left), _parse_reset_ms(get_header(headers, start + b"reset").strip(), headers))
    return None


def _parse_reset_ms(text: str, headers: Headers) -> int | None:
    """Return a reset in milliseconds: seconds from now, or since 1970 where they are too many for that."""
    found = _SECONDS.fullmatch(text)
    if found is None:
        return None
    seconds = float(found[1])
    if seconds < _SINCE_1970:
        return min(int(seconds * 1_000), _MAX_MS)
    now = parse_timestamp(get_header(headers, b"date"))
    return None if now is None else max(0, min(int((seconds - now) * 1_000), _MAX_MS))


def _measure_until(when: float | None, headers: Headers) -> int | None:
    now = parse_timestamp(get_header(headers, b"date"))
    if when is None or now is None:
        return None
    return max(0, min(int((when - now) * 1_000), _MAX_MS))
