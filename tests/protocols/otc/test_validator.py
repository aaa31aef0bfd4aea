"""What is wrong with definitions: each fault with its rule, its pointer and its place, all of them at once."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from toolwire.core.catalog import Catalog
from toolwire.framing.jsontext import MAX_DEPTH
from toolwire.protocols.otc import document
from toolwire.protocols.otc.validator import check

ROOT = Path(__file__).parents[3]
DESCRIPTION = json.loads((ROOT / "spec" / "otc" / "1.0" / "openapi.json").read_text(encoding="utf-8"))
VECTORS = json.loads((ROOT / "tests" / "vectors" / "otc.json").read_text(encoding="utf-8"))
GOOD: dict[str, Any] = {
    "id": "Calculator.Add@1.0.0",
    "name": "Calculator_Add",
    "description": "Adds two numbers together.",
    "version": "1.0.0",
    "input_schema": {
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number", "description": "The first."}},
            "required": ["a"],
        }
    },
    "output_schema": {"type": "number"},
    "requirements": {"authorization": [{"id": "gh", "oauth2": {"scopes": ["repo"]}}], "secrets": [{"id": "PIN"}]},
}
PARAMETER = "input_schema/parameters/properties/a"


def fits(name: str, data: Any) -> bool:
    schema = {**DESCRIPTION, "$ref": f"#/components/schemas/{name}"}
    return jsonschema.Draft202012Validator(schema).is_valid(data)


def list_faults(data: Any) -> list[tuple[str, str, str]]:
    return [(fault.severity, fault.rule, fault.pointer) for fault in check(json.dumps(data))]


def change_definition(path: str, value: Any) -> dict[str, Any]:
    """Return the good definition with another value at ``path``; ``...`` takes the member away."""
    data = deepcopy(GOOD)
    *way, last = path.split("/")
    inner: Any = data
    for step in way:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return data


FAULTS: list[tuple[str, Any, str, str]] = [
    ("id", ..., "OTC-001", ""),
    ("id", 7, "OTC-001", "/id"),
    ("id", "Calculator.Add", "OTC-001", "/id"),
    ("id", "Calcu-lator.Add@1.0.0", "OTC-001", "/id"),
    ("name", ..., "OTC-003", ""),
    ("name", "", "OTC-003", "/name"),
    ("name", "Add two", "OTC-003", "/name"),
    ("name", "x" * 65, "OTC-003", "/name"),
    ("description", ..., "OTC-004", ""),
    ("description", "", "OTC-004", "/description"),
    ("description", None, "OTC-004", "/description"),
    ("version", "1.0", "OTC-005", "/version"),
    ("version", ..., "OTC-005", ""),
    ("input_schema", ..., "OTC-007", ""),
    ("input_schema", [], "OTC-007", "/input_schema"),
    ("input_schema/parameters", ..., "OTC-008", "/input_schema"),
    ("input_schema/parameters", None, "OTC-008", "/input_schema/parameters"),
    ("input_schema/parameters/type", "array", "OTC-008", "/input_schema/parameters/type"),
    ("input_schema/parameters/$defs", {}, "OTC-009", "/input_schema/parameters/$defs"),
    (f"{PARAMETER}/$ref", "#/definitions/A", "OTC-009", f"/{PARAMETER}/$ref"),
    (f"{PARAMETER}/items", {"definitions": {}}, "OTC-009", f"/{PARAMETER}/items/definitions"),
    (f"{PARAMETER}/type", "int", "OTC-010", f"/{PARAMETER}/type"),
    (f"{PARAMETER}/type", [], "OTC-010", f"/{PARAMETER}/type"),
    (f"{PARAMETER}/items", 7, "OTC-010", f"/{PARAMETER}/items"),
    (f"{PARAMETER}/allOf", {}, "OTC-010", f"/{PARAMETER}/allOf"),
    (f"{PARAMETER}/anyOf", [1], "OTC-010", f"/{PARAMETER}/anyOf/0"),
    (f"{PARAMETER}/enum", "a", "OTC-010", f"/{PARAMETER}/enum"),
    (f"{PARAMETER}/type", [], "OTC-010", f"/{PARAMETER}/type"),
    (f"{PARAMETER}/type", ["number", 7], "OTC-010", f"/{PARAMETER}/type"),
    (f"{PARAMETER}/properties", [], "OTC-010", f"/{PARAMETER}/properties"),
    ("input_schema/parameters/required", "a", "OTC-010", "/input_schema/parameters/required"),
    (f"{PARAMETER}/description", ..., "OTC-011", f"/{PARAMETER}"),
    (PARAMETER, True, "OTC-011", f"/{PARAMETER}"),
    ("output_schema", ..., "OTC-012", ""),
    ("output_schema", "number", "OTC-012", "/output_schema"),
    ("output_schema/$ref", "#", "OTC-009", "/output_schema/$ref"),
    ("output_schema/description", 1, "OTC-010", "/output_schema/description"),
    ("requirements", [], "OTC-013", "/requirements"),
    ("requirements/authorization", {}, "OTC-016", "/requirements/authorization"),
    ("requirements/authorization/0/id", ..., "OTC-016", "/requirements/authorization/0"),
    ("requirements/authorization/0/oauth2/scopes", [1], "OTC-016", "/requirements/authorization/0/oauth2/scopes/0"),
    ("requirements/secrets", ["PIN"], "OTC-017", "/requirements/secrets/0"),
    ("requirements/user_id", "yes", "OXP-014", "/requirements/user_id"),
]


@pytest.mark.parametrize(("path", "value", "rule", "pointer"), FAULTS)
@pytest.mark.requirement(
    "OTC-001", "OTC-003", "OTC-004", "OTC-005", "OTC-007", "OTC-008", "OTC-009", "OTC-010", "OTC-011", "OTC-012"
)
def test_fault_is_reported_at_its_place_and_violates_the_json_schema(
    path: str, value: Any, rule: str, pointer: str
) -> None:
    data = change_definition(path, value)
    assert list_faults(data) == [("error", rule, pointer)]
    assert not fits("ToolDefinition", data)


@pytest.mark.requirement("OTC-001", "OTC-003", "OTC-005")
def test_trailing_newline_in_id_name_or_version_is_a_fault() -> None:
    for member in ("id", "name", "version"):
        assert [pointer for _, _, pointer in list_faults(change_definition(member, f"{GOOD[member]}\n"))] == [
            f"/{member}"
        ]


def test_valid_definition_has_no_fault() -> None:
    assert list_faults(GOOD) == []
    assert fits("ToolDefinition", GOOD)


@pytest.mark.requirement("OTC-018")
def test_the_definitions_of_the_rfc_have_no_fault() -> None:
    bodies = [entry["body"] for entry in VECTORS if "section 4.1" in entry["source"]]
    assert bodies
    for body in bodies:
        assert list_faults(body) == []


@pytest.mark.requirement("A-35", "A-36")
def test_older_rfc_form_is_reported_with_the_needed_change() -> None:
    lists = [entry["body"] for entry in VECTORS if isinstance(entry.get("body"), dict) and "tools" in entry["body"]]
    (older,) = (body for body in lists if "input" in body["tools"][0])
    faults = list_faults(older)
    assert ("warning", "A-36", "/tools/0/input") in faults
    assert {rule for severity, rule, _ in faults if severity == "error"} == {"OTC-005", "OTC-007", "OTC-012"}


def test_served_list_has_no_fault(catalog: Catalog) -> None:
    assert list_faults(document.write(catalog)) == []


@pytest.mark.requirement("OTC-002", "OTC-034", "OTC-044", "OXP-005")
def test_all_entries_of_a_list_are_checked() -> None:
    oxp = {**GOOD, "input_schema": GOOD["input_schema"]["parameters"]}
    text = json.dumps({"tools": [GOOD, 7, GOOD], "items": [{**oxp, "toolkit": {}}, oxp]}, indent=1)
    assert [(fault.severity, fault.rule, fault.pointer) for fault in check(text)] == [
        ("error", "OTC-044", ""),
        ("error", "OTC-034", "/tools/1"),
        ("error", "OTC-002", "/tools/2/id"),
        ("error", "OXP-005", "/items/0/toolkit"),
        ("error", "OTC-002", "/items/1/id"),
    ]
    assert list_faults({"$schema": "x", "items": [oxp]}) == [("warning", "OTC-034", "")]
    assert list_faults({"$schema": "x", "tools": {}}) == [("error", "OTC-034", "/tools")]
    assert list_faults([GOOD]) == [("warning", "OTC-034", "")]
    assert list_faults(7) == [("error", "OTC-034", "")]


def test_version_that_differs_from_the_id_is_an_error() -> None:
    assert list_faults({**GOOD, "version": "1.0.1"}) == [("error", "OTC-001", "/version")]


def test_legal_but_surprising_definition_gives_a_warning() -> None:
    assert list_faults(change_definition(f"{PARAMETER}/description", "")) == [("warning", "OTC-011", f"/{PARAMETER}")]
    plain = {**GOOD, "input_schema": {"type": "object", "properties": {}}}
    assert ("warning", "A-35", "/input_schema") in list_faults(plain)


@pytest.mark.requirement("D-16")
def test_faults_have_line_and_column_and_duplicate_names_are_reported() -> None:
    text = '{\n  "id": "x",\n  "id": "Calculator.Add@1.0.0",\n  "name": "two words"\n}'
    faults = {(fault.rule, fault.line, fault.column) for fault in check(text)}
    assert ("D-16", 3, 3) in faults
    assert ("OTC-003", 4, 11) in faults
    assert [fault.rule for fault in check(b"{not json")] == ["OTC-034"]


def test_deep_definition_is_checked_and_faults_are_limited_to_1000() -> None:
    deep: Any = {"type": "object"}
    for _ in range(MAX_DEPTH // 2 - 5):
        deep = {"items": deep}
    assert list_faults(change_definition("output_schema", deep)) == []
    many = {"$schema": "x", "tools": [{} for _ in range(2_000)]}
    assert len(list_faults(many)) == 1_000
