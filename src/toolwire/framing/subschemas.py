"""List the keywords of JSON Schema (draft 2020-12) that hold other schemas."""

from __future__ import annotations

from typing import Final

SINGLE: Final = (
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Each holds one schema."""

LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Each holds a list of schemas."""

NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
"""Each holds schemas by name."""
