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


def found(data: Any) -> list[tuple[str, str, str]]:
    return [(fault.severity, fault.rule, fault.pointer) for fault in check(json.dumps(data))]


def changed(path: str, value: Any) -> dict[str, Any]:
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
def test_a_fault_is_named_where_it_is_and_the_description_refuses_it_too(
    path: str, value: Any, rule: str, pointer: str
) -> None:
    data = changed(path, value)
    assert found(data) == [("error", rule, pointer)]
    assert not fits("ToolDefinition", data)


@pytest.mark.requirement("OTC-001", "OTC-003", "OTC-005")
def test_nothing_may_stand_behind_an_id_a_name_or_a_version() -> None:
    for member in ("id", "name", "version"):
        assert [pointer for _, _, pointer in found(changed(member, f"{GOOD[member]}\n"))] == [f"/{member}"]


def test_the_good_one_is_good() -> None:
    assert found(GOOD) == []
    assert fits("ToolDefinition", GOOD)


@pytest.mark.requirement("OTC-018")
def test_the_definitions_of_the_rfc_have_no_fault() -> None:
    bodies = [entry["body"] for entry in VECTORS if "section 4.1" in entry["source"]]
    assert bodies
    for body in bodies:
        assert found(body) == []


@pytest.mark.requirement("A-35", "A-36")
def test_the_older_form_of_the_rfc_is_told_what_to_change() -> None:
    lists = [entry["body"] for entry in VECTORS if isinstance(entry.get("body"), dict) and "tools" in entry["body"]]
    (older,) = (body for body in lists if "input" in body["tools"][0])
    faults = found(older)
    assert ("warning", "A-36", "/tools/0/input") in faults
    assert {rule for severity, rule, _ in faults if severity == "error"} == {"OTC-005", "OTC-007", "OTC-012"}


def test_what_we_serve_has_no_fault(catalog: Catalog) -> None:
    assert found(document.write(catalog)) == []


@pytest.mark.requirement("OTC-002", "OTC-034", "OTC-044", "OXP-005")
def test_a_list_is_looked_at_whole() -> None:
    oxp = {**GOOD, "input_schema": GOOD["input_schema"]["parameters"]}
    text = json.dumps({"tools": [GOOD, 7, GOOD], "items": [{**oxp, "toolkit": {}}, oxp]}, indent=1)
    assert [(fault.severity, fault.rule, fault.pointer) for fault in check(text)] == [
        ("error", "OTC-044", ""),
        ("error", "OTC-034", "/tools/1"),
        ("error", "OTC-002", "/tools/2/id"),
        ("error", "OXP-005", "/items/0/toolkit"),
        ("error", "OTC-002", "/items/1/id"),
    ]
    assert found({"$schema": "x", "items": [oxp]}) == [("warning", "OTC-034", "")]
    assert found({"$schema": "x", "tools": {}}) == [("error", "OTC-034", "/tools")]
    assert found([GOOD]) == [("warning", "OTC-034", "")]
    assert found(7) == [("error", "OTC-034", "")]


def test_a_version_that_is_not_the_one_in_the_id_is_an_error() -> None:
    assert found({**GOOD, "version": "1.0.1"}) == [("error", "OTC-001", "/version")]


def test_warnings_are_for_what_may_be_and_surprises() -> None:
    assert found(changed(f"{PARAMETER}/description", "")) == [("warning", "OTC-011", f"/{PARAMETER}")]
    plain = {**GOOD, "input_schema": {"type": "object", "properties": {}}}
    assert ("warning", "A-35", "/input_schema") in found(plain)


@pytest.mark.requirement("D-16")
def test_lines_columns_and_names_that_repeat() -> None:
    text = '{\n  "id": "x",\n  "id": "Calculator.Add@1.0.0",\n  "name": "two words"\n}'
    faults = {(fault.rule, fault.line, fault.column) for fault in check(text)}
    assert ("D-16", 3, 3) in faults
    assert ("OTC-003", 4, 11) in faults
    assert [fault.rule for fault in check(b"{not json")] == ["OTC-034"]


def test_no_definition_is_too_much() -> None:
    deep: Any = {"type": "object"}
    for _ in range(MAX_DEPTH // 2 - 5):
        deep = {"items": deep}
    assert found(changed("output_schema", deep)) == []
    many = {"$schema": "x", "tools": [{} for _ in range(2_000)]}
    assert len(found(many)) == 1_000
