"""The request body of an operation: which media type is written, and whether its properties are arguments.

Rules:
- An object with known properties is taken apart into arguments; anything else is one argument, ``body``. [CV-15]
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from toolwire.core.model import Json

from .references import Unusable, follow

BODY = "body"

_JSON_TYPE = re.compile(r"application/(?:[A-Za-z0-9!#$&^_.-]+\+)?json", re.IGNORECASE)
_ANY_TYPE = ("*/*", "application/*")
_WHOLE = frozenset(
    (
        "anyOf",
        "const",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "enum",
        "if",
        "maxProperties",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedProperties",
    )
)


class Body(NamedTuple):
    """What an operation takes as JSON. ``properties`` is None where ``schema`` is one argument as a whole."""

    media_type: str
    required: bool
    schema: Json
    properties: dict[str, Json] | None = None
    required_properties: tuple[str, ...] = ()


def read(document: dict[str, Any], node: Json) -> Body | None:
    """Return the JSON body that a Request Body Object declares, or None where it declares none. [CV-11]

    Raises:
        Unusable: the body is of a type that is not written yet, or cannot be read.
    """
    if node is None:
        return None
    declared = follow(document, node, "request body")
    content = declared.get("content")
    if not isinstance(content, dict) or not content:
        return None
    key = _json_key([key for key in content if isinstance(key, str)])
    if key is None:
        raise Unusable(f"its body is {', '.join(sorted(content))[:200]}, and only JSON bodies are written yet")
    media = follow(document, content[key], "media type")
    schema = media.get("schema", {})
    media_type = key.partition(";")[0].strip().lower()
    body = Body("application/json" if media_type in _ANY_TYPE else media_type, declared.get("required") is True, schema)
    taken_apart = _properties(document, schema)
    if taken_apart is None:
        return body
    properties, required = taken_apart
    return body._replace(properties=properties, required_properties=required)


def _json_key(keys: list[str]) -> str | None:
    """Return the media type to send: plain JSON first, then any ``+json``, then a range that takes JSON."""
    ranked = sorted((rank, key) for key in keys if (rank := _rank(key.partition(";")[0].strip().lower())) is not None)
    return ranked[0][1] if ranked else None


def _rank(media_type: str) -> int | None:
    if media_type == "application/json":
        return 0
    if _JSON_TYPE.fullmatch(media_type):
        return 1
    return 2 if media_type in _ANY_TYPE else None


def _properties(document: dict[str, Any], node: Json) -> tuple[dict[str, Json], tuple[str, ...]] | None:
    """Return the properties of an object schema and which it needs, or None where it is better left whole.

    The branches of an allOf are merged where no two of them say different things of one property. [CV-19]
    """
    properties: dict[str, Json] = {}
    required: dict[str, None] = {}
    closed = False
    waiting, seen = [node], set[int]()
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, dict):
            return None
        schema = follow(document, node, "body schema")
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        if not _can_be_taken_apart(schema):
            return None
        own = schema.get("properties", {})
        if any(properties.get(name, one) != one for name, one in own.items()):
            return None
        properties.update(own)
        required.update(dict.fromkeys(_strings(schema.get("required"))))
        closed = closed or schema.get("additionalProperties") is False
        waiting.extend(schema.get("allOf", []))
    return (properties, tuple(required)) if properties or closed else None


def _can_be_taken_apart(schema: dict[str, Any]) -> bool:
    return (
        schema.get("type", "object") == "object"
        and isinstance(schema.get("properties", {}), dict)
        and isinstance(schema.get("allOf", []), list)
        and not isinstance(schema.get("additionalProperties"), dict)
        and schema.get("nullable") is not True
        and not _WHOLE & schema.keys()
    )


def _strings(value: Json) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
