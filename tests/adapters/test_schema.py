"""A tool's schema in each provider's words: accepted there, nothing lost without a word, and back again."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolwire.adapters.schema import Provider, build_tool_schema

from .provider_rules import faults

ALL = tuple(Provider)
TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "required": ["root"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name", "children"],
        }
    },
}


def build_accepted_schema(schema: dict[str, Any], provider: Provider) -> Any:
    shaped = build_tool_schema(schema, provider)
    assert faults(shaped.schema, provider) == []
    return shaped


def words(shaped: Any, *steps: str) -> str:
    node = shaped.schema
    for step in steps:
        node = node[step]
    return node["description"]


@pytest.mark.requirement("XL-090")
@pytest.mark.parametrize("provider", ALL)
def test_unsupported_schema_keywords_are_described(provider: Provider) -> None:
    schema = {
        "type": "object",
        "properties": {"word": {"type": "string", "minLength": 3, "pattern": "^(?=a)", "format": "color"}},
        "required": ["word"],
    }
    shaped = build_accepted_schema(schema, provider)
    reply = shaped.schema["properties"]["word"]
    for key, value in schema["properties"]["word"].items():
        assert reply.get(key) == value or f"{key}: {value}" in reply["description"]


@pytest.mark.requirement("CV-18", "XL-090")
def test_recursion_is_kept() -> None:
    for provider in ALL:
        node = build_accepted_schema(TREE, provider).schema["$defs"]["Node"]
        assert node["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
        # Gemini accepts what leads back to itself only where it is optional.
        assert node["required"] == (["name"] if provider is Provider.GEMINI else ["name", "children"])


@pytest.mark.requirement("XL-090")
@pytest.mark.parametrize("provider", ALL)
def test_property_names_refused_by_a_provider_are_renamed_and_restored(provider: Provider) -> None:
    names = ["page[size]", "$filter", "page_size", "$.xgafv", "StartTime<", "à", "x" * 70, "1st"]
    inner = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    shaped = build_accepted_schema(
        {**inner, "properties": {**inner["properties"], "deep": inner}, "required": [*names, "deep"]}, provider
    )
    arguments: dict[str, Any] = {name: name for name in names}
    arguments["deep"] = dict(arguments)
    reply = shaped.write_arguments(arguments)
    assert len(reply) == len(names) + 1
    assert set(reply) <= shaped.schema["properties"].keys()
    assert shaped.read_arguments(reply) == arguments


@pytest.mark.requirement("XL-090")
@pytest.mark.parametrize("provider", ALL)
def test_union_at_the_root_becomes_optional_properties_with_a_description(provider: Provider) -> None:
    schema = {
        "oneOf": [
            {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
            {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        ]
    }
    shaped = build_accepted_schema(schema, provider)
    assert set(shaped.schema["properties"]) == {"id", "name"}
    assert "oneOf" in shaped.schema["description"]
    assert shaped.read_arguments(shaped.write_arguments({"name": "x"})) == {"name": "x"}


@pytest.mark.requirement("XL-090")
@pytest.mark.parametrize("provider", ALL)
@pytest.mark.parametrize(
    "odd",
    [
        {"type": "object", "properties": 7},
        {"properties": {"a": None, "b": True, "c": False, "d": {"type": "nonsense"}, "e": {"type": 7}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}, "b": {"$ref": 7}, "c": {"$ref": "http://x/"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/properties/a"}, {"minLength": 1}]}}},
        {"type": "object", "required": [7, "a"], "properties": {"a": {"anyOf": []}, "b": {"enum": []}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "object", "properties": {"x": {}}}}},
        {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"maxLength": 3}, "b": {}}}]},
    ],
)
def test_unusual_schema_is_written_without_an_error(odd: dict[str, Any], provider: Provider) -> None:
    build_accepted_schema(odd, provider)


def test_doubling_schema_is_written_within_bounds() -> None:
    definitions = {
        f"L{level}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/L{level + 1}"} for k in ("a", "b")}}
        for level in range(40)
    }
    definitions["L40"] = {"type": "string"}
    schema = {"type": "object", "properties": {"top": {"$ref": "#/$defs/L0"}}, "$defs": definitions}
    for provider in ALL:
        build_accepted_schema(schema, provider)


_TEXTS = st.sampled_from(["a", "b", "ab", "page[size]", "$x", "naïve", "a-b", "a_b"])
_LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 1, "maxLength": 5},
        {"type": "string", "enum": ["x", "y"]},
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 9},
        {"type": "integer", "enum": [1, 2]},
        {"type": "number", "default": 1.5},
        {"type": "boolean"},
        {"const": "fixed"},
        {"type": ["string", "null"]},
        {"type": ["integer", "string"]},
        {"type": "string", "format": "date-time", "description": "When."},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "x"},
        {"$ref": "#/$defs/Pair"},
        {"$ref": "#/$defs/Pair", "description": "Both."},
        {"allOf": [{"$ref": "#/$defs/Pair"}]},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {},
    ]
)
_DEFINITIONS = {
    "Pair": {
        "type": "object",
        "properties": {"l[0]": {"type": "integer"}, "r": {"$ref": "#/$defs/Pair"}},
        "required": ["l[0]"],
        "additionalProperties": False,
    }
}


def _objects(inner: Any) -> Any:
    return st.builds(
        lambda properties, needed, rest: {
            "type": "object",
            "properties": properties,
            "required": sorted(set(properties) & set(needed)),
            **rest,
        },
        st.dictionaries(_TEXTS, inner, max_size=4),
        st.lists(_TEXTS, max_size=4),
        st.sampled_from([{}, {"additionalProperties": False}, {"minProperties": 0}]),
    )


_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        _objects(inner),
        st.builds(lambda one: {"type": "array", "items": one, "maxItems": 3}, inner),
        st.builds(
            lambda ones, key: {key: ones}, st.lists(inner, min_size=1, max_size=3), st.sampled_from(["anyOf", "oneOf"])
        ),
    ),
    max_leaves=6,
)


def _values(draw: Any, node: Any, depth: int = 0) -> Any:
    """Draw a value of ``node``; undeclared members are left out."""
    if "$ref" in node or "allOf" in node:
        node = _DEFINITIONS["Pair"]
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return draw(st.sampled_from(node["enum"]))
    for key in ("anyOf", "oneOf"):
        if key in node:
            return _values(draw, draw(st.sampled_from(node[key])), depth)
    kind = node.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    if kind == "object":
        properties = node.get("properties", {})
        chosen = [n for n in properties if n in node.get("required", ()) or (depth < 5 and draw(st.booleans()))]
        return {name: _values(draw, properties[name], depth + 1) for name in chosen}
    if kind == "array":
        return [_values(draw, node["items"], depth + 1) for _ in range(draw(st.integers(0, 2)))]
    simple = {"string": "t", "integer": 3, "number": 2.5, "boolean": True, "null": None}
    return simple.get(kind, {"page[size]": [1]})


@pytest.mark.requirement("XL-090")
@given(schema=_objects(_SCHEMAS), data=st.data())
def test_arguments_survive_a_round_trip_and_match_the_declared_schema(schema: dict[str, Any], data: Any) -> None:
    schema = {**schema, "$defs": _DEFINITIONS}
    arguments = _values(data.draw, schema)
    assume(jsonschema_rs.is_valid(schema, arguments))  # a value may fit two branches of a oneOf
    for provider in ALL:
        shaped = build_accepted_schema(schema, provider)
        reply = shaped.write_arguments(arguments)
        assert shaped.read_arguments(reply) == arguments
        assert jsonschema_rs.is_valid(dict(shaped.schema), reply)


@pytest.mark.requirement("XL-090")
@pytest.mark.parametrize("provider", ALL)
def test_property_of_an_unused_choice_is_omitted_again(provider: Provider) -> None:
    texts = {"html": {"type": "string"}, "url": {"type": "string"}}
    body = {"type": "object", "properties": texts, "oneOf": [{"required": ["url"]}, {"required": ["html"]}]}
    shaped = build_accepted_schema({"type": "object", "properties": {"body": body}, "required": ["body"]}, provider)
    assert shaped.read_arguments(shaped.write_arguments({"body": {"url": "x"}})) == {"body": {"url": "x"}}
