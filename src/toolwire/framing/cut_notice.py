"""Say in one sentence that a result was cut, and how to get the rest, or that it breaks its server's own schema."""
# XL-103, O-38

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SCHEMA_FAULT: Final = "schema_fault"
"""The note of a value that says in a few words which rule of its own server's schema it breaks."""


def describe_cut(notes: Mapping[str, Any] | None) -> str:
    """Return the sentences for the notes of a value, or ``""`` if it is complete."""
    if not notes or notes.get("truncated") is not True:
        return ""
    total = notes.get("total_bytes")
    size = f": complete it has {total:,} bytes" if isinstance(total, int) else ""
    return f"This result was shortened{size}. For the rest, narrow the call or ask for the next page."


def describe_schema_fault(notes: Mapping[str, Any] | None) -> str:
    """Return a sentence if the notes of a value say that it breaks the schema of its own server, else ``""``."""
    fault = (notes or {}).get(SCHEMA_FAULT)
    return f"This result does not match what its server declares: {fault}." if isinstance(fault, str) else ""
