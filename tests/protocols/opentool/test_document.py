"""A catalog becomes an OpenTool document, and any document becomes a catalog."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwire.core.catalog import NAME, Catalog
from toolwire.core.model import Approval, Cost, Problem, RateLimit, Tool
from toolwire.protocols.opentool import document
from toolwire.protocols.opentool.document import Document

SAMPLES = Path(__file__).parents[2] / "vectors" / "opentool"
FUNCTION = {"name": "f", "description": "d", "parameters": []}


def whole(*functions: Any, **members: Any) -> dict[str, Any]:
    return {"opentool": "1.1.0", "info": {"title": "T", "version": "1.0.0"}, "functions": list(functions)} | members


def read(data: Any) -> Document:
    found = document.read(data)
    assert isinstance(found, Document)
    return found


def only(data: Any) -> Tool:
    (tool,) = read(data).catalog.tools
    return tool


def sample(name: str) -> Document:
    return read(json.loads((SAMPLES / name).read_text(encoding="utf-8")))


def write_function(tool: Tool) -> dict[str, Any]:
    (function,) = document.write(Catalog(tools=(tool,)))["functions"]
    assert isinstance(function, dict)
    return function


@pytest.mark.requirement("OT-001", "OT-002", "OT-004", "OT-006", "OT-007", "OT-008", "OT-029")
def test_document_states_its_version_and_info(store: Catalog) -> None:
    written = document.write(store)
    assert written["opentool"] == "1.1.0"
    assert written["info"] == {"title": "Store", "description": "Keeps texts.", "version": "1.2.0"}
    assert [function["name"] for function in written["functions"]] == ["clear", "count", "create", "each"]


@pytest.mark.requirement("OTRPC-014", "A-21")
def test_a_catalog_without_tools_has_no_description() -> None:
    assert document.write(Catalog(title="Empty")) == {}


@pytest.mark.requirement("OT-011", "OT-012", "OT-013", "OT-015", "OT-016", "OT-017", "OT-018", "OT-019", "S-2")
def test_a_function_is_written_with_its_parameters_and_its_return(store: Catalog) -> None:
    create = document.write(store)["functions"][2]
    assert create == {
        "name": "create",
        "description": "Keep a text.",
        "parameters": [
            {"name": "text", "description": "What to keep.", "schema": {"type": "string"}, "required": True}
        ],
        "return": {"name": "id", "schema": {"type": "integer"}},
        "x-llm": {"enabled": True, "approval": "per-call", "blanketApprovalAllowed": True},
    }


@pytest.mark.requirement("OT-014", "A-06", "S-2")
def test_a_tool_that_returns_nothing_has_no_return(store: Catalog) -> None:
    assert "return" not in document.write(store)["functions"][0]
    assert only(whole(FUNCTION)).output_schema is None
    assert only(whole(FUNCTION | {"return": None})).output_schema is None


@pytest.mark.requirement("A-11")
def test_streaming_tool_declares_its_piece_schema(store: Catalog) -> None:
    each = document.write(store)["functions"][3]
    assert each["return"]["schema"] == {"type": "array", "items": {"type": "string"}}
    assert each["stream"] == {"data": {"name": "texts", "schema": {"type": "string"}}}
    assert [tool.name for tool in sample("sdk_dart_mock_tool.json").catalog.tools if tool.streams] == [
        "sequentiallyRead"
    ]


def test_stream_without_a_return_gives_all_pieces_as_result() -> None:
    tool = only(whole(FUNCTION | {"stream": {"token": {"name": "t", "schema": {"type": "integer"}}}}))
    assert tool.streams
    assert tool.output_schema == {"type": "array", "items": {"type": "integer"}}


def test_a_function_without_a_description_is_described_by_its_name() -> None:
    assert write_function(Tool(name="f"))["description"] == "f"
    assert only(whole(FUNCTION | {"description": "f"})).description == ""


@pytest.mark.requirement("A-03", "A-10", "OT-030")
def test_exact_json_schema_is_written_beside_a_limited_parameter_schema() -> None:
    age = {"type": "integer", "minimum": 0, "description": "In years."}
    name = {"type": "string"}
    properties = {"age": age, "name": name}
    tool = Tool(
        name="f",
        input_schema={"type": "object", "properties": properties, "required": ["age"], "additionalProperties": False},
        output_schema={"anyOf": [{"type": "string"}, {"type": "null"}]},
    )
    function = write_function(tool)
    assert function["parameters"] == [
        {
            "name": "age",
            "description": "In years. (at least 0)",
            "schema": {"type": "integer"},
            "required": True,
            "x-json-schema": age,
        },
        {"name": "name", "schema": {"type": "string"}, "required": False},
    ]
    assert function["return"]["x-json-schema"] == tool.output_schema
    assert "x-json-schema" not in function
    back = only(whole(function))
    assert (back.input_schema, back.output_schema) == (tool.input_schema, tool.output_schema)


@pytest.mark.requirement("A-01", "A-03", "OT-030")
def test_rules_about_the_whole_input_are_written_on_the_function() -> None:
    exact = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Point"}, "n": {"type": "integer", "maximum": 3}},
        "additionalProperties": False,
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
    }
    function = write_function(Tool(name="f", input_schema=exact))
    assert function["x-json-schema"] == exact
    assert all("x-json-schema" not in parameter for parameter in function["parameters"])
    assert "$ref" not in json.dumps(function["parameters"])
    assert function["parameters"][0]["schema"]["properties"] == {"x": {"type": "number"}}
    assert only(whole(function)).input_schema == exact


def test_tool_policy_survives_a_round_trip() -> None:
    tool = Tool(
        name="pay",
        description="Pay.",
        toolkit="T",
        input_schema={"type": "object", "properties": {}},
        output_schema=None,
        approval=Approval.PER_CALL,
        destructive=True,
        idempotent=True,
        safe=True,
        hint="Ask first.",
        cost=Cost.PAID,
        rate_limit=RateLimit(max=5, window="1m"),
    )
    function = write_function(tool)
    assert function["x-llm"]["readOnly"] is True
    assert only(whole(function)) == tool


def test_function_without_policy_is_neither_approved_nor_safe() -> None:
    tool = only(whole(FUNCTION))
    assert tool.approval is None
    assert not tool.safe


@pytest.mark.parametrize("policy", [False, {"enabled": False}, 7, None])
def test_function_hidden_from_models_is_skipped(policy: Any) -> None:
    assert not read(whole(FUNCTION | {"x-llm": policy})).catalog.tools


@pytest.mark.requirement("OT-031", "OT-005", "A-01", "OT-020", "OT-021")
def test_the_documents_of_the_sdks_are_read() -> None:
    mock = sample("sdk_typescript_mock-tool.json").catalog
    assert mock.title == "CRUD API for mock"
    assert [tool.name for tool in mock.tools] == ["count", "create", "delete", "read", "run", "update"]
    update = mock.names["update"]
    assert update.input_schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "description": "Text Id in storage."},
            "text": {"type": "string", "description": "Text should be updated."},
        },
        "required": ["id", "text"],
        "additionalProperties": False,
    }
    assert mock.names["count"].output_schema == {"type": "integer", "description": "Storage size"}
    assert mock.names["count"].output_name == "Count"
    weather = sample("sdk_dart_weather-example.json").catalog.names["get_current_weather"]
    info = weather.parameters["currentWeatherInfo"]
    assert info["properties"]["format"]["enum"] == ["celsius", "fahrenheit"]
    assert info["required"] == ["location", "format"]
    assert sample("sdk_dart_database-example.json").catalog.names["ask_database"].required_parameters == ("query",)


@pytest.mark.requirement("OT-031")
@pytest.mark.parametrize("version", ["1.0.0", "1.1.0", "2.0.0", "x"])
def test_any_version_of_the_document_is_read(version: str) -> None:
    assert only(whole(FUNCTION, opentool=version)).name == "f"


@pytest.mark.requirement("OT-003", "OT-009", "OT-010", "A-08")
def test_server_url_in_a_document_is_ignored() -> None:
    server = {"url": "https://evil.test/opentool", "description": "come here"}
    assert read(whole(FUNCTION, server=server)) == read(whole(FUNCTION))


@pytest.mark.requirement("OT-001", "OT-004")
@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "text",
        {},
        {"functions": []},
        {"opentool": 1, "functions": []},
        {"opentool": "1.1.0"},
        {"opentool": "1", "functions": {}},
    ],
)
def test_invalid_document_is_refused_in_one_sentence(data: Any) -> None:
    problem = document.read(data)
    assert isinstance(problem, Problem)
    assert "OpenTool document" in problem.message


def test_document_without_info_is_read() -> None:
    assert read({"opentool": "1.1.0", "functions": []}).catalog == Catalog()


@pytest.mark.requirement("OT-011", "A-07")
def test_invalid_function_is_skipped_and_the_others_stay() -> None:
    found = read(whole(7, {"description": "no name"}, {"name": ""}, {"name": 7}, FUNCTION, FUNCTION))
    assert [tool.name for tool in found.catalog.tools] == ["f"]
    assert len(found.notes) == 5
    assert all("left out" in note for note in found.notes)


@pytest.mark.requirement("OT-011")
def test_illegal_name_is_made_legal_and_the_original_kept() -> None:
    found = read(whole(FUNCTION | {"name": "files.read é"}, FUNCTION | {"name": "x" * 65}))
    assert found.methods == {"files_read__": "files.read é", "x" * 64: "x" * 65}
    assert all(NAME.fullmatch(tool.name) for tool in found.catalog.tools)


@pytest.mark.requirement("A-07")
@pytest.mark.parametrize("names", [("a-b", "a_b"), ("a_b", "a-b"), ("a.b", "a-b", "a_b", "a b")])
def test_names_that_become_equal_stay_two_tools(names: tuple[str, ...]) -> None:
    found = read(whole(*(FUNCTION | {"name": name} for name in names)))
    called = {tool.original_name or tool.name for tool in found.catalog.tools}
    assert called == set(names)
    for name in names:
        tool = found.catalog.find(name)
        assert isinstance(tool, Tool)
        assert (tool.original_name or tool.name) == name
    assert len(found.notes) == len(names) - 1
    assert all("either name" in note for note in found.notes)


@pytest.mark.requirement("C-4", "OT-013", "OT-018", "A-07")
def test_valid_part_of_unusual_parameters_is_read() -> None:
    parameters = [
        {"name": "a"},
        {"name": "a", "schema": {"type": "string"}},
        {"name": "b", "schema": {"$ref": "#/schemas/Gone"}, "required": 1},
        {"name": "", "schema": {}},
        {"schema": {"type": "string"}},
        "c",
    ]
    found = read(whole(FUNCTION | {"parameters": parameters}))
    assert found.catalog.tools[0].input_schema == {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "additionalProperties": False,
    }
    assert found.notes == ("the reference '#/schemas/Gone' could not be followed",)


@pytest.mark.parametrize(
    "exact",
    [
        7,
        {"type": "array"},
        {"properties": 7},
        {"properties": {"a": 7}},
        {"properties": {"a": {"description": 7}}},
        {"required": "a"},
        {"required": [7]},
    ],
)
def test_exact_schema_without_properties_is_ignored(exact: Any) -> None:
    parameters = [{"name": "a", "schema": {"type": "string"}, "required": True}]
    tool = only(whole(FUNCTION | {"parameters": parameters, "x-json-schema": exact}))
    assert tool.required_parameters == ("a",)


def test_invalid_exact_schema_of_a_parameter_is_ignored() -> None:
    parameters = [{"name": "a", "schema": {"type": "string"}, "required": True, "x-json-schema": {"description": 7}}]
    assert only(whole(FUNCTION | {"parameters": parameters})).parameters == {"a": {"type": "string"}}


@pytest.mark.requirement("A-01")
def test_doubling_and_circular_schemas_are_cut_and_noted() -> None:
    schemas: dict[str, Any] = {"N0": {"$ref": "#/schemas/N0"}}
    for level in range(1, 30):
        below = {"$ref": f"#/schemas/N{level - 1}"}
        schemas[f"N{level}"] = {"type": "object", "properties": dict.fromkeys("abcdefghij", below)}
    parameters = [{"name": "a", "schema": {"$ref": "#/schemas/N29"}, "required": True}]
    found = read(whole(FUNCTION | {"parameters": parameters}, schemas=schemas))
    assert found.catalog.tools[0].required_parameters == ("a",)
    assert any("too large" in note for note in found.notes)


@pytest.mark.requirement("D-17")
def test_parameters_with_shared_definitions_share_one_size_limit() -> None:
    definitions: dict[str, Any] = {"M0": {"type": "string"}}
    for level in range(1, 12):
        below = {"$ref": f"#/$defs/M{level - 1}"}
        definitions[f"M{level}"] = {"type": "object", "properties": {"a": below, "b": below}}
    properties = {f"p{number}": {"$ref": "#/$defs/M11"} for number in range(30)}
    properties["last"] = {"type": "integer"}
    schema = {"type": "object", "properties": properties, "$defs": definitions}
    function = write_function(Tool(name="f", description="d", input_schema=schema))
    assert json.dumps(function["parameters"]).count('"type"') < 2_000 + 31 * 40
    assert function["parameters"][-1]["schema"] == {"type": "integer"}
    assert function["x-json-schema"] == schema


@pytest.mark.requirement("OT-029")
def test_text_of_any_script_survives_a_round_trip() -> None:
    tool = Tool(name="f", description="Größe 你好 👋", input_schema={"type": "object", "properties": {"größe": {}}})
    data = json.loads(json.dumps(document.write(Catalog(title="工具", tools=(tool,)))))
    found = read(data).catalog
    assert found.title == "工具"
    assert found.tools[0].description == tool.description
    assert found.tools[0].input_schema == tool.input_schema


names = st.text("abcdefghijklmnopqrstuvwxyz_0123456789", min_size=1, max_size=12)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean", "number", "array", "object"])},
    optional={
        "description": texts,
        "minimum": st.integers(),
        "enum": st.lists(st.integers() | texts, min_size=1, max_size=3),
    },
)
schemas = st.one_of(
    st.just({}),
    plain,
    st.builds(lambda parts: {"anyOf": parts}, st.lists(plain, min_size=1, max_size=3)),
    st.builds(lambda item: {"type": "array", "items": item}, plain),
    st.builds(lambda members: {"type": "object", "properties": members}, st.dictionaries(names, plain, max_size=3)),
)
inputs = st.dictionaries(names, schemas, max_size=4).flatmap(
    lambda properties: st.builds(
        lambda required, more: {"type": "object", "properties": properties, "required": required} | more,
        st.lists(st.sampled_from(sorted(properties)), unique=True) if properties else st.just([]),
        st.fixed_dictionaries({}, optional={"additionalProperties": st.booleans(), "$defs": st.just({"A": {}})}),
    )
)
tools = st.builds(
    Tool,
    name=names,
    description=texts.filter(bool).map(lambda text: text + "."),
    toolkit=st.just("Kit"),
    version=st.just("1.2.3"),
    input_schema=inputs,
    output_schema=schemas | st.just(None),
    safe=st.booleans(),
    approval=st.sampled_from([None, Approval.AUTO, Approval.PER_CALL]),
    destructive=st.booleans(),
    hint=texts,
)


@pytest.mark.requirement("OT-030", "A-03")
@settings(max_examples=40)
@given(st.lists(tools, min_size=1, max_size=4, unique_by=lambda tool: tool.name))
def test_written_catalog_is_read_back_unchanged(several: list[Tool]) -> None:
    catalog = Catalog(title="Kit", version="1.2.3", tools=tuple(several))
    found = read(json.loads(json.dumps(document.write(catalog))))
    assert found.catalog == catalog
    assert found.notes == ()


@pytest.mark.requirement("A-02")
def test_numbers_of_an_enum_that_are_written_as_strings_are_read_with_a_finding() -> None:
    parameter = {"name": "size", "schema": {"type": "integer", "enum": ["1", 2, "-3"]}, "required": True}
    found = read(whole({**FUNCTION, "parameters": [parameter]}))
    assert isinstance(found, Document)
    assert found.catalog.tools[0].parameters["size"]["enum"] == [1, 2, -3]
    assert found.notes == ("values of an enum of numbers that are strings, and are read as numbers: 2",)


@pytest.mark.requirement("A-05", "FD-10")
@pytest.mark.parametrize(
    ("version", "known"), [("1.0.0", True), ("1.7.2", True), ("2.0.0", True), ("3.0.0", False), ("20.0.0", False)]
)
def test_a_document_of_another_major_is_read_with_a_finding(version: str, known: bool) -> None:
    found = read({**whole(FUNCTION), "opentool": version})
    assert isinstance(found, Document)
    assert len(found.catalog.tools) == 1
    assert (found.notes == ()) is known
    assert known or version in found.notes[0]
