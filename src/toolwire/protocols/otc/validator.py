"""A validator of Open Tool Calling definitions: all faults of a text at once, with pointer, line and column."""

from __future__ import annotations

from toolwire.framing.text_faults import Fault, faults

from .rules import examine


def check(text: str | bytes) -> tuple[Fault, ...]:
    """Return everything that is wrong with ``text``: the body of a list of tools, or the definition of one tool.

    An error is what the RFC, or OXP for what stands in ``items``, does not allow; a warning is what will surprise
    somebody. After 1,000 faults the rest is not looked for. [OTC-001..012, OTC-016, OTC-017, OTC-034]
    """
    return faults(text, examine, not_json="OTC-034")
