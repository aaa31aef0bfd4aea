"""Read and write the ``traceparent`` of W3C Trace Context, and read the trace ids of other protocols."""

from __future__ import annotations

import re
from typing import NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NOTHING = {"0" * 32, "0" * 16}
_MAX = 512


class Traceparent(NamedTuple):
    """The trace a call belongs to and the span it was made in, both in hexadecimal digits."""

    trace_id: str
    span_id: str
    sampled: bool


def read(text: str) -> Traceparent | None:
    """Return the traceparent in ``text``, or ``None`` if it cannot be read."""
    match = _TRACEPARENT.fullmatch(text) if len(text) <= _MAX else None
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]) or {match[2], match[3]} & _NOTHING:
        return None
    return Traceparent(match[2], match[3], bool(int(match[4], 16) & 1))


def write(parent: Traceparent) -> str:
    """Return ``parent`` as the header has it."""
    return f"00-{parent.trace_id}-{parent.span_id}-{'01' if parent.sampled else '00'}"


def parse_trace_id(text: str) -> str:
    """Return a caller's own trace id as 32 hexadecimal digits, empty where it is neither those nor a UUID."""
    # OTC-020
    digits = text.replace("-", "").lower() if len(text) <= 36 else ""
    return digits if _TRACE_ID.fullmatch(digits) and digits not in _NOTHING else ""
