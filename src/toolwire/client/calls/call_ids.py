"""Make the ids of calls."""

from __future__ import annotations

from os import urandom


def new_id() -> str:
    """Return a random UUID (version 4) as text."""
    # A-37, C-9: each call has a new id. ``str(uuid4())`` takes more than twice the time.
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
