"""State which JSON Schema keywords each provider's API accepts in the declaration of a tool: one row for each dialect.

Rules:
- The key pattern is the narrowest of all providers, so that a declaration works for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""A property name that every provider accepts."""

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A tool's name that every provider accepts."""

MAX_EXPANSIONS: Final = 3
"""How often a recursive schema is written inside itself where a reference cannot stand."""


class Provider(StrEnum):
    """A provider's API."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDialect:
    """What one provider accepts.

    - ``keywords``: those that limit or describe a value; None for every keyword of 2020-12 below the root. Keywords
      that combine schemas are not among them.
    - ``enum``: the JSON types that its values may have.
    - ``array_items``: an array needs ``items``.
    - ``max_tools``: the most tools of one request; None where no limit is published.
    - ``description``: the most characters of the description of a tool; None where no limit is published.
    """

    keywords: frozenset[str] | None = None
    enum: frozenset[str] = frozenset(("null", "boolean", "number", "string", "array", "object"))
    array_items: bool = False
    max_tools: int | None = None
    description: int | None = None


DIALECTS: Final[Mapping[Provider, SchemaDialect]] = MappingProxyType(
    {
        # O-24: a longer description of one tool makes OpenAI refuse the whole request.
        Provider.OPENAI: SchemaDialect(array_items=True, max_tools=128, description=1_024),
        Provider.ANTHROPIC: SchemaDialect(),
        Provider.GEMINI: SchemaDialect(
            keywords=frozenset(("description", "minItems", "maxItems", "minimum", "maximum", "format")),
            enum=frozenset(("number", "string")),
            max_tools=512,
        ),
    }
)
"""The row of each provider, as its documents and SDKs of November 2026 say it. [XL-090]"""
