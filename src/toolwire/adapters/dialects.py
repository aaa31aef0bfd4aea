"""What of JSON Schema each provider's API takes in the declaration of a tool: one row for each shape it knows.

Rules:
- Strict shapes need every property named and every object closed; what cannot be said so is declared without strict.
- The key pattern is the narrowest of them all, so that one declaration can be moved from provider to provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""A property name that every provider takes."""

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A tool's name that every provider takes."""

UNROLLED: Final = 3
"""How often a schema may hold itself where references are not taken."""


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
    """What one provider takes.

    ``keywords`` are those that limit or describe a value, besides the ones that build schemas out of schemas.
    ``formats`` None takes any. ``whole`` takes every keyword of 2020-12 below the root. ``references`` to ``$defs``
    are taken, ``recursion`` through them too. ``type_lists`` takes several types in one ``type``; ``nullable`` says
    null by a member of that name. ``enum`` is the JSON types its values may have. ``otherwise`` is the shape that is
    used where a strict one would forbid something.
    """

    keywords: frozenset[str] = frozenset()
    formats: frozenset[str] | None = None
    whole: bool = False
    strict: bool = False
    references: bool = True
    recursion: bool = True
    type_lists: bool = True
    nullable: bool = False
    maps: bool = True
    enum: frozenset[str] = frozenset(("null", "boolean", "number", "string", "array", "object"))
    otherwise: Provider | None = None


_TEXTS: Final = frozenset(("description",))
_PRIMITIVE: Final = frozenset(("null", "boolean", "number", "string"))
_COUNTS: Final = frozenset(("minItems", "maxItems"))
_BOUNDS: Final = frozenset(("minimum", "maximum"))
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)

DIALECTS: Final[Mapping[Provider, SchemaDialect]] = MappingProxyType(
    {
        Provider.OPENAI: SchemaDialect(whole=True),
        Provider.OPENAI_STRICT: SchemaDialect(
            keywords=_TEXTS
            | _COUNTS
            | _BOUNDS
            | {"title", "format", "pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
            formats=_FORMATS,
            strict=True,
            maps=False,
            enum=_PRIMITIVE,
            otherwise=Provider.OPENAI,
        ),
        Provider.ANTHROPIC: SchemaDialect(whole=True),
        Provider.ANTHROPIC_STRICT: SchemaDialect(
            keywords=_TEXTS | {"title", "format", "minItems"},
            formats=_FORMATS | {"uri"},
            strict=True,
            recursion=False,
            type_lists=False,
            maps=False,
            enum=_PRIMITIVE,
            otherwise=Provider.ANTHROPIC,
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
        ),
        Provider.GEMINI_JSON: SchemaDialect(
            keywords=_TEXTS | _COUNTS | _BOUNDS | {"format"}, enum=frozenset(("number", "string"))
        ),
    }
)
"""The row of each provider, as its documents and SDKs of November 2026 say it. [XL-090]"""
