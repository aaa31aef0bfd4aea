"""What a model is told of an operation: cleaned, cut, and put together in one order.

Rules:
- A description is the summary, then the hint on a line of its own, exactly; a cost and an end of life come after.
  [XL-070, XL-072, CV-26]
- Nothing hidden is in it, and it is never endless: 1,024 characters for a hint, 4,096 for the rest. [XL-071, D-01]
"""

from __future__ import annotations

from typing import Any

from toolwire.core.model import Cost, Json, Tool
from toolwire.framing.cleaning import capped, clean

HINT_CHARACTERS = 1_024
DESCRIPTION_CHARACTERS = 4_096
_DEPRECATED = " (deprecated)"


def described(operation: dict[str, Any], where: str, hint: str, cost: Cost | None) -> str:
    """Return the description of an operation; without a summary the first paragraph of what it says, or ``where``."""
    summary, description = operation.get("summary"), operation.get("description")
    text = plain(summary, DESCRIPTION_CHARACTERS)
    if not text and isinstance(description, str):
        text = plain(description.strip().partition("\n\n")[0], DESCRIPTION_CHARACTERS)
    after = _DEPRECATED if operation.get("deprecated") is True else ""
    return (text or where) + after + (f"\n{hint}" if hint else "") + _costs(cost)


def undescribed(tool: Tool) -> str:
    """Return the summary that ``described`` was given, as far as the tool's other members say what was added."""
    text = tool.description.removesuffix(_costs(tool.cost))
    text = text.removesuffix(f"\n{tool.hint}") if tool.hint else text
    return text.removesuffix(_DEPRECATED) if tool.deprecated else text


def plain(text: Json, characters: int) -> str:
    """Return ``text`` for a model or a screen, or ``""`` where it is none."""
    return capped(clean(text).text, characters) if isinstance(text, str) else ""


def _costs(cost: Cost | None) -> str:
    return f" (costs: {cost.value})" if cost is not None else ""
