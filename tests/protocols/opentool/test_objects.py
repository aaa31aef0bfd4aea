"""OpenTool documents as objects: read, made by hand, changed, and written without losing anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Problem
from toolwire.protocols.opentool.objects import (
    NOTHING,
    Function,
    Info,
    OpenTool,
    Parameter,
    Return,
    Schema,
    Server,
    read,
    read_text,
    write,
    write_text,
)
from toolwire.protocols.opentool.validator import check

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "spec" / "opentool" / "examples"
REAL = sorted((ROOT / "tests" / "vectors" / "opentool").glob("*.json"))
GOOD = [*sorted((EXAMPLES / "valid").glob("*.json")), *REAL]
FULL: dict[str, Any] = json.loads((EXAMPLES / "valid" / "full.json").read_bytes())
BY_HAND = OpenTool(
    info=Info(title="Library", version="1.0.0"),
    functions=(
        Function(
            name="find",
            description="Find a book.",
            parameters=(Parameter(name="title", schema=Schema(type="string"), required=True),),
            return_=Return(name="book", schema=Schema(reference="#/schemas/Book")),
        ),
    ),
    schemas={"Book": Schema(type="object", properties={"pages": Schema(type="integer")}, required=("pages",))},
)


def document(data: Any) -> OpenTool:
    found = read(data)
    assert isinstance(found, OpenTool), found
    return found


def with_schema(schema: Any) -> dict[str, Any]:
    parameter = {"name": "a", "schema": schema, "required": True}
    function = {"name": "f", "description": "F.", "parameters": [parameter]}
    return {"opentool": "1.1.0", "info": {"title": "t", "version": "1"}, "functions": [function]}


def schema_of(data: Any) -> Schema:
    return document(with_schema(data)).functions[0].parameters[0].schema


@pytest.mark.requirement("OT-029", "OT-031")
@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_document_survives_a_round_trip(file: Path) -> None:
    data = json.loads(file.read_bytes())
    assert write(document(data)) == data


@pytest.mark.requirement("OT-029")
@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_text_bytes_and_file_give_the_same_document(file: Path, tmp_path: Path) -> None:
    found = read_text(file.read_bytes())
    assert isinstance(found, OpenTool)
    assert read_text(file.read_text(encoding="utf-8")) == found
    written = tmp_path / "tool.json"
    written.write_bytes(write_text(found))
    assert read_text(written.read_bytes()) == found
    again = read_text(written.read_bytes())
    assert isinstance(again, OpenTool)
    assert write_text(again) == written.read_bytes()


@pytest.mark.requirement("OT-029")
@given(text=st.text(), number=st.integers(-(10**30), 10**30))
def test_any_text_and_number_survive_a_round_trip(text: str, number: int) -> None:
    made = replace(BY_HAND, info=Info(title=text, version="1"), extra={"x-number": number})
    assert read_text(write_text(made)) == made


@pytest.mark.requirement("OT-029")
def test_text_is_written_as_utf_8_without_escapes() -> None:
    made = replace(BY_HAND, info=Info(title="图书馆 📚", version="1"))
    assert '"title":"图书馆 📚"'.encode() in write_text(made)


@pytest.mark.requirement("OT-001", "OT-007", "OT-008", "A-05")
def test_document_built_in_python_has_the_latest_version_and_no_fault() -> None:
    assert BY_HAND.opentool == "1.1.0"
    assert check(write_text(BY_HAND)) == ()
    assert document(write(BY_HAND)) == BY_HAND


@pytest.mark.requirement("OT-031", "OT-003")
def test_writing_the_older_version_refuses_to_drop_the_server() -> None:
    full = document(FULL)
    with pytest.raises(
        ValueError, match="does not define server\\. Remove it with replace\\(\\.\\.\\., server=None\\)"
    ):
        write(full, "1.0.0")
    old = write(replace(full, server=None), "1.0.0")
    assert old["opentool"] == "1.0.0"
    assert old == {name: value for name, value in FULL.items() if name != "server"} | {"opentool": "1.0.0"}
    assert check(json.dumps(old)) == ()


@pytest.mark.requirement("OT-003", "OT-031")
def test_a_server_in_the_older_version_is_kept_as_something_unknown() -> None:
    found = document(FULL | {"opentool": "1.0.0", "server": {"uri": 7}})
    assert found.server is None
    assert found.extra == {"server": {"uri": 7}}
    assert write(found)["server"] == {"uri": 7}


@pytest.mark.requirement("A-06", "OT-014")
def test_null_return_differs_from_an_absent_return() -> None:
    function = FULL["functions"][1]
    data = FULL | {"functions": [function, {**function, "name": "other"}]}
    del data["functions"][1]["return"]
    found = document(data)
    assert [one.return_ for one in found.functions] == [NOTHING, None]
    assert write(found) == data


@pytest.mark.requirement("A-11")
def test_stream_events_keep_their_order() -> None:
    made = {"name": "book", "schema": {"type": "string"}}
    function = {"name": "f", "description": "F.", "parameters": [], "stream": {"z": made, "a": {**made, "x": 1}}}
    data = FULL | {"functions": [function]}
    found = document(data).functions[0].stream
    assert found is not None
    assert list(found) == ["z", "a"]
    assert found["a"].extra == {"x": 1}
    assert write(document(data)) == data


def test_unknown_members_are_kept_everywhere() -> None:
    def odd(data: Any) -> Any:
        if isinstance(data, list):
            return [odd(item) for item in data]
        if not isinstance(data, dict):
            return data
        whole = {name: odd(value) for name, value in data.items()}
        is_map = any(isinstance(value, dict) and value.keys() & {"type", "$ref"} for value in data.values())
        return whole if is_map and not data.keys() & {"name", "type"} else whole | {"x-odd": [None, {"a": None}]}

    data = odd(FULL)
    assert json.dumps(data).count("x-odd") > 15
    assert write(document(data)) == data


def test_order_is_kept_for_parameters_properties_and_enums() -> None:
    data = with_schema({"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "string"}}})
    data["schemas"] = {"Z": {"type": "string"}, "A": {"type": "integer", "enum": [3, 1, 2]}}
    again = write(document(data))
    assert json.dumps(again["functions"][0]["parameters"]) == json.dumps(data["functions"][0]["parameters"])
    assert json.dumps(again["schemas"]) == json.dumps(data["schemas"])


def test_extra_members_cannot_replace_known_members() -> None:
    made = replace(BY_HAND, extra={"opentool": "9.9.9", "x-a": 1})
    assert write(made) | {"x-a": 1} == write(made)
    assert write(made)["opentool"] == "1.1.0"


@pytest.mark.requirement("A-01")
def test_reference_is_read_with_the_members_beside_it() -> None:
    schema = {"$ref": "#/schemas/Book", "description": "A book.", "type": "object"}
    found = schema_of(schema)
    assert found == Schema(reference="#/schemas/Book", description="A book.", extra={"type": "object"})
    assert write(document(with_schema(schema))) == with_schema(schema)


@pytest.mark.requirement("A-04")
def test_array_without_items_and_object_without_properties_are_read_not_written() -> None:
    whole = {"type": "array", "items": {"type": "object", "properties": {}}}
    assert write(document(with_schema({"type": "array"}))) == with_schema(whole)
    assert write(document(with_schema({"type": "object"}))) == with_schema({"type": "object", "properties": {}})
    by_hand = replace(BY_HAND, schemas={"Book": Schema(type="object"), "Books": Schema(type="array")})
    assert check(write_text(by_hand)) == ()


@pytest.mark.requirement("A-02")
def test_numbers_of_an_enum_that_are_written_as_strings_are_mended() -> None:
    found = document(with_schema({"type": "number", "enum": ["1", 2, "-0.5"]}))
    assert found.functions[0].parameters[0].schema.enum == (1, 2, -0.5)
    assert check(write_text(found)) == ()
    assert isinstance(read(with_schema({"type": "integer", "enum": ["one"]})), Problem)


@pytest.mark.requirement("C-4")
def test_null_and_missing_members_written_by_java_are_corrected() -> None:
    unset = dict.fromkeys(["$ref", "description", "properties", "items", "enum", "required"])
    data = {
        "opentool": "1.0.0",
        "info": {"title": "t", "description": None, "version": "1.0.0"},
        "functions": [
            {
                "name": "f",
                "description": None,
                "parameters": [{"name": "q", "description": None, "schema": {"type": "string"} | unset}],
                "return": {"name": "r", "description": None, "schema": {"type": "array"} | unset},
            },
            {"name": "g", "description": "G.", "parameters": None, "return": None},
        ],
        "schemas": None,
    }
    found = document(data)
    first, second = found.functions
    assert first.description == ""
    assert first.parameters == (Parameter(name="q", schema=Schema(type="string"), required=False),)
    assert isinstance(first.return_, Return)
    assert first.return_.schema.items == Schema(type="object", properties={})
    assert (second.parameters, second.return_) == ((), NOTHING)
    assert found.schemas is None
    assert [fault.severity for fault in check(write_text(found))] == ["warning"]  # the empty description


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "an array"),
        ({}, '"opentool" is missing'),
        (with_schema({"type": "text"}), "/functions/0/parameters/0/schema/type: 'text' is not a valid type"),
        (with_schema(None), '"schema" must be a schema, not null'),
        (with_schema({"$ref": "https://a.example/b"}), 'is not a valid schema reference. Write "#/schemas/NAME"'),
        (FULL | {"functions": [7, 8]}, "Errors in all: 2"),
    ],
)
def test_invalid_document_is_a_problem_with_its_place(data: Any, words: str) -> None:
    found = read(data)
    assert isinstance(found, Problem)
    assert words in found.message


def test_a_text_that_is_no_json_is_a_problem() -> None:
    assert isinstance(read_text(b"{"), Problem)
    assert isinstance(read_text("\ud800"), Problem)


@pytest.mark.requirement("D-16")
def test_data_nested_deeper_than_json_may_be_is_a_problem() -> None:
    schema: Any = {"type": "string"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    assert isinstance(read(with_schema(schema)), Problem)
    schema = {"type": "string"}
    for _ in range(110):
        schema = {"type": "object", "properties": {"a": schema}}
    assert isinstance(read(with_schema(schema)), Problem)


@pytest.mark.requirement("OT-024", "OT-025")
def test_data_at_the_json_depth_limit_is_read_and_written() -> None:
    schema: Any = {"type": "string"}
    for _ in range(94):
        schema = {"type": "object", "properties": {"a": schema}}
    assert write(document(with_schema(schema))) == with_schema(schema)


def test_read_and_write_methods_have_the_names_of_the_sdks() -> None:
    assert OpenTool.from_json(FULL) == OpenTool.fromJson(FULL) == document(FULL)
    assert document(FULL).to_json() == document(FULL).toJson() == FULL
    with pytest.raises(ValueError, match='"info" is missing'):
        OpenTool.from_json({"opentool": "1.1.0", "functions": []})


def test_server_url_and_description_are_read() -> None:
    assert document(FULL).server == Server(url="https://library.example/opentool", description="The reading room.")
