"""Build the one text that describes a tool to a model, take it apart again, and judge how long a list of tools is.

Rules:
- What the tool does, then the hint on a line of its own, then the rate limit and the cost.
- The text is cleaned and has a limit; the tool itself keeps the complete texts.
"""
# XL-070, XL-072, XL-071, D-01: the rules above. FI-01

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.model import Cost, Json, RateLimit, Tool

from .text_cleaning import cap_text, clean

DESCRIPTION_CHARACTERS: Final = 4_096
HINT_CHARACTERS: Final = 1_024


def describe_tool(tool: Tool, most: int = sys.maxsize) -> str:
    """Return the text that describes ``tool`` to a model, in at most ``most`` characters; ``most`` is at least 200.

    A hint at the end of the description is not repeated. What is too long is cut: the hint has half of the room.
    """
    facts = _format_rate(tool.rate_limit) + _format_cost(tool.cost)
    room = most - len(facts)
    hint = cap_text(clean(tool.hint).text, min(HINT_CHARACTERS, room // 2))
    room = min(DESCRIPTION_CHARACTERS, room - len(hint) - 1)
    text = cap_text(_remove_hint(clean(tool.description).text, hint), room)
    return "\n".join(line for line in (text, hint) if line) + facts


def extract_description(text: str, hint: str, cost: Cost | None, rate_limit: RateLimit | None = None) -> str:
    """Return the description in ``text``, without the hint, rate limit and cost that ``describe_tool`` added."""
    text = text.removesuffix(_format_cost(cost)).removesuffix(_format_rate(rate_limit))
    return _remove_hint(text, cap_text(clean(hint).text, HINT_CHARACTERS))


def _remove_hint(text: str, hint: str) -> str:
    return f"\n{text}".removesuffix(f"\n{hint}").removeprefix("\n") if hint else text


def _format_rate(limit: RateLimit | None) -> str:
    # SE-05: a model that knows the limit can wait instead of failing.
    if limit is None:
        return ""
    return f" (at most {limit.max:,} call{'s' if limit.max > 1 else ''} in {limit.window})"


def _format_cost(cost: Cost | None) -> str:
    return f" (costs: {cost.value})" if cost is not None else ""


BUDGET_TOKENS: Final = 8_000
"""A list of more tokens is too long for a model, if nobody says otherwise."""
_CHARACTERS_A_TOKEN: Final = 4


def fits_budget(catalog: Catalog, tokens: int = BUDGET_TOKENS) -> bool:
    """Return whether the definitions of all tools of ``catalog`` take at most about this number of ``tokens``.

    Only as many schemas are built as fit.
    """
    room = tokens * _CHARACTERS_A_TOKEN
    for name, tool in catalog.names.items():
        room -= len(name) + len(describe_tool(tool)) + len(write_schema(tool.input_schema)) + 40
        if room < 0:
            return False
    return True


def write_schema(schema: Mapping[str, Json]) -> str:
    """Return ``schema`` as short JSON, as a model reads it."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"), default=dict)
