"""Build the one text that describes a tool to a model, and take that text apart again.

Rules:
- What the tool does, then the hint on a line of its own, then the cost.
- The text is cleaned and has a limit; the tool itself keeps the complete texts.
"""
# XL-070, XL-072, XL-071, D-01: the rules above.

from __future__ import annotations

from typing import Final

from toolwire.core.model import Cost, Tool

from .text_cleaning import cap_text, clean

DESCRIPTION_CHARACTERS: Final = 4_096
HINT_CHARACTERS: Final = 1_024


def describe_tool(tool: Tool) -> str:
    """Return the text that describes ``tool`` to a model; a hint at the end of the description is not repeated."""
    hint = cap_text(clean(tool.hint).text, HINT_CHARACTERS)
    text = cap_text(_remove_hint(clean(tool.description).text, hint), DESCRIPTION_CHARACTERS)
    return "\n".join(line for line in (text, hint) if line) + _format_cost(tool.cost)


def extract_description(text: str, hint: str, cost: Cost | None) -> str:
    """Return the description in ``text``, without the hint and cost that ``describe_tool`` added."""
    return _remove_hint(text.removesuffix(_format_cost(cost)), cap_text(clean(hint).text, HINT_CHARACTERS))


def _remove_hint(text: str, hint: str) -> str:
    return f"\n{text}".removesuffix(f"\n{hint}").removeprefix("\n") if hint else text


def _format_cost(cost: Cost | None) -> str:
    return f" (costs: {cost.value})" if cost is not None else ""
