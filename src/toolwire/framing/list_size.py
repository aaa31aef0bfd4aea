"""Judge whether a list of tools is too long for a model."""
# FI-01

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json

from .tool_description import describe_tool

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
