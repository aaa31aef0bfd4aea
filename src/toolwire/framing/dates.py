"""Parse the dates of HTTP headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import import_lazily

if TYPE_CHECKING:
    from datetime import datetime

_MAX_LENGTH = 100
# The module takes long to import, and the header is rare.
(_parse_date,) = import_lazily("email.utils", "parsedate_to_datetime")


def parse_timestamp(text: str) -> float | None:
    """Return the date ``text`` in seconds since 1970, or ``None`` if it is no date or has no time zone."""
    try:
        date: datetime = _parse_date(text[:_MAX_LENGTH])
        return None if date.tzinfo is None else date.timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
