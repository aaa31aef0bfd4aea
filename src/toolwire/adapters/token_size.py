"""Estimate how many tokens the declarations of tools cost a model."""

from __future__ import annotations

import json
from typing import Final

from toolwire.core.catalog import Catalog

from .dialects import Provider
from .tool_declarations import ToolDeclaration, declare_tools

CHARACTERS_A_TOKEN: Final = 4


def measure_tools(catalog: Catalog) -> dict[str, dict[Provider, int]]:
    """Return the estimated tokens of each tool of ``catalog`` by its name, for each provider.

    One token is counted as four characters of JSON. The provider's own count differs by some percent.
    """
    sizes: dict[str, dict[Provider, int]] = {}
    for provider in Provider:
        for one in declare_tools(catalog, provider):
            sizes.setdefault(one.name, {})[provider] = _estimate_tokens(one)
    return sizes


def _estimate_tokens(one: ToolDeclaration) -> int:
    declared = {"name": one.name, "description": one.description, "parameters": one.input_schema.schema}
    text = json.dumps(declared, ensure_ascii=False, separators=(",", ":"), default=dict)
    return -(-len(text) // CHARACTERS_A_TOKEN)
