"""Schemas that someone else wrote: every dialect, every fault, and the sentences about what does not fit them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW
from toolwire.core.model import Call, Tool
from toolwire.protocols.mcp import document as mcp
from toolwire.protocols.opentool import document as opentool
from toolwire.protocols.otc import document as otc
from toolwire.validation import build_arguments_check, compile_schema, find_schema_fault
from toolwire.validation.foreign_schema import read_foreign_schema
from toolwire.validation.schema_dialects import Dialect

_TOO_MUCH_WORK = "this input schema cannot be used: it contains itself in more than one way for the same value"
DRAFT_07 = "http://json-schema.org/draft-07/schema#"


def accepts(schema: dict[str, Any], value: Any, dialect: str = "") -> bool:
    whole = {"type": "object", "properties": {"v": schema}} | ({"$schema": dialect} if dialect else {})
    return compile_schema(read_foreign_schema(whole).schema)({"v": value}) is None


@pytest.mark.requirement("O-34")
def test_tuple_of_draft_07_is_read_by_position() -> None:
    point = {"type": "array", "items": [{"type": "number"}, {"type": "string"}], "additionalItems": False}
    for dialect in ("", DRAFT_07, "http://json-schema.org/draft-04/schema#"):
        assert accepts(point, [1, "a"], dialect)
        assert not accepts(point, ["a", 1], dialect)
        assert not accepts(point, [1, "a", 2], dialect)


@pytest.mark.requirement("O-34")
@pytest.mark.parametrize(
    ("dialect", "schema", "right", "wrong"),
    [
        ("http://json-schema.org/draft-04/schema#", {"minimum": 3, "exclusiveMinimum": True}, 4, 3),
        (DRAFT_07, {"dependencies": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
        (DRAFT_07, {"dependencies": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}),
        (DRAFT_07, {"definitions": {"N": {"$id": "#n", "type": "integer"}}, "allOf": [{"$ref": "#n"}]}, 1, "a"),
        ("https://json-schema.org/draft/2019-09/schema", {"items": [{"type": "integer"}]}, [1], ["a"]),
        ("https://spec.openapis.org/oas/3.0/schema/2021-09-28", {"type": "string", "nullable": True}, None, 1),
        ("", {"$ref": DRAFT_07}, {"type": "string"}, {"type": 1}),
        ("", {"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "string"}, {"type": 1}),
    ],
)
def test_dialect_that_the_schema_names_is_read(dialect: str, schema: Any, right: Any, wrong: Any) -> None:
    assert accepts(schema, right, dialect)
    assert not accepts(schema, wrong, dialect)


@pytest.mark.requirement("O-34")
def test_what_stands_beside_a_reference_counts_since_2019_09() -> None:
    beside = {"$ref": "#/$defs/A", "maxLength": 1}
    for dialect, fits in ((DRAFT_07, True), ("https://json-schema.org/draft/2019-09/schema", False)):
        whole = {"$schema": dialect, "properties": {"v": beside}, "$defs": {"A": {"type": "string"}}}
        assert (compile_schema(read_foreign_schema(whole).schema)({"v": "long"}) is None) is fits


@pytest.mark.requirement("O-34", "O-35")
@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ({"enum": []}, "its enum has a value that cannot be used, and is left out"),
        ({"type": "date"}, "its type has a value that cannot be used, and is left out"),
        ({"required": True}, "its required has a value that cannot be used, and is left out"),
        ({"pattern": "("}, "its pattern has a value that cannot be used, and is left out"),
        (
            {"$ref": "#/definitions/No"},
            ("it refers to '#/definitions/No', which does not exist, so any value is valid there"),
        ),
        ({"properties": {"a": "text"}}, "a schema in it is not an object, and anything fits it"),
        ({"not": {"type": "date"}}, "its type has a value that cannot be used, and is left out"),
        ({"allOf": [{"$ref": "#/properties/v"}]}, "a schema in it refers to itself for the same value, and that"),
    ],
)
def test_faults_are_mended_with_a_finding(fault: dict[str, Any], finding: str) -> None:
    found = read_foreign_schema({"type": "object", "properties": {"v": fault}})
    assert [text.startswith(finding) for text in found.findings] == [True], found.findings
    for value in (1, "a", None, {}, []):
        assert compile_schema(found.schema)({"v": value}) is None, (found.schema, value)


@pytest.mark.requirement("O-26")
def test_circle_that_consumes_nothing_is_cut() -> None:
    shape = {"required": ["kind"], "oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]}
    kinds = {
        name: {"allOf": [{"$ref": "#/$defs/Shape"}, {"required": [side], "properties": {side: {"type": "number"}}}]}
        for name, side in (("Circle", "r"), ("Square", "side"))
    }
    whole = {"$ref": "#/$defs/Shape", "$defs": {"Shape": shape, **kinds}}
    found = read_foreign_schema(whole)
    assert "a schema in it refers to itself for the same value, and that reference is left out" in found.findings
    check = compile_schema(found.schema)
    assert check({"kind": "circle", "r": 1}) is None
    assert check({"kind": "circle", "r": "one"}) is not None
    nested = {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"inner": {"$ref": "#/$defs/A"}}}}}
    assert read_foreign_schema(nested) == (nested, ())  # it consumes a value each time


@pytest.mark.requirement("O-34")
def test_schema_without_faults_is_left_as_it_is() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"A": {"$anchor": "a", "oneOf": [{"type": "string"}, {"type": "integer"}], "x-own": 1}},
        "properties": {"v": {"$ref": "#a"}, "w": {"const": None, "default": None, "enum": [None, {"$ref": "#no"}]}},
        "dependentSchemas": {"v": False},
    }
    found = read_foreign_schema(schema)
    assert found.schema is schema
    assert found.findings == ()


def build_tools(schema: dict[str, Any]) -> dict[str, tuple[Catalog, tuple[str, ...]]]:
    """Return how each protocol that carries schemas reads a tool with ``schema``."""
    listed = mcp.read({}, "", [{"name": "t", "inputSchema": schema}])
    functions = [{"name": "t", "parameters": [], "return": None, "x-json-schema": schema}]
    read = opentool.read({"opentool": "1.0.0", "info": {}, "functions": functions})
    found = otc.read({"items": [{"id": "T.t", "name": "t", "input_schema": schema}]}, "T")
    assert isinstance(read, opentool.Document)
    assert isinstance(found, otc.Listing)
    return {
        "mcp": (listed.catalog, listed.findings),
        "opentool": (read.catalog, read.notes),
        "otc": (found.catalog, found.findings),
    }


@pytest.mark.requirement("O-34")
def test_every_protocol_reads_foreign_schemas_alike() -> None:
    schema = {
        "$schema": DRAFT_07,
        "type": "object",
        "properties": {"to": {"type": "array", "items": [{"type": "number"}, {"type": "number"}]}, "v": {"enum": []}},
    }
    for protocol, (catalog, findings) in build_tools(schema).items():
        (tool,) = catalog.tools
        check = build_arguments_check()
        assert check(Call(tool, {"to": [1, 2], "v": 1})) is ALLOW, protocol
        assert check(Call(tool, {"to": ["a"]})) is not ALLOW, protocol
        assert any("its enum has a value that cannot be used" in one for one in findings), protocol


names = st.sampled_from(["a", "b", "kind"])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "x" * 400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


def odd_schemas() -> st.SearchStrategy[Any]:
    """Schemas of every kind and dialect, with values that no keyword may have."""
    leaves = st.sampled_from([True, False, {}, {"enum": []}, {"type": "date"}, {"$ref": "#"}, {"$ref": "#/$defs/a"}, 7])

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, max_size=3)
        named = st.dictionaries(names, inner, max_size=3)
        return st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", "string", ["array", "null"], "any", 7, []]),
                "enum": st.lists(values, max_size=3) | values,
                "const": values,
                "required": st.lists(names, max_size=2) | st.just(True),
                "properties": named | st.just([]),
                "items": inner | several,
                "additionalItems": inner,
                "additionalProperties": inner,
                "oneOf": several,
                "anyOf": several,
                "allOf": several,
                "not": inner,
                "if": inner,
                "then": inner,
                "minimum": st.integers(0, 3) | st.just("1"),
                "exclusiveMinimum": st.booleans() | st.integers(0, 3),
                "pattern": st.sampled_from(["^a", "(", "/^a$/", 7]),
                "dependencies": st.dictionaries(names, st.lists(names, max_size=2) | inner, max_size=2),
                "nullable": st.booleans(),
                "$defs": named,
                "$id": st.sampled_from(["#a", "http://x.test/y", "", 7]),
                "$schema": st.sampled_from([DRAFT_07, "http://json-schema.org/draft-04/schema#", "urn:x", 7]),
                "contains": inner,
                "uniqueItems": st.booleans(),
                "multipleOf": st.sampled_from([0, 1, -1, "2"]),
            },
        )

    return st.recursive(leaves, grow, max_leaves=8)


@pytest.mark.requirement("O-34", "O-35")
@settings(max_examples=40)
@given(st.dictionaries(names, odd_schemas(), min_size=1, max_size=3), st.dictionaries(names, values, max_size=3))
def test_no_schema_and_no_value_make_a_sentence_fail(properties: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Whatever the schema is, its tool can be called or a sentence says why not, and every refusal has its words."""
    whole = {"type": "object", "properties": properties, "$defs": {"a": {"type": "object"}}}
    for schema in (whole, read_foreign_schema(whole).schema):
        verdict = build_arguments_check()(Call(Tool(name="t", input_schema=schema), arguments))
        if verdict is not ALLOW:
            json.dumps(str(verdict))
    read = read_foreign_schema(whole).schema
    assert read_foreign_schema(read).schema == read
    # What is left out of reach is work that no check may take, never a fault of the schema.
    assert find_schema_fault(read) in ("", _TOO_MUCH_WORK)


@pytest.mark.requirement("O-34")
@settings(max_examples=30)
@given(odd_schemas(), values)
def test_reading_refuses_nothing_that_the_schema_accepts(schema: Any, value: Any) -> None:
    whole = {"type": "object", "properties": {"v": schema}, "$defs": {"a": {"type": "object"}}}
    try:
        exact = compile_schema(whole)
    except ValueError:
        return  # it is no schema of 2020-12 as it stands, so it accepts nothing that could be compared
    if exact({"v": value}) is None:
        assert compile_schema(read_foreign_schema(whole).schema)({"v": value}) is None


@pytest.mark.requirement("O-34")
def test_a_dialect_that_is_not_known_is_read_as_2020_12() -> None:
    assert Dialect.DRAFT_2020_12 > Dialect.DRAFT_07
    assert accepts({"prefixItems": [{"type": "integer"}]}, [1], "https://example.test/own")
    assert not accepts({"prefixItems": [{"type": "integer"}]}, ["a"], "https://example.test/own")
