"""Read the fields of a form from a query or a body."""

from __future__ import annotations

from urllib.parse import parse_qs

_MAX_FIELDS = 2_000


def parse_form_fields(text: str) -> dict[str, str]:
    """Return the first value of each field; nothing if there are more than 2,000 or they cannot be read."""
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items()}


def find_form_key(body: bytes) -> bytes:
    """Return the key that a form of the page brings, or nothing: a form can set no header field."""
    return parse_form_fields(body.decode("utf-8", "replace")).get("key", "").strip().encode("latin-1", "replace")
