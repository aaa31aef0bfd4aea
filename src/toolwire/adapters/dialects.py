"""State which JSON Schema keywords each provider's API accepts in the declaration of a tool: one row for each dialect.

Rules:
- Strict dialects need every property required and every object closed. Other schemas are declared without strict.
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
"""How often a recursive schema is written inside itself where references are not accepted."""


class Provider(StrEnum):
    """A provider's API, in one of its two ways of declaring a tool."""

    OPENAI = "openai"
    OPENAI_STRICT = "openai-strict"
    ANTHROPIC = "anthropic"
    ANTHROPIC_STRICT = "anthropic-strict"
    GEMINI = "gemini"
    GEMINI_JSON = "gemini-json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDialect:
    """What one provider accepts.

    - ``keywords``: those that limit or describe a value. Keywords that combine schemas are not among them.
    - ``formats``: the values of ``format``; None for any.
    - ``full``: every keyword of 2020-12 below the root.
    - ``references`` to ``$defs``, and ``recursion`` through them.
    - ``type_lists``: several types in one ``type``.
    - ``nullable``: null is a member of that name, not a type.
    - ``maps``: ``additionalProperties`` with a schema.
    - ``enum``: the JSON types that its values may have.
    - ``fallback``: the dialect for schemas that a strict one cannot state.
    - ``array_items``: an array needs ``items``.
    - ``max_tools``: the most tools of one request; None where no limit is published.
    - ``description``: the most characters of the description of a tool; None where no limit is published.
    """

    keywords: frozenset[str] = frozenset()
    formats: frozenset[str] | None = None
    full: bool = False
    strict: bool = False
    references: bool = True
    recursion: bool = True
    type_lists: bool = True
    nullable: bool = False
    maps: bool = True
    enum: frozenset[str] = frozenset(("null", "boolean", "number", "string", "array", "object"))
    fallback: Provider | None = None
    array_items: bool = False
    max_tools: int | None = None
    description: int | None = None


_TEXTS: Final = frozenset(("description",))
_OPENAI_CHARACTERS: Final = 1_024
"""O-24: a longer description of one tool makes OpenAI refuse the whole request."""
_PRIMITIVE: Final = frozenset(("null", "boolean", "number", "string"))
_COUNTS: Final = frozenset(("minItems", "maxItems"))
_BOUNDS: Final = frozenset(("minimum", "maximum"))
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)

DIALECTS: Final[Mapping[Provider, SchemaDialect]] = MappingProxyType(
    {
        Provider.OPENAI: SchemaDialect(full=True, array_items=True, max_tools=128, description=_OPENAI_CHARACTERS),
        Provider.OPENAI_STRICT: SchemaDialect(
            keywords=_TEXTS
            | _COUNTS
            | _BOUNDS
            | {"title", "format", "pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
            formats=_FORMATS,
            strict=True,
            maps=False,
            enum=_PRIMITIVE,
            fallback=Provider.OPENAI,
            max_tools=128,
            description=_OPENAI_CHARACTERS,
        ),
        Provider.ANTHROPIC: SchemaDialect(full=True),
        Provider.ANTHROPIC_STRICT: SchemaDialect(
            keywords=_TEXTS | {"title", "format", "minItems"},
            formats=_FORMATS | {"uri"},
            strict=True,
            recursion=False,
            type_lists=False,
            maps=False,
            enum=_PRIMITIVE,
            fallback=Provider.ANTHROPIC,
        ),
        Provider.GEMINI: SchemaDialect(
            keywords=_TEXTS
            | _COUNTS
            | _BOUNDS
            | {"title", "format", "pattern", "default", "minLength", "maxLength", "minProperties", "maxProperties"},
            references=False,
            recursion=False,
            type_lists=False,
            nullable=True,
            maps=False,
            enum=frozenset(("string",)),
            max_tools=512,
        ),
        Provider.GEMINI_JSON: SchemaDialect(
            keywords=_TEXTS | _COUNTS | _BOUNDS | {"format"}, enum=frozenset(("number", "string")), max_tools=512
        ),
    }
)
"""The row of each provider, as its documents and SDKs of November 2026 say it. [XL-090]"""
