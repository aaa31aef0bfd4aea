"""Walk a JSON Schema: which keywords hold other schemas, and the schemas directly inside one.

Rules:
- The keywords are those of draft 2020-12, and those of older drafts that many documents still have.
- What only looks like a schema, such as a default or an example, is data and never visited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, TypeAlias

from .model import Json, Schema

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
"""The keywords that hold one schema."""

LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
"""The keywords that hold a list of schemas."""

NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
"""The keywords that hold schemas by name."""

DEFINITIONS: Final = ("$defs", "definitions")
"""The keywords that hold schemas by name for references; a value is not checked against them."""


class _Content(Enum):
    """What a keyword holds."""

    ONE = 1
    LIST = 2
    NAMED = 3


_ONE, _LIST, _BY_NAME = _Content
_CONTENT: Final[Mapping[str, _Content]] = {
    **dict.fromkeys((*SINGLE, "additionalItems", "contentSchema"), _ONE),
    **dict.fromkeys(LISTED, _LIST),
    **dict.fromkeys((*NAMED, *DEFINITIONS), _BY_NAME),
}

Change: TypeAlias = Callable[[Json, str, str], Json]
"""Takes a schema, its keyword, and its name or index there (``""`` if the keyword holds one); returns a new schema."""


def list_subschemas(schema: Schema) -> list[tuple[str, str, Json]]:
    """Return the keyword, the name or index (``""`` if single) and the value of each schema directly in ``schema``.

    A value is listed as it stands there: in a faulty document it may be no schema.
    """
    found: list[tuple[str, str, Json]] = []
    for keyword, value in schema.items():
        content = _CONTENT.get(keyword)
        if content is None:
            continue
        if content is _BY_NAME:
            if isinstance(value, Mapping):
                found += [(keyword, name, one) for name, one in value.items()]
        elif isinstance(value, list) and (content is _LIST or keyword == "items"):
            # A list under "items" is the prefixItems of older drafts.
            found += [(keyword, str(number), one) for number, one in enumerate(value)]
        elif content is _ONE:
            found.append((keyword, "", value))
    return found


def iterate_schemas(schema: Json) -> Iterator[dict[str, Json]]:
    """Yield ``schema`` and every object schema inside it, at any depth; an inner one comes after its outer one."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(inner for _, _, inner in list_subschemas(one))


def change_subschemas(schema: Schema, change: Change) -> dict[str, Json]:
    """Return a copy of ``schema`` in which ``change`` has replaced each schema directly inside it."""
    changed = dict(schema)
    for keyword, value in schema.items():
        content = _CONTENT.get(keyword)
        if content is None:
            continue
        if content is _BY_NAME:
            if isinstance(value, Mapping):
                changed[keyword] = {name: change(one, keyword, name) for name, one in value.items()}
        elif isinstance(value, list) and (content is _LIST or keyword == "items"):
            changed[keyword] = [change(one, keyword, str(number)) for number, one in enumerate(value)]
        elif content is _ONE:
            changed[keyword] = change(value, keyword, "")
    return changed
