"""Schemas that no value fits, as documents have them by mistake: something is accepted, and a finding says why."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.selection import Selection
from toolwire.protocols.openapi.tools import operations
from toolwire.validation import compile_schema

REF = "#/components/schemas/"


def build_closed_schema(*names: str, **members: Any) -> dict[str, Any]:
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "additionalProperties": False, **members}


def read(schema: Any, version: str = "3.0.3", **defined: Any) -> tuple[Any, str]:
    """Return the check of a property ``thing`` with ``schema``, and every finding."""
    body = {"type": "object", "required": ["thing"], "properties": {"thing": schema}}
    operation = {
        "operationId": "add",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"204": {"description": "Done."}},
    }
    document = {
        "openapi": version,
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://api.test"}],
        "paths": {"/things": {"post": operation}},
        "components": {"schemas": defined},
    }
    offer = operations.read_operations(document, "https://api.test/openapi.json", Selection(include="all"))
    (tool,) = offer.catalog.tools
    check = compile_schema(tool.input_schema)
    notes = operations.list_findings(offer)
    assert all(note.where == "POST /things" or REF in note.where for note in notes)
    return lambda value: check({"thing": value}) is None, " ".join(map(str, notes))


OVERLAP = "branches of a oneOf in it overlap, and a value needs to fit at least one of them"
BASE = build_closed_schema("created")
ASSEMBLY = build_closed_schema("name", required=["name"], allOf=[{"$ref": f"{REF}Base"}])
ADDRESS = build_closed_schema(allOf=[{"$ref": f"{REF}Base"}, {"required": ["line"], "properties": {"line": {}}}])
USER = {"required": ["name"], "properties": {"name": {"type": "string"}}, "additionalProperties": {"type": "object"}}
MEMBER = {"allOf": [USER, {"properties": {"on": {"type": "boolean"}}, "additionalProperties": {"type": "object"}}]}
ONE_OF = build_closed_schema(
    "city", oneOf=[{"required": [one], "properties": {one: {"type": "string"}}} for one in ("id", "ids")]
)


@pytest.mark.requirement("CV-19", "CV-25", "CV-30")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        (ASSEMBLY, {"name": "a", "created": "now"}, [{}, {"created": "now"}, {"name": "a", "other": 1}]),
        (ADDRESS, {"line": "a", "created": "now"}, [{}, {"line": "a", "other": 1}]),
        (ONE_OF, {"city": "a", "id": "b"}, [{"city": "a"}, {"id": "b", "other": 1}]),
        ({"$ref": f"{REF}Assembly"}, {"name": "a"}, [{}]),
        (MEMBER, {"name": "a", "on": True, "more": {}}, [{"on": True}, {"name": 1}, {"name": "a", "more": 1}]),
        (
            {"allOf": [{"$ref": f"{REF}Assembly"}, {"properties": {"more": {}}}]},
            {"name": "a", "more": 1},
            [{"more": 1}],
        ),
    ],
)
def test_property_required_by_one_part_and_forbidden_by_another_is_allowed(
    schema: Any, right: Any, wrong: list[Any], version: str
) -> None:
    accepts, notes = read(schema, version, Base=BASE, Assembly=ASSEMBLY)
    assert accepts(right)
    assert not any(map(accepts, wrong))
    assert "does not define it, and allows nothing else" in notes


@pytest.mark.requirement("CV-19", "CV-25")
def test_keywords_beside_a_reference_to_a_closed_schema_are_allowed() -> None:
    beside = {"$ref": f"{REF}Base", "required": ["name"], "properties": {"name": {"type": "string"}}}
    accepts, notes = read(beside, "3.1.0", Base=BASE)
    assert accepts({"name": "a", "created": "now"})
    assert not accepts({"created": "now"})
    assert "does not define it" in notes
    accepts, notes = read(beside, "3.0.3", Base=BASE)  # where nothing beside a reference counts
    assert accepts({"created": "now"})
    assert not accepts({"name": "a"})
    assert notes == ""


@pytest.mark.requirement("CV-25")
@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [BASE, build_closed_schema("created", "name")]},  # they agree on what both define
        {"allOf": [BASE, {"properties": {"name": {}}}]},  # name may be left out, so an object fits
        build_closed_schema(
            "id", anyOf=[{"required": ["id"]}, {"required": ["ids"]}]
        ),  # and here the first branch does
        {"allOf": [build_closed_schema("id"), {"required": ["id"]}]},
    ],
)
def test_satisfiable_closed_schema_stays_closed(schema: Any) -> None:
    accepts, notes = read(schema)
    assert not accepts({"name": "a"})
    assert notes == ""


@pytest.mark.requirement("CV-21", "CV-25")
def test_a_name_that_is_read_only_is_not_missing_in_a_closed_part() -> None:
    parts = [BASE, {"required": ["id"], "properties": {"id": {"type": "integer", "readOnly": True}}}]
    accepts, notes = read({"allOf": parts})
    assert accepts({"created": "now"})
    assert not accepts({"id": 1})
    assert notes == ""


@pytest.mark.requirement("CV-30")
def test_recursive_closed_schema_is_read() -> None:
    node = build_closed_schema("name", required=["name"], allOf=[{"$ref": f"{REF}Base"}, {"$ref": f"{REF}Node"}])
    accepts, notes = read({"$ref": f"{REF}Node"}, Base=BASE, Node=node)
    assert "does not define it" in notes
    del accepts  # whether anything fits what stands for itself is nowhere said


@pytest.mark.requirement("CV-25", "CV-30")
@pytest.mark.parametrize(
    ("schema", "right", "wrong", "said"),
    [
        ({"type": "integer", "enum": ["1", "2"]}, "1", "3", "no value of its type"),
        ({"type": ["integer", "null"], "enum": ["1"]}, "1", None, "no value of its type"),
        ({"type": "integer", "enum": [1, "2"]}, 1, "2", ""),
        ({"type": "string", "enum": []}, "any", 1, '"enum" of a schema in it is invalid'),
        ({"type": "number", "enum": [1, 2]}, 2, 3, ""),
        ({"type": "integer", "enum": [1.0]}, 1, 2, ""),
    ],
)
def test_enum_without_a_value_of_its_type_drops_the_type(schema: Any, right: Any, wrong: Any, said: str) -> None:
    accepts, notes = read(schema, "3.1.0")
    assert accepts(right)
    assert not accepts(wrong)
    assert said in notes
    assert bool(said) is bool(notes)


@pytest.mark.requirement("CV-25")
def test_nullable_enum_with_only_null_is_accepted_unchanged() -> None:
    accepts, notes = read({"type": "string", "nullable": True, "enum": [None]})
    assert accepts(None)
    assert notes == ""


@pytest.mark.requirement("CV-19", "CV-25", "O-02")
def test_one_of_with_equal_branches_becomes_any_of() -> None:
    event = {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}}
    branches = [
        {"title": one, "description": one, "allOf": [{"$ref": f"{REF}Event"}]} for one in ("Approved", "Denied")
    ]
    accepts, notes = read(
        {"oneOf": [{"$ref": f"{REF}Approved"}, {"$ref": f"{REF}Denied"}]},
        Event=event,
        Approved=branches[0],
        Denied=branches[1],
    )
    assert accepts({"kind": "a"})
    assert not accepts({})
    assert OVERLAP in notes
    different = [{"type": "object", "required": [one], "properties": {one: {"type": "string"}}} for one in "ab"]
    accepts, notes = read({"oneOf": different})
    assert accepts({"a": "x", "b": "y"})
    assert not accepts({})
    assert OVERLAP in notes


@pytest.mark.requirement("CV-19", "CV-25")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("beside", [{}, {"oneOf": "no list"}, {"description": "A word."}])
def test_all_of_with_only_a_one_of_is_that_one_of(beside: dict[str, Any], version: str) -> None:
    accepts, _ = read({"allOf": [{"oneOf": [{"type": "string"}, {"type": "integer"}]}], **beside}, version)
    assert accepts("a")
    assert accepts(1)
    assert not accepts([])
    accepts, notes = read({"allOf": [{"oneOf": [{"type": "string"}, {"type": "string"}]}], **beside}, version)
    assert accepts("a")
    assert OVERLAP in notes


@pytest.mark.requirement("CV-25", "CV-30")
def test_all_of_with_contradicting_types_accepts_anything() -> None:
    accepts, notes = read({"description": "A number.", "allOf": [{"type": "string"}, {"type": "integer"}]})
    assert accepts("a")
    assert accepts(1)
    assert "types that exclude each other" in notes
    accepts, notes = read({"allOf": [{"type": "number"}, {"type": "integer"}]})
    assert accepts(1)
    assert not accepts(1.5)
    assert notes == ""
    accepts, notes = read({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]}, "3.1.0")
    assert accepts("a")
    assert not accepts(None)
    assert notes == ""


@pytest.mark.requirement("CV-25", "CV-30")
@pytest.mark.parametrize(
    ("pattern", "right"),
    [
        ("/^[a-z0-9]+$/", "ada"),
        ("/^[0-9]{5}$/i", "75001"),
        ("/[a-z]+/", "a"),
        ("^[a-z-[aeiou]]+$", "bcd"),
        ("^[[:alnum:]_]+$", "ada_1"),
        (r"^[\p{Print}&&[^|:/]]+$", "plan"),
    ],
)
def test_regex_of_another_language_is_dropped(pattern: str, right: str) -> None:
    accepts, notes = read({"type": "string", "pattern": pattern})
    assert accepts(right)
    assert not accepts(7)
    assert '"pattern" of a schema in it is invalid' in notes


@pytest.mark.requirement("CV-30")
@pytest.mark.parametrize(("pattern", "right", "wrong"), [("^[a&&b]+$", "a&", "c"), (r"^\[\[a\]\]$", "[[a]]", "a")])
def test_valid_regex_that_resembles_another_language_is_kept(pattern: str, right: str, wrong: str) -> None:
    accepts, notes = read({"type": "string", "pattern": pattern})
    assert accepts(right)
    assert not accepts(wrong)
    assert notes == ""
