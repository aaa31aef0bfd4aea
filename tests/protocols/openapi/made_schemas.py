"""Schemas of every kind that OpenAPI knows, bodies for them, and the judge that real documents have too."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from corpus.meaning import Meaning, without_names

NAMES = ("a", "b", "c", "kind")
DEFINED = ("One", "Two", "Three")
PREFIX = "#/components/schemas/"
_SCALARS = st.sampled_from(["cat", "dog", "", "2020-01-01", 0, 1, 7, 2.5, True, None])
_TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object"])
_FORMATS = st.sampled_from(["date", "ipv4"])
_WORDS = st.sampled_from(["What it is.", "It must be a cat. " * 12])


def _some(old: bool) -> st.SearchStrategy[dict[str, Any]]:
    strings = st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "format": _FORMATS,
            "minLength": st.integers(0, 4),
            "maxLength": st.integers(2, 9),
            "pattern": st.sampled_from(["^c", "[0-9]"]),
            "description": _WORDS,
        },
    )
    numbers = st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(0, 2), "maximum": st.integers(1, 9), "multipleOf": st.just(0.5)},
    )
    few = st.fixed_dictionaries({"enum": st.lists(_SCALARS, min_size=1, max_size=4, unique_by=repr)})
    one = st.fixed_dictionaries({"type": _TYPES})
    if old:
        nulls = st.fixed_dictionaries({"type": _TYPES, "nullable": st.just(True)})
        return st.one_of(strings, numbers, few, one, nulls)
    several = st.fixed_dictionaries({"type": st.lists(_TYPES | st.just("null"), min_size=1, max_size=3, unique=True)})
    constants = st.fixed_dictionaries({"const": _SCALARS})
    broken = st.sampled_from([{"$ref": f"{PREFIX}Nowhere"}, {"type": "date"}, {"minLength": "long"}])
    return st.one_of(strings, numbers, few, one, several, constants, broken)


def _objects(inner: st.SearchStrategy[Any], old: bool) -> st.SearchStrategy[dict[str, Any]]:
    hidden = st.fixed_dictionaries({"type": st.just("string"), "readOnly": st.just(True)})
    names = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
    optional: dict[str, Any] = {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from(NAMES), inner | hidden, min_size=1, max_size=3),
        "required": names,
        "additionalProperties": st.booleans() | inner,
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(2, 4),
        "description": _WORDS,
    }
    if not old:
        optional |= {
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "[", "d$"]), inner, min_size=1, max_size=2),
            "propertyNames": inner,
            "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
            "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
            "unevaluatedProperties": st.booleans() | inner,
        }
    return st.fixed_dictionaries({}, optional=optional)


def _arrays(inner: st.SearchStrategy[Any], old: bool) -> st.SearchStrategy[dict[str, Any]]:
    optional: dict[str, Any] = {"type": st.just("array"), "items": inner, "uniqueItems": st.just(True)}
    if not old:
        optional |= {
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "minContains": st.integers(0, 1),
            "maxContains": st.integers(1, 2),
            "unevaluatedItems": st.just(False) | inner,
        }
    return st.fixed_dictionaries({}, optional=optional)


def _build_combined_schemas(inner: st.SearchStrategy[Any], old: bool) -> st.SearchStrategy[dict[str, Any]]:
    branches = st.lists(inner, min_size=1, max_size=3)
    message = st.fixed_dictionaries({"propertyName": st.just("kind")}, optional={"mapping": _mappings()})
    optional: dict[str, Any] = {
        "allOf": branches,
        "anyOf": branches,
        "oneOf": branches,
        "not": inner,
        "discriminator": message,
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
    }
    if not old:
        optional |= {"if": inner, "then": inner, "else": inner, "unevaluatedProperties": st.just(False)}
    return st.fixed_dictionaries({}, optional=optional)


def _mappings() -> st.SearchStrategy[dict[str, str]]:
    targets = st.sampled_from([*DEFINED, *(PREFIX + name for name in DEFINED)])
    return st.dictionaries(st.sampled_from(["cat", "dog"]), targets, max_size=2)


def schemas(version: str) -> st.SearchStrategy[Any]:
    """Return a strategy of schemas of an OpenAPI ``version``; their references are to those in ``DEFINED``."""
    old = version.startswith("3.0")
    references = st.sampled_from([{"$ref": PREFIX + name} for name in DEFINED])
    leaves = _some(old) | references
    return st.recursive(
        leaves,
        lambda inner: (
            _objects(inner, old)
            | _arrays(inner, old)
            | _build_combined_schemas(inner, old)
            | _build_combined_schemas(inner, old)
        ),
        max_leaves=10,
    )


def documents() -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of documents of one operation with a body."""

    def whole(version: str) -> st.SearchStrategy[dict[str, Any]]:
        inside = schemas(version)
        defined = st.fixed_dictionaries(dict.fromkeys(DEFINED, inside))
        taken_apart = st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(NAMES), inside, min_size=1)},
            optional={
                "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
                "additionalProperties": st.booleans(),
                "allOf": st.lists(st.sampled_from([{"$ref": PREFIX + name} for name in DEFINED]), max_size=1),
            },
        )
        return st.builds(_document, st.just(version), inside | taken_apart, defined)

    return st.sampled_from(["3.0.4", "3.1.1", "3.2.0"]).flatmap(whole)


def _document(version: str, body: Any, defined: dict[str, Any]) -> dict[str, Any]:
    taken = {"required": True, "content": {"application/json": {"schema": body}}}
    operation = {"operationId": "a", "requestBody": taken, "responses": {"200": {"description": ""}}}
    return {
        "openapi": version,
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://api.test"}],
        "paths": {"/a": {"post": operation}},
        "components": {"schemas": defined},
    }


VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)


def judge(document: dict[str, Any], schema: Any) -> Any:
    """Return a validator of ``schema`` as ``document`` means it, or None where it means nothing: it goes in circles."""
    meaning = Meaning(document)
    defined = [{"$ref": PREFIX + name} for name in DEFINED]
    if meaning.stands_for_itself({"allOf": [schema, *defined]}):
        return None
    return meaning.validator(schema)


def is_hidden_in(document: dict[str, Any], schema: Any, value: Any) -> bool:
    """Return whether ``value`` has anything that may be read only: a careful guess, by names alone."""
    names = Meaning(document).hidden_names(document["components"], schema)
    return bool(without_names(value, names) != value)
