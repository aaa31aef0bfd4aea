"""Convert an OpenAPI 3.1 document to 3.2 or 3.0. A document of 3.0 stays as it is.

Rules:
- A schema accepts at least the values it accepted. Keywords that 3.0 lacks are left out; the server still checks them.
- Bytes, which have no schema in 3.1, are strings of the format ``binary`` in 3.0.
"""
# XL-124

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from toolwire.core.model import Json

Version: TypeAlias = Literal["3.0", "3.1", "3.2"]

RELEASES: Final[Mapping[Version, str]] = {"3.0": "3.0.3", "3.1": "3.1.0", "3.2": "3.2.0"}
_BYTES: Final[Mapping[str, Json]] = {"type": "string", "format": "binary"}
_HOLDS_SCHEMA: Final = frozenset(("schema", "items", "additionalProperties", "not"))
_HOLDS_SCHEMA_LIST: Final = frozenset(("allOf", "anyOf", "oneOf"))
_KEYWORDS: Final = frozenset(
    (
        *(
            "title",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "maxLength",
            "minLength",
        ),
        *(
            "pattern",
            "maxItems",
            "minItems",
            "uniqueItems",
            "maxProperties",
            "minProperties",
            "required",
            "enum",
            "type",
        ),
        *("allOf", "anyOf", "oneOf", "not", "items", "properties", "additionalProperties", "description", "format"),
        *(
            "default",
            "nullable",
            "discriminator",
            "readOnly",
            "writeOnly",
            "example",
            "externalDocs",
            "deprecated",
            "xml",
        ),
    )
)


def read_version(document: Mapping[str, Json]) -> Version:
    """Return the version that ``document`` declares; 3.1 if it declares none that is known."""
    declared = str(document.get("openapi", ""))[:3]
    return "3.0" if declared == "3.0" else "3.2" if declared == "3.2" else "3.1"


def as_version(document: Mapping[str, Json], version: Version | None) -> dict[str, Json]:
    """Return the 3.1 ``document`` converted to ``version``; without one, and from 3.0, it keeps its own."""
    own = read_version(document)
    if own == "3.0":
        # Its schemas have another meaning in 3.1, such as nullable and the exclusive bounds.
        return dict(document)
    version = version or own
    # 3.2 only adds to 3.1, so the document is valid as it is.
    if version != "3.0":
        return {**document, "openapi": RELEASES[version]}
    older = {
        key: _downgrade(value, key) for key, value in document.items() if key not in ("jsonSchemaDialect", "webhooks")
    }
    info = older.get("info")
    if isinstance(info, dict):
        older["info"] = {key: value for key, value in info.items() if key != "summary"}
    components = older.get("components")
    if isinstance(components, dict):
        older["components"] = {key: value for key, value in components.items() if key != "pathItems"}
    return {**older, "openapi": RELEASES["3.0"]}


def _downgrade(node: Json, key: str = "") -> Json:
    """Return the value under ``key`` of an OpenAPI object, with its schemas converted to 3.0."""
    if key == "schema":
        return _downgrade_schema(node)
    if key == "schemas" and isinstance(node, dict):
        return {name: _downgrade_schema(one) for name, one in node.items()}
    if key in ("example", "examples") or key.startswith("x-"):
        return node
    if key == "content" and isinstance(node, dict):
        return {name: _downgrade(one, name) if one != {} else {"schema": _BYTES} for name, one in node.items()}
    if isinstance(node, dict):
        return {name: _downgrade(one, name) for name, one in node.items()}
    return [_downgrade(one) for one in node] if isinstance(node, list) else node


def _downgrade_schema(node: Json) -> Json:
    if not isinstance(node, dict):
        return {"not": {}} if node is False else {}
    # In 3.0 the siblings of a reference are ignored, so they move beside it into an allOf.
    if "$ref" in node:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        pointed = {"$ref": node["$ref"]}
        return {"allOf": [pointed], **_downgrade_schema(beside)} if beside else pointed
    built = {
        key: _downgrade_inner(key, value) for key, value in node.items() if key in _KEYWORDS or key.startswith("x-")
    }
    if "const" in node:
        # 3.0 has no const; an enum of one value says the same.
        built["enum"] = [node["const"]]
    examples = node.get("examples")
    if isinstance(examples, list) and examples:
        built["example"] = examples[0]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        _write_bound(built, bound, exclusive)
    return _write_type(built)


def _downgrade_inner(key: str, value: Json) -> Json:
    if key == "properties" and isinstance(value, dict):
        return {name: _downgrade_schema(one) for name, one in value.items()}
    if key == "additionalProperties" and isinstance(value, bool):
        return value
    if key in _HOLDS_SCHEMA:
        return _downgrade_schema(value)
    return [_downgrade_schema(one) for one in value] if key in _HOLDS_SCHEMA_LIST and isinstance(value, list) else value


def _write_bound(built: dict[str, Json], bound: str, exclusive: str) -> None:
    limit = built.get(exclusive)
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return
    inclusive = built.get(bound)
    is_tighter = not isinstance(inclusive, int | float) or (
        limit >= inclusive if bound == "minimum" else limit <= inclusive
    )
    del built[exclusive]
    if is_tighter:
        # In 3.0 an exclusive bound is a flag beside the inclusive one, so only the tighter of the two can be kept.
        built[bound], built[exclusive] = limit, True


def _write_type(built: dict[str, Json]) -> dict[str, Json]:
    """Return a schema whose ``type`` is one string; ``nullable`` replaces the type null."""
    types = built.get("type")
    kinds = [types] if isinstance(types, str) else [one for one in types or () if isinstance(one, str)]
    others = [kind for kind in kinds if kind != "null"]
    built.pop("type", None)
    if kinds and not others:
        # Only null: 3.0 has no such type, and nullable alone would accept anything.
        return {**built, "nullable": True, "enum": [None]}
    if len(others) == 1:
        built["type"] = others[0]
        if others == ["array"]:
            # 3.0 requires items for an array.
            built.setdefault("items", {})
    elif others:
        # A list of types is a choice in 3.0. It goes into an allOf because the schema may have an anyOf already.
        choices: list[Json] = [{"type": kind, **({"items": {}} if kind == "array" else {})} for kind in others]
        choices += [{"nullable": True, "enum": [None]}] if "null" in kinds else []
        return {**built, "allOf": [*built.get("allOf", []), {"anyOf": choices}]}
    if len(others) == 1 and "null" in kinds:
        built["nullable"] = True
    return built
