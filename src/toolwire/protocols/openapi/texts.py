"""What a model is told of an operation: cleaned, cut, and put together in one order.

Rules:
- A description is the summary, then the hint on a line of its own, exactly; an end of life is said before the hint.
  What a call costs is told where a model is told of the tool. [XL-070, XL-072, CV-26]
- Nothing hidden is in it, and it is never endless: 1,024 characters for a hint, 4,096 for the rest. [XL-071, D-01]
"""

from __future__ import annotations

from typing import Any

from toolwire.core.model import Json, Tool
from toolwire.framing.cleaning import capped, clean
from toolwire.framing.telling import DESCRIPTION_CHARACTERS

from .findings import SHOWN

_DEPRECATED = " (deprecated)"


def described(operation: dict[str, Any], method: str, path: str, hint: str) -> str:
    """Return the description of an operation; without a summary the first paragraph of what it says, or its place."""
    summary, description = operation.get("summary"), operation.get("description")
    text = plain(summary, DESCRIPTION_CHARACTERS)
    if not text and isinstance(description, str):
        text = plain(description.strip().partition("\n\n")[0], DESCRIPTION_CHARACTERS)
    after = _DEPRECATED if operation.get("deprecated") is True else ""
    return (text or f"{method} {plain(path, SHOWN)}") + after + (f"\n{hint}" if hint else "")


def undescribed(tool: Tool) -> str:
    """Return the summary that ``described`` was given, as far as the tool's other members say what was added."""
    text = tool.description.removesuffix(f"\n{tool.hint}") if tool.hint else tool.description
    return text.removesuffix(_DEPRECATED) if tool.deprecated else text


def plain(text: Json, characters: int) -> str:
    """Return ``text`` for a model or a screen, or ``""`` where it is none."""
    return capped(clean(text).text, characters) if isinstance(text, str) else ""
