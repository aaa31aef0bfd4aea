"""Say in one sentence that a result was cut, and how to get the rest, or that it breaks its server's own schema."""
# XL-103, O-38

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from toolwire.core.model import Json

SCHEMA_FAULT: Final = "schema_fault"
"""The note of a value that says in a few words which rule of its own server's schema it breaks."""


def count_cut_items(whole: Json, kept: Json) -> dict[str, Json]:
    """Return for each list that was cut its numbers of items: of the result itself as ``""``, or of its members.

    ``{"": {"kept": 2, "total": 5}}``. Lists further inside are not counted.
    """
    if isinstance(whole, list) and isinstance(kept, list):
        return {"": {"kept": len(kept), "total": len(whole)}} if len(kept) < len(whole) else {}
    if not isinstance(whole, dict) or not isinstance(kept, dict):
        return {}
    found = {name: count_cut_items(value, kept.get(name)) for name, value in whole.items() if isinstance(value, list)}
    return {name: counts[""] for name, counts in found.items() if counts}


def describe_cut(notes: Mapping[str, Any] | None) -> str:
    """Return the sentences for the notes of a value, or ``""`` if it is complete."""
    if not notes or notes.get("truncated") is not True:
        return ""
    parts: list[str] = []
    cut = notes.get("cut_items")
    for name, count in cut.items() if isinstance(cut, Mapping) else ():
        where = f" of {name[:100]!r}" if name else ""
        parts.append(f"it has {count['kept']:,} of {count['total']:,} items{where}")
    if not parts and isinstance(total := notes.get("total_characters"), int):
        parts.append(f"complete it has {total:,} characters")
    elif not parts and isinstance(total := notes.get("total_bytes"), int):
        parts.append(f"complete it has {total:,} bytes")
    size = f": {', '.join(parts)}" if parts else ""
    return f"This result was cut{size}. For the rest, narrow the call or ask for the next page."


def describe_schema_fault(notes: Mapping[str, Any] | None) -> str:
    """Return a sentence if the notes of a value say that it breaks the schema of its own server, else ``""``."""
    fault = (notes or {}).get(SCHEMA_FAULT)
    return f"This result is not what its server says that it returns: {fault}." if isinstance(fault, str) else ""
