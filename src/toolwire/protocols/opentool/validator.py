"""Validate OpenTool documents: all faults of a text, each with its pointer, line and column."""

from __future__ import annotations

from toolwire.core.model import Json
from toolwire.framing.report import PathFault, warn_of_nulls
from toolwire.framing.text_faults import MAX_BYTES, Fault, find_faults

from .document_repair import find_nulls
from .rules import examine

__all__ = ["MAX_BYTES", "Fault", "check"]


def check(text: str | bytes) -> tuple[Fault, ...]:
    """Return every fault of ``text`` as an OpenTool document, in the order of the text.

    An error violates the specification. A warning will surprise a reader. The check stops after 1,000 faults. It never
    fetches or opens what the document refers to.
    """
    # OT-001..027, OT-029, D-18
    return find_faults(text, _find_faults, not_json="OT-029")


def _find_faults(data: Json) -> list[PathFault]:
    data, nulls = find_nulls(data)
    return [*warn_of_nulls(nulls, "C-4"), *examine(data).faults]
