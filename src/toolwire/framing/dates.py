"""Parse the dates of HTTP headers."""

from __future__ import annotations

_LONGEST = 100


def parse_timestamp(text: str) -> float | None:
    """Return the date ``text`` in seconds since 1970, or ``None`` if it is no date or has no time zone."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - a lot to load, for a header that is rare

    try:
        date = parsedate_to_datetime(text[:_LONGEST])
        return None if date.tzinfo is None else date.timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
