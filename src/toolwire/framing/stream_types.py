"""Recognise the media types of streams, which any protocol reads while they arrive."""

from __future__ import annotations

TYPES = frozenset(
    {
        "text/event-stream",
        "application/jsonl",
        "application/jsonlines",
        "application/x-jsonlines",
        "application/ndjson",
        "application/x-ndjson",
        "application/json-seq",
    }
)
"""The media types of streams; any ``+json-seq`` is one too."""
# XL-106


def is_stream(media_type: str) -> bool:
    """Return whether ``media_type``, in any case and with any parameters, is that of a stream."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind in TYPES or kind.endswith("+json-seq")
