"""The validator finds every fault of a document at once, where it is, and none where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.model import Tool
from toolwire.framing import positions
from toolwire.protocols.opentool import document
from toolwire.protocols.opentool.validator import MAX_BYTES, Fault, check

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "spec" / "opentool" / "examples"
INDEX: dict[str, dict[str, str]] = json.loads((EXAMPLES / "index.json").read_text(encoding="utf-8"))
VALID = sorted((EXAMPLES / "valid").glob("*.json"))
REAL = sorted((ROOT / "tests" / "vectors" / "opentool").glob("*.json"))
SMALL: dict[str, Any] = json.loads((EXAMPLES / "valid" / "small.json").read_bytes())


def proofs(*names: str) -> list[Any]:
    """Return the faulty examples whose rule is one of ``names``."""
    found = [name for name, due in INDEX.items() if due["rule"] in names]
    assert found
    return found


def assert_found(name: str) -> None:
    found = [
        {"pointer": fault.pointer, "rule": fault.rule, "severity": fault.severity}
        for fault in check((EXAMPLES / "faulty" / name).read_bytes())
    ]
    assert found == [INDEX[name]]


def rules_of(data: Any) -> list[tuple[str, str]]:
    return [(fault.rule, fault.pointer) for fault in check(json.dumps(data))]


@pytest.mark.requirement("OT-001", "OT-002", "OT-004", "OT-005", "A-05")
@pytest.mark.parametrize("name", proofs("OT-001", "OT-002", "OT-004", "OT-005", "A-05"))
def test_document_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("OT-003", "OT-009", "OT-010")
@pytest.mark.parametrize("name", proofs("OT-003", "OT-009", "OT-010"))
def test_server_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("OT-006", "OT-007", "OT-008")
@pytest.mark.parametrize("name", proofs("OT-006", "OT-007", "OT-008"))
def test_info_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("OT-011", "OT-012", "OT-013", "OT-014", "A-07", "A-11")
@pytest.mark.parametrize("name", proofs("OT-011", "OT-012", "OT-013", "OT-014", "A-07", "A-11"))
def test_function_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("OT-015", "OT-016", "OT-017", "OT-018")
@pytest.mark.parametrize("name", proofs("OT-015", "OT-016", "OT-017", "OT-018"))
def test_parameter_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("OT-019", "OT-020", "OT-021")
@pytest.mark.parametrize("name", proofs("OT-019", "OT-020", "OT-021"))
def test_return_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("OT-022", "OT-023", "OT-024", "OT-025", "OT-026", "OT-027", "A-02", "A-04")
@pytest.mark.parametrize("name", proofs("OT-022", "OT-023", "OT-024", "OT-025", "OT-026", "OT-027", "A-02"))
def test_schema_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("A-01", "D-18")
@pytest.mark.parametrize("name", proofs("A-01"))
def test_reference_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


@pytest.mark.requirement("OT-029", "D-16")
@pytest.mark.parametrize("name", proofs("OT-029", "D-16"))
def test_text_faults_are_reported_as_expected(name: str) -> None:
    assert_found(name)


def test_every_document_rule_has_a_faulty_example() -> None:
    assert {f"OT-{number:03}" for number in range(1, 28)} <= {due["rule"] for due in INDEX.values()}
    assert set(INDEX) == {file.name for file in (EXAMPLES / "faulty").iterdir()}
    assert len(INDEX) >= 60


@pytest.mark.requirement("OT-003", "OT-005", "OT-007", "OT-010", "OT-011", "OT-013", "OT-014", "OT-016", "OT-031")
@pytest.mark.parametrize("file", [*VALID, *REAL], ids=lambda file: file.stem)
def test_a_valid_document_has_no_fault(file: Path) -> None:
    assert check(file.read_bytes()) == ()


def test_all_faults_are_found_at_once_in_the_order_of_the_text() -> None:
    text = """{
      "opentool": 1,
      "functions": [
        {"name": "a b", "parameters": [{"name": "é", "schema": {"type": "text"}, "required": "no"}], "return": 7}
      ]
    }"""
    assert [(fault.line, fault.column, fault.rule, fault.pointer) for fault in check(text)] == [
        (1, 1, "OT-002", ""),
        (2, 19, "OT-001", "/opentool"),
        (4, 9, "OT-012", "/functions/0"),
        (4, 18, "OT-011", "/functions/0/name"),
        (4, 73, "OT-022", "/functions/0/parameters/0/schema/type"),
        (4, 94, "OT-018", "/functions/0/parameters/0/required"),
        (4, 112, "OT-014", "/functions/0/return"),
    ]


def test_fault_states_what_is_wrong_and_what_is_expected() -> None:
    (fault,) = check((EXAMPLES / "faulty" / "type_unknown.json").read_bytes())
    assert fault == Fault(
        "/functions/0/parameters/0/schema/type",
        15,
        21,
        "error",
        "OT-022",
        "'text' is not a valid type. Use boolean, integer, number, string, array or object.",
    )


def test_text_and_bytes_are_checked_alike() -> None:
    text = json.dumps(SMALL | {"functions": [{"é": 1}]}, ensure_ascii=False)
    assert check(text) == check(text.encode()) != ()
    assert [fault.rule for fault in check('"\ud800"')] == ["OT-029"]


def schemas(**named: Any) -> dict[str, Any]:
    return {"opentool": "1.1.0", "info": {"title": "t", "version": "1"}, "functions": [], "schemas": named}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/schemas/{name}"}


@pytest.mark.requirement("A-02", "OT-026")
@pytest.mark.parametrize(
    ("type_", "values", "wrong"),
    [
        ("integer", [1, 1.0, -0.0, 10**30, 1.5, True, None, "1"], [4, 5, 6, 7]),
        ("number", [1, 1.5, False, "1.5"], [2, 3]),
        ("boolean", [True, False, 0, 1], [2, 3]),
        ("string", ["", "a", 1, None], [2, 3]),
        ("array", [[], [1], {}, None], [2, 3]),
        ("object", [{}, {"a": 1}, [], None, "a"], [2, 3, 4]),
    ],
)
def test_enum_value_of_another_type_is_a_fault(type_: str, values: list[Any], wrong: list[int]) -> None:
    needed: dict[str, Any] = {"properties": {}, "items": {"type": "string"}}
    data = schemas(A=needed | {"type": type_, "enum": values})
    assert rules_of(data) == [("A-02", f"/schemas/A/enum/{place}") for place in wrong]


def test_at_most_1000_enum_faults_are_reported() -> None:
    data = schemas(A={"type": "integer", "enum": ["a"] * 3_000})
    assert rules_of(data) == [("A-02", f"/schemas/A/enum/{place}") for place in range(1_000)]


@pytest.mark.requirement("OT-003")
@pytest.mark.parametrize(
    ("version", "knows"), [("1.0", False), ("1.0.7", False), ("1.1.0", True), ("1", True), ("", True)]
)
def test_server_member_is_checked_only_in_versions_that_define_it(version: str, knows: bool) -> None:
    found = rules_of(schemas() | {"opentool": version, "server": {}})
    assert [rule for rule, _ in found if rule in ("OT-003", "OT-009")] == ["OT-009" if knows else "OT-003"]


@pytest.mark.requirement("A-01")
def test_only_references_inside_a_cycle_give_a_warning() -> None:
    data = schemas(
        Tree={"type": "object", "properties": {"left": ref("Leaf"), "next": ref("Wood")}},
        Wood={"type": "array", "items": ref("Tree")},
        Leaf={"type": "object", "properties": {"on": {"type": "string"}}},
        Outside={"type": "array", "items": ref("Tree")},
    )
    assert rules_of(data) == [
        ("A-01", "/schemas/Tree/properties/next/$ref"),
        ("A-01", "/schemas/Wood/items/$ref"),
    ]
    assert {fault.severity for fault in check(json.dumps(data))} == {"warning"}


@pytest.mark.requirement("A-01")
def test_references_that_only_lead_to_each_other_are_errors() -> None:
    found = check(json.dumps(schemas(A=ref("B"), B=ref("A"), C=ref("A"), D=ref("E"), E={"type": "string"})))
    assert [(fault.pointer, fault.severity) for fault in found] == [
        ("/schemas/A/$ref", "error"),
        ("/schemas/B/$ref", "error"),
    ]


@pytest.mark.requirement("A-01")
def test_reference_to_a_name_with_a_slash_must_be_escaped() -> None:
    data = schemas(**{"a/b": {"type": "string"}, "c": ref("a~1b"), "d": ref("a/b")})
    assert rules_of(data) == [("A-01", "/schemas/d/$ref")]


@pytest.mark.requirement("D-17")
def test_long_reference_chain_is_checked() -> None:
    number = 5_000
    chain = {f"S{place}": ref(f"S{place + 1}") for place in range(number)}
    assert check(json.dumps(schemas(**chain, **{f"S{number}": {"type": "string"}}))) == ()
    ring = check(json.dumps(schemas(**chain, **{f"S{number}": ref("S0")})))
    assert len(ring) == 1_000
    assert {fault.severity for fault in ring} == {"error"}


@pytest.mark.requirement("D-17")
def test_doubling_references_are_not_expanded() -> None:
    doubling = {
        f"S{place}": {"type": "object", "properties": {"a": ref(f"S{place + 1}"), "b": ref(f"S{place + 1}")}}
        for place in range(100)
    }
    assert check(json.dumps(schemas(**doubling, S100={"type": "string"}))) == ()


@pytest.mark.requirement("D-16")
def test_too_deep_document_is_one_fault() -> None:
    schema: Any = {"type": "string"}
    for _ in range(300):
        schema = {"type": "array", "items": schema}
    assert [fault.rule for fault in check(json.dumps(schemas(Deep=schema)))] == ["OT-029"]


def test_document_at_the_depth_limit_is_checked() -> None:
    schema: Any = {"type": "text"}
    for _ in range(190):
        schema = {"type": "array", "items": schema}
    assert rules_of(schemas(Deep=schema)) == [("OT-022", "/schemas/Deep" + "/items" * 190 + "/type")]


def test_at_most_1000_faults_are_reported() -> None:
    assert len(check(json.dumps(SMALL | {"functions": [None] * 5_000}))) == 1_000


def test_long_names_do_not_multiply() -> None:
    name = "a" * 300_000
    nulls = {"type": "object", "properties": dict.fromkeys(map(str, range(2_000)))}
    found = check(json.dumps(schemas(**{name: nulls})))
    assert found
    assert sum(len(fault.pointer) for fault in found) < 11_000_000


def test_a_text_that_is_too_large_is_one_fault() -> None:
    assert [fault.rule for fault in check(b" " * (MAX_BYTES + 1))] == ["D-16"]


@given(text=st.binary(max_size=200) | st.text(max_size=200))
def test_any_text_is_checked_with_positions(text: str | bytes) -> None:
    found = check(text)
    assert found  # nothing this short is a document
    assert all(fault.line >= 1 and fault.column >= 1 for fault in found)


@given(
    data=st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["schemas", "functions", "$ref", "type", "items", "enum", "é/~"]), inner)
        ),
        max_leaves=12,
    )
)
def test_each_fault_position_matches_its_pointer(data: Any) -> None:
    text = json.dumps(data, indent=1, ensure_ascii=False)
    found = check(text)
    places = positions.locate(text, [fault.pointer for fault in found])
    assert [(fault.line, fault.column) for fault in found] == [places[fault.pointer].value for fault in found]


@pytest.mark.requirement("S-2", "A-04", "OT-012")
def test_written_document_has_no_fault() -> None:
    properties = {"a": {"type": ["integer", "null"]}, "b": {"type": "array"}, "c": {}, "d": {"enum": [1, "x"]}}
    tools = (
        Tool(
            name="find",
            toolkit="Kit",
            input_schema={"type": "object", "properties": properties, "required": ["a"]},
            output_schema={"anyOf": [{"type": "object"}, {"type": "null"}]},
        ),
        Tool(name="stop", toolkit="Kit", description="Stop.", output_schema=None),
    )
    assert check(json.dumps(document.write(Catalog(title="Kit", tools=tools)))) == ()


@pytest.mark.requirement("OT-031")
@pytest.mark.parametrize("version", ["1.1.0", "1.0.0"])
def test_a_catalog_is_written_in_either_version(version: str) -> None:
    catalog = Catalog(title="Kit", tools=(Tool(name="stop", toolkit="Kit", description="Stop."),))
    written = document.write(catalog, version)
    assert written["opentool"] == version
    assert check(json.dumps(written)) == ()
    assert document.write(catalog)["opentool"] == "1.1.0"
