"""JSON Schema becomes OpenTool's small schema, and comes back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.protocols.opentool import schema
from toolwire.protocols.opentool.narrow_schema import TYPES, Walk

TEXT = {"type": "string"}
NODE = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["name", "gone"],
        }
    },
}


def small(one: Any) -> dict[str, Any]:
    return schema.write(one, Walk(one if isinstance(one, dict) else {}))


@pytest.mark.requirement("A-03", "OT-022")
@pytest.mark.parametrize(
    ("exact", "type_"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"type": ["integer", "null"]}, "integer"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "number"),
        ({"type": ["integer", "number"]}, "number"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, "object"),
        ({}, "object"),
        (True, "object"),
        ({"type": "null"}, "object"),
        ({"enum": ["a", "b"]}, "string"),
        ({"const": 3}, "integer"),
        ({"const": True}, "boolean"),
        ({"enum": [1, 2.5]}, "number"),
        ({"enum": [[1]]}, "array"),
        ({"items": TEXT}, "array"),
        ({"allOf": [{"type": "integer"}]}, "integer"),
    ],
)
def test_every_schema_gets_one_of_six_types(exact: Any, type_: str) -> None:
    assert small(exact)["type"] == type_


@pytest.mark.requirement("OT-024", "OT-025", "A-04")
def test_objects_always_have_properties_and_arrays_items() -> None:
    assert small({"type": "object"}) == {"type": "object", "properties": {}}
    assert small({"type": "array"}) == {"type": "array", "items": {"type": "object", "properties": {}}}


@pytest.mark.requirement("OT-026", "A-02")
def test_enum_keeps_its_values_without_null() -> None:
    assert small({"type": ["integer", "null"], "enum": [1, 2, None]}) == {"type": "integer", "enum": [1, 2]}
    assert small({"anyOf": [{"const": "a"}, {"enum": ["b"]}]}) == {"type": "string", "enum": ["a", "b"]}


@pytest.mark.parametrize(
    ("value", "type_"),
    [(True, "boolean"), (1, "integer"), (1.5, "number"), ("a", "string"), ([], "array"), ({"a": 1}, "object")],
)
def test_schema_without_a_type_gets_the_type_of_its_values(value: Any, type_: str) -> None:
    assert small({"enum": [value]})["type"] == type_


@pytest.mark.requirement("A-02")
def test_enum_of_several_types_is_listed_in_the_description() -> None:
    assert small({"enum": ["a", 1]}) == {"type": "string", "description": "one of a, 1"}


@pytest.mark.requirement("A-10")
def test_keywords_without_an_equivalent_are_described_in_words() -> None:
    exact = {"type": "integer", "description": "How many.", "minimum": 0, "maximum": 9, "default": 3}
    assert small(exact) == {"type": "integer", "description": "How many. (default 3, at least 0, at most 9)"}
    assert small({"type": "string", "format": "date"})["description"] == "format date"
    assert len(small({"type": "string", "pattern": "x" * 500})["description"]) < 150


@pytest.mark.requirement("A-01", "S-2")
def test_reference_is_inlined_and_recursion_is_cut() -> None:
    assert small(NODE) == {
        "type": "object",
        "properties": {
            "name": TEXT,
            "children": {"type": "array", "items": {"type": "object", "properties": {}}},
        },
        "required": ["name"],
    }


@pytest.mark.requirement("A-01")
@pytest.mark.parametrize("reference", ["#/$defs/Gone", "https://elsewhere.test/schema", "other.json", 7, "#/a/b"])
def test_dangling_reference_allows_anything(reference: Any) -> None:
    assert small({"$ref": reference, "a": 1}) == {"type": "object", "properties": {}}


def test_reference_with_escaped_names_is_resolved() -> None:
    assert small({"$ref": "#/$defs/a~1b~0c", "$defs": {"a/b~c": TEXT}}) == TEXT


def test_all_of_merges_its_parts() -> None:
    parts = [
        {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
        {"type": "object", "properties": {"b": TEXT}, "required": ["b"], "description": "Both."},
    ]
    assert small({"allOf": parts}) == {
        "type": "object",
        "description": "Both.",
        "properties": {"a": TEXT, "b": TEXT},
        "required": ["a", "b"],
    }


def test_object_alternatives_list_all_members_and_require_common_ones() -> None:
    dog = {"type": "object", "properties": {"name": TEXT, "barks": {"type": "boolean"}}, "required": ["name", "barks"]}
    cat = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
    joined = small({"anyOf": [dog, cat]})
    assert set(joined["properties"]) == {"name", "barks"}
    assert joined["required"] == ["name"]


def test_tuple_becomes_an_array_of_its_item_types() -> None:
    assert small({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "number"}]}) == {
        "type": "array",
        "items": {"type": "number"},
    }
    assert small({"anyOf": [{"type": "array", "items": TEXT}, {"type": "array", "items": TEXT}]}) == {
        "type": "array",
        "items": TEXT,
    }


def test_doubling_references_are_cut() -> None:
    defs: dict[str, Any] = {"N0": TEXT}
    for level in range(1, 30):
        below = {"$ref": f"#/$defs/N{level - 1}"}
        defs[f"N{level}"] = {"type": "object", "properties": dict.fromkeys("abcdefgh", below)}
    written = json.dumps(small({"$ref": "#/$defs/N29", "$defs": defs}))
    assert len(written) < 200_000


def test_at_most_20_dangling_references_are_recorded() -> None:
    walk = Walk({})
    members = {f"p{number}": {"$ref": f"#/{number}"} for number in range(30)}
    assert schema.read({"type": "object", "properties": members}, walk)["properties"] == {name: {} for name in members}
    assert len(walk.cuts) == 20


def test_a_long_enum_is_kept() -> None:
    exact = {"type": "integer", "enum": list(range(5_000))}
    assert small(exact) == schema.read(exact, Walk(None)) == exact


def test_deep_schema_is_cut_when_read_and_when_written() -> None:
    deep: dict[str, Any] = TEXT
    for _ in range(190):
        deep = {"type": "array", "items": deep}
    assert "string" not in json.dumps(small(deep))
    assert "string" not in json.dumps(schema.read(deep, Walk(None)))


@pytest.mark.requirement("A-02", "C-4")
def test_numbers_written_as_text_in_an_enum_are_read_as_numbers() -> None:
    assert schema.read({"type": "integer", "enum": ["1", "-2", "x"]}, Walk(None))["enum"] == [1, -2, "x"]
    assert schema.read({"type": "number", "enum": ["1.5", 2]}, Walk(None))["enum"] == [1.5, 2]
    assert schema.read({"type": "string", "enum": ["1"]}, Walk(None))["enum"] == ["1"]


@pytest.mark.requirement("C-4", "A-04", "OT-023", "OT-027")
def test_reading_a_schema_adds_no_requirements() -> None:
    full = {
        "type": "object",
        "description": "A pair.",
        "properties": {"a": {"type": "array"}, "b": {"type": "object"}},
        "required": ["a", "c", 7],
    }
    assert schema.read(full, Walk(None)) == full | {"required": ["a"]}


SCALARS = ["string", "object", "array", "#/$defs/A", "#", "x"]
PARTS = ["type", "properties", "items", "prefixItems", "enum", "const", "required", "description", "default"]
JOINTS = ["anyOf", "oneOf", "allOf", "$ref", "$defs", "A"]
any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*PARTS, *JOINTS]), inner, max_size=5),
    max_leaves=25,
)


def check_small(one: dict[str, Any]) -> None:
    assert one["type"] in TYPES
    assert None not in one.values()
    assert set(one) <= {"type", "description", "properties", "items", "enum", "required"}
    assert ("properties" in one) == (one["type"] == "object")
    assert ("items" in one) == (one["type"] == "array")
    assert set(one.get("required", ())) <= set(one.get("properties", ()))
    for member in one.get("properties", {}).values():
        check_small(member)
    if "items" in one:
        check_small(one["items"])


@pytest.mark.requirement("S-2", "OT-022", "OT-024", "OT-025", "A-01")
@given(any_json)
def test_any_schema_is_written_as_a_valid_small_schema(one: Any) -> None:
    check_small(small(one))


@given(any_json)
def test_any_schema_that_is_read_can_be_written(one: Any) -> None:
    check_small(small(schema.read(one, Walk(one))))


@pytest.mark.requirement("D-17")
@pytest.mark.parametrize(
    "heavy",
    [
        {"type": "string", "enum": list(range(50_000))},
        {"type": "object", "required": ["a"] * 50_000},
        {"$ref": "#/$defs" + "/x" * 50_000},
        {"type": "string", "default": ["x"] * 50_000},
    ],
)
def test_a_heavy_schema_that_is_used_often_costs_little(heavy: Any) -> None:
    places = {f"p{number}": {"$ref": "#/$defs/Heavy"} for number in range(2_000)}
    root = {"type": "object", "properties": places, "$defs": {"Heavy": heavy}}
    assert len(json.dumps(small(root))) < 1_000_000
    walk = Walk(root)
    schema.read(root, walk)
    assert walk.is_cut
