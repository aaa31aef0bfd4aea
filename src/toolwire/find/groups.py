"""Put the tools of a list into groups: those of a small server, or of one part of a large one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Tool

from .stemming import stem_word
from .words import SYNONYMS

MAX_SERVER_TOOLS: Final = 40
"""A server of more tools is told apart by the beginnings of their names, which are its tags or paths."""
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W_]+")


def group_tools(tools: Mapping[str, Tool]) -> dict[str, str]:
    """Return the group of each tool by its name: its toolkit, or its toolkit and the subject of its name."""
    # FI-02
    sizes = Counter(tool.toolkit for tool in tools.values())
    is_alone = len(sizes) == 1
    groups: dict[str, str] = {}
    for name, tool in tools.items():
        if sizes[tool.toolkit] <= MAX_SERVER_TOOLS:
            groups[name] = tool.toolkit
        else:
            subject = _find_subject(tool.name)
            groups[name] = subject if is_alone else f"{tool.toolkit} {subject}"
    return groups


def _find_subject(name: str) -> str:
    """Return the first word of ``name`` that is not a verb, such as ``customers`` of ``GetCustomersCustomer``."""
    words = [word.lower() for word in _PARTS.findall(name)]
    return next((word for word in words if stem_word(word) not in SYNONYMS), words[0] if words else name)
