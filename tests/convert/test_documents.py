"""Documents of every kind: what is read of them, what is lost and where, and the way back to the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire import convert
from toolwire.convert import KINDS, ConvertedDocument, Loss, ReadDocument
from toolwire.convert.extension import SourceText, compute_digest, embed_source
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.model import Approval, Problem, RateLimit, Requirements, Tool
from toolwire.protocols.openapi import document_writer as openapi
from toolwire.protocols.otc import document as otc

VECTORS = sorted((Path(__file__).parents[1] / "vectors" / "opentool").glob("*.json"))
WITH_ROOM = tuple(kind for kind in KINDS if kind != "universal")
ADD = Tool(name="add", toolkit="Desk", version="1.2.0", description="Add.", input_schema={"type": "object"})
FUNCTION = {"name": "f", "description": "d", "parameters": []}
PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1.0.0", "description": "All of them.", "contact": {"name": "x"}},
    "servers": [{"url": "https://pets.example/v1"}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "get.pet",
                "summary": "One pet.",
                "description": "At length.",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "ok"}},
                "servers": [{"url": "https://other.example"}],
            },
            "post": {"operationId": "odd", "parameters": [{"in": "moon"}]},
        }
    },
}


def converted(data: Any, to: str, kind: str | None = None) -> ConvertedDocument:
    found = convert.convert(data, to, kind)
    assert isinstance(found, ConvertedDocument)
    return found


def read(data: Any, kind: str | None = None) -> ReadDocument:
    found = convert.read(data, kind)
    assert isinstance(found, ReadDocument)
    return found


def opentool(*functions: Any, **members: Any) -> dict[str, Any]:
    return {"opentool": "1.1.0", "info": {"title": "T", "version": "1.0.0"}, "functions": list(functions)} | members


def pointers(losses: tuple[Loss, ...]) -> set[str]:
    return {loss.pointer for loss in losses}


@pytest.mark.parametrize("kind", WITH_ROOM)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
def test_a_real_document_comes_back_byte_for_byte_from_every_kind(vector: Path, kind: str) -> None:
    raw = vector.read_bytes()
    assert converted(converted(raw, kind).text, "opentool").text.encode() == raw


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
def test_a_real_document_comes_back_through_all_kinds_in_a_row(vector: Path) -> None:
    raw = vector.read_bytes()
    text = raw.decode()
    for kind in ("otc", "openapi", "mcp", "jsonschema", "oxp"):
        text = converted(text, kind).text
    assert converted(text, "opentool").text.encode() == raw


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["openapi", "mcp", "jsonschema", "otc"])
def test_a_real_document_keeps_its_tools_in_every_kind_with_room(vector: Path, kind: str) -> None:
    raw = vector.read_bytes()
    assert read(converted(raw, kind).text).catalog == read(raw).catalog


def test_line_ends_and_a_byte_order_mark_come_back_too() -> None:
    raw = b"\xef\xbb\xbf" + json.dumps(opentool(FUNCTION), indent=1).replace("\n", "\r\n").encode()
    assert converted(converted(raw, "mcp").text, "opentool").text.encode() == raw


def test_a_document_given_as_data_comes_back_as_equal_data() -> None:
    data = opentool(FUNCTION)
    assert converted(converted(data, "otc").document, "opentool").document == data


@pytest.mark.parametrize("kind", ["openapi", "mcp", "jsonschema", "otc"])
def test_an_edit_wins_over_the_text_that_is_embedded(kind: str) -> None:
    there = converted(opentool(FUNCTION, server={"url": "http://x.example"}), kind)
    edited = there.text.replace('"d"', '"edited"')
    assert edited != there.text
    back = converted(edited, "opentool")
    assert back.document["functions"][0]["description"] == "edited"
    assert "server" not in back.document


def test_other_indents_are_no_edit() -> None:
    raw = json.dumps(opentool(FUNCTION), indent=3).encode()
    there = converted(raw, "jsonschema").document
    assert converted(json.dumps(there, sort_keys=True), "opentool").text.encode() == raw


def test_an_edit_wins_over_an_exact_value_and_is_reported() -> None:
    catalog = Catalog(title="Desk", tools=(Tool(**_members(ADD), timeout_s=5, output_name="sum"),))
    document = converted(catalog, "opentool").document
    document["functions"][0]["return"]["name"] = "total"
    document["x-toolwire"]["tools"]["add"]["output_name"] = {"is": "sum", "shown": "of something else"}
    found = read(document)
    (tool,) = found.catalog.tools
    assert (tool.output_name, tool.timeout_s) == ("total", 5)
    assert found.losses == (
        Loss("/functions/0", "the exact output_name: what it stood beside was edited", "what the document itself says"),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout_s", "long"),
        ("timeout_s", -1),
        ("deprecated", 1),
        ("requirements", {}),
        ("approval", "always"),
        ("rate_limit", {"max": 0, "window": "1s"}),
        ("rate_limit", 3),
        ("output_schema", []),
        ("name", "not legal!"),
        ("hints", "none"),
        ("version", 2),
    ],
)
def test_an_exact_value_that_cannot_be_is_left_out_and_reported(field: str, value: Any) -> None:
    catalog = Catalog(title="Desk", tools=(ADD,))
    exact = Tool(
        **_members(ADD),
        timeout_s=5,
        deprecated=True,
        approval=Approval.DENY,
        rate_limit=RateLimit(max=1, window="1s"),
        requirements=Requirements(user_id=True),
        hints={"a": 1},
    )
    plain = convert.write(catalog, "jsonschema").document
    shown = convert.write(Catalog(title="Desk", tools=(exact,)), "jsonschema").document
    shown["x-toolwire"]["tools"]["add"] = {
        field: {"is": value, "shown": _shown(plain, field)}
        if field in ("name", "output_schema")
        else shown["x-toolwire"]["tools"]["add"][field] | {"is": value}
    }
    found = read(shown)
    assert [loss.pointer for loss in found.losses] == ["/tools/add"]
    assert found.catalog.tools[0].timeout_s is None


def _shown(document: Any, field: str) -> str:

    return compute_digest("add" if field == "name" else {})


def _members(tool: Tool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in ("name", "toolkit", "version", "description", "input_schema")}


def test_exact_names_that_meet_give_way_to_the_names_of_the_document() -> None:
    document = converted(Catalog(title="K", tools=(ADD, Tool(name="sub", toolkit="Desk", version="1.2.0"))), "mcp")
    shown = document.document
    for entry in shown["tools"]:
        entry["_meta"].pop("toolwire/tool", None)
    shown.pop("_meta")
    again = converted(read(shown).catalog, "jsonschema").document
    same = {name: {"name": {"is": "same", "shown": compute_digest(name)}} for name in ("add", "sub")}
    again["x-toolwire"] = {"tools": same}
    found = read(again)
    assert [tool.name for tool in found.catalog.tools] == ["add", "sub"]
    assert "two tools" in found.losses[-1].what


def test_what_a_strict_list_has_no_room_for_is_lost_field_by_field() -> None:
    tool = Tool(**_members(ADD), timeout_s=5, approval=Approval.AUTO, deprecated=True, output_name="sum")
    losses = convert.write(Catalog(title="Desk", tools=(tool,)), "oxp").losses
    assert pointers(losses) == {
        "/tools/0/timeout_s",
        "/tools/0/approval",
        "/tools/0/deprecated",
        "/tools/0/output_name",
    }
    assert {loss.instead for loss in losses} == {"nothing", '"result"'}


def test_a_loss_points_to_where_its_field_stands_in_the_source() -> None:
    function = FUNCTION | {"return": {"name": "sum", "schema": {"type": "integer"}}, "x-llm": {"hint": "Gently."}}
    losses = converted(opentool(FUNCTION | {"name": "a"}, function), "oxp").losses
    assert {"/functions/1/return/name", "/functions/1/x-llm/hint"} <= pointers(losses)


def test_no_member_is_in_a_strict_definition_beyond_its_own() -> None:
    document = converted(opentool(FUNCTION), "oxp").document
    assert set(document["items"][0]) == {"id", "name", "description", "version", "input_schema", "output_schema"}
    assert set(document) == {"$schema", "items", "x-toolwire"}


@pytest.mark.parametrize("kind", ["opentool", "mcp"])
def test_an_older_version_is_lost_where_only_the_newest_can_be(kind: str) -> None:
    older = Tool(name="add", toolkit="Desk", version="1.0.0")
    written = convert.write(Catalog(title="Desk", tools=(ADD, older)), kind)
    assert written.losses == (Loss("/tools/0", "the tool Desk.add@1.0.0", "its newest version, 1.2.0"),)


def test_hints_that_are_no_json_are_lost() -> None:
    tool = Tool(**_members(ADD), hints={"of": object()})
    (loss,) = convert.write(Catalog(title="Desk", tools=(tool,)), "openapi").losses
    assert loss.pointer == "/tools/0/hints"


def test_a_text_that_is_too_large_is_not_embedded_and_that_is_a_loss() -> None:
    text = json.dumps(opentool(FUNCTION | {"description": "d" * 1_048_576}))
    there = converted(text, "otc")
    assert "source" not in there.document.get("x-toolwire", {})
    assert there.losses[-1].instead == "what was read of it"


def test_what_opentool_says_and_a_catalog_does_not_is_lost_by_pointer() -> None:
    odd = {
        "name": "not legal!",
        "description": "d",
        "parameters": [
            {"name": "a", "schema": {"type": "string", "format": "date", "items": {"type": "null"}}, "in": "query"},
            {"name": "a", "schema": {"type": "string"}},
            "no parameter",
        ],
        "return": {"name": "r", "schema": {"$ref": "#/schemas/Gone", "title": "x"}},
        "stream": {"data": {"name": "r", "schema": {"type": "integer"}}, "more": 1},
        "tags": [],
    }
    schemas = {"Thing": {"type": "object", "properties": {"a/b": {"pattern": "x"}}}}
    document = opentool(odd, FUNCTION, FUNCTION, 5, server={"url": "http://x.example"}, schemas=schemas)
    assert pointers(read(document).losses) == {
        "",
        "/functions/0/name",
        "/functions/0/parameters/0/in",
        "/functions/0/parameters/0/schema/format",
        "/functions/0/parameters/0/schema/items/type",
        "/functions/0/parameters/1",
        "/functions/0/parameters/2",
        "/functions/0/return/schema/title",
        "/functions/0/stream/data",
        "/functions/0/stream/more",
        "/functions/0/tags",
        "/functions/2",
        "/functions/3",
        "/schemas/Thing/properties/a~1b/pattern",
        "/server",
    }


def test_every_operation_is_a_tool_where_no_operation_speaks_of_models() -> None:
    found = read(PETS)
    (tool,) = found.catalog.tools
    assert (tool.name, tool.description, tool.approval) == ("get_pet", "One pet.\nAt length.", None)
    assert found.catalog.description == "All of them."
    assert pointers(found.losses) == {
        "/servers",
        "/info/contact",
        "/paths/~1pets~1{id}/get",
        "/paths/~1pets~1{id}/get/description",
        "/paths/~1pets~1{id}/get/operationId",
        "/paths/~1pets~1{id}/get/servers",
        "/paths/~1pets~1{id}/post",
    }


def test_an_operation_that_is_not_offered_is_a_loss() -> None:
    document = openapi.write(Catalog(title="Desk", tools=(ADD,)), Site(keys=True))
    document["paths"] |= {"/a": {"get": {}}, "/b": {"get": {"x-llm": False}}, "/c": 5, "x-d": {}}
    found = read(document)
    assert [tool.name for tool in found.catalog.tools] == ["add"]
    whole = {"", "/security", "/components/securitySchemes", "/paths/~1a/get", "/paths/~1b/get"}
    assert pointers(found.losses) == whole


def test_a_list_as_we_serve_it_is_read_with_its_policies() -> None:
    tool = Tool(**_members(ADD), approval=Approval.AUTO)
    found = read(otc.write(Catalog(title="Desk", tools=(tool,))))
    assert (found.kind, found.catalog.tools) == ("otc", (tool,))


def test_a_bare_list_is_read_and_written() -> None:
    catalog = Catalog(title="Desk", tools=(ADD,))
    document = otc.write_array(catalog)
    found = read(document)
    assert (found.kind, found.catalog) == ("universal", catalog)
    assert convert.write(catalog, "universal").document == document
    assert read([]).catalog == Catalog()


def test_what_a_list_does_not_let_be_called_is_lost() -> None:
    good = {"id": "K.a@1.0.0", "name": "a", "version": "one", "input_schema": {}, "more": 1}
    document = {"tools": [good, {"name": "b"}, 5, good], "total": 2}
    assert pointers(read(document, "otc").losses) == {
        "/tools/0/version",
        "/tools/0/more",
        "/tools/1",
        "/tools/2",
        "/tools/3",
        "/total",
    }


def test_an_answer_of_mcp_is_read_and_pointed_into() -> None:
    tools = [
        {"name": "a b", "title": "A", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "c"},
    ]
    found = read({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools, "nextCursor": "2"}})
    assert (found.kind, found.catalog.tools[0].name, found.catalog.tools[0].safe) == ("mcp", "a_b", False)
    assert pointers(found.losses) == {
        "/result/tools/0/name",
        "/result/tools/0/annotations",
        "/result/tools/1",
        "/result/nextCursor",
    }


def test_a_bundle_has_the_exact_schemas_by_name() -> None:
    tool = Tool(name="f", toolkit="T", input_schema={"type": "object", "properties": {}}, output_schema=None)
    document = converted(Catalog(title="T", tools=(tool,)), "jsonschema").document
    assert document == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "T",
        "version": "1.0.0",
        "description": "",
        "tools": {"f": {"description": "", "input": {"type": "object", "properties": {}}, "output": None}},
    }


def test_what_is_odd_in_a_bundle_is_lost() -> None:
    tools = {"a b": {"input": 5, "output": "x", "more": 1}, "a_b": {}, "": {}, "c": 5}
    found = read({"tools": tools, "title": 5})
    assert [tool.name for tool in found.catalog.tools] == ["a_b"]
    assert pointers(found.losses) == {
        "/tools/a b",
        "/tools/a b/input",
        "/tools/a b/output",
        "/tools/a b/more",
        "/tools/a_b",
        "/tools/",
        "/tools/c",
    }


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"5", "\ud800", b'{"swagger": "2.0"}', b'{"opentool": 1}', b"[5]"])
def test_what_cannot_be_read_is_a_problem(data: bytes | str) -> None:
    assert isinstance(convert.convert(data, "otc"), Problem)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [None, 5, "5", [], {}, {"tools": 5}, {"openapi": 3}, {"items": {}}])
def test_data_of_any_other_kind_is_a_problem_or_empty(kind: str, data: Any) -> None:
    found = convert.read(data, kind)
    assert isinstance(found, Problem) or found.catalog.tools == ()


def test_a_kind_that_is_not_there_is_misuse() -> None:
    with pytest.raises(ValueError, match="there is no kind 'soap'"):
        convert.convert(b"{}", "soap")


@pytest.mark.parametrize("source", [5, {}, {"kind": "opentool"}, {"kind": "soap", "text": "", "digest": ""}])
def test_an_embedded_text_that_is_none_is_passed_over(source: Any) -> None:
    document = converted(Catalog(title="Desk", tools=(ADD,)), "mcp").document
    document["_meta"] = {"toolwire/convert": {"source": source}}
    assert converted(document, "opentool").document["functions"][0]["name"] == "add"


@pytest.mark.parametrize(("kind", "text"), [("soap", "{}"), ("opentool", "{")])
def test_an_embedded_text_that_cannot_be_read_is_passed_over(kind: str, text: str) -> None:

    document = converted(Catalog(title="Desk", tools=(ADD,)), "mcp").document
    found = embed_source(document, ("_meta", "toolwire/convert"), SourceText(kind, text))
    assert converted(found, "opentool").document["functions"][0]["name"] == "add"


def test_an_embedded_text_with_other_tools_is_passed_over() -> None:
    document = converted(opentool(FUNCTION), "mcp").document
    other = SourceText("opentool", json.dumps(opentool(FUNCTION | {"description": "Something else."})))
    document.pop("_meta")
    back = converted(embed_source(document, ("_meta", "toolwire/convert"), other), "opentool")
    assert back.document["functions"][0]["description"] == "d"


def test_an_answer_of_mcp_that_was_made_from_a_text_gives_it_back() -> None:
    raw = json.dumps(opentool(FUNCTION))
    answer = {"jsonrpc": "2.0", "id": 1, "result": converted(raw, "mcp").document}
    assert converted(answer, "opentool").text == raw


def test_a_strict_list_does_not_say_more_in_our_member() -> None:
    tool = Tool(**_members(ADD), timeout_s=5)
    listed = convert.write(Catalog(title="Desk", tools=(tool,)), "oxp").document
    said = convert.write(Catalog(title="Desk", tools=(tool,)), "otc").document["x-toolwire"]
    assert read(listed | {"x-toolwire": said}).catalog.tools[0].timeout_s is None


def test_a_loss_says_where_within_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "title": "A"}}, "$comment": "c"}
    tool = Tool(name="f", toolkit="T", input_schema=schema, description="d")
    (loss,) = convert.write(Catalog(title="T", tools=(tool,)), "oxp").losses
    assert (loss.what, loss.instead) == (
        "the exact input schema of T.f@1.0.0, at /properties/a/description: nothing",
        '"A"',
    )
