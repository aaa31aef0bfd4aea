"""Documents of every kind: what is read of them, what is lost and where, and the way back to the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire import convert
from toolwire.convert import KINDS, ConvertedDocument, Loss, ReadDocument
from toolwire.convert import fields as tool_fields
from toolwire.convert.extension import SourceText, compute_digest, embed_source
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.model import Approval, Problem, Tool
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


def convert_document(data: Any, to: str, kind: str | None = None) -> ConvertedDocument:
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
    assert convert_document(convert_document(raw, kind).text, "opentool").text.encode() == raw


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
def test_real_document_survives_conversion_through_all_kinds(vector: Path) -> None:
    raw = vector.read_bytes()
    text = raw.decode()
    for kind in ("otc", "openapi", "mcp", "oxp"):
        text = convert_document(text, kind).text
    assert convert_document(text, "opentool").text.encode() == raw


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["openapi", "mcp", "otc"])
def test_real_document_keeps_its_tools_in_every_lossless_kind(vector: Path, kind: str) -> None:
    raw = vector.read_bytes()
    assert read(convert_document(raw, kind).text).catalog == read(raw).catalog


def test_line_ends_and_byte_order_mark_are_restored() -> None:
    raw = b"\xef\xbb\xbf" + json.dumps(opentool(FUNCTION), indent=1).replace("\n", "\r\n").encode()
    assert convert_document(convert_document(raw, "mcp").text, "opentool").text.encode() == raw


def test_a_document_given_as_data_comes_back_as_equal_data() -> None:
    data = opentool(FUNCTION)
    assert convert_document(convert_document(data, "otc").document, "opentool").document == data


@pytest.mark.parametrize("kind", ["openapi", "mcp", "otc"])
def test_edited_document_wins_over_the_embedded_source(kind: str) -> None:
    there = convert_document(opentool(FUNCTION, server={"url": "http://x.example"}), kind)
    edited = there.text.replace('"d"', '"edited"')
    assert edited != there.text
    back = convert_document(edited, "opentool")
    assert back.document["functions"][0]["description"] == "edited"
    assert "server" not in back.document


def test_changed_indentation_is_no_edit() -> None:
    raw = json.dumps(opentool(FUNCTION), indent=3).encode()
    there = convert_document(raw, "otc").document
    assert convert_document(json.dumps(there, sort_keys=True), "opentool").text.encode() == raw


def test_edited_member_wins_over_its_exact_value_and_is_reported() -> None:
    catalog = Catalog(title="Desk", tools=(Tool(**_members(ADD), timeout_s=5, output_name="sum"),))
    document = convert_document(catalog, "opentool").document
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
def test_invalid_exact_value_is_dropped_and_reported(field: str, value: Any) -> None:
    catalog = Catalog(title="Desk", tools=(ADD,))
    shown = convert.write(catalog, "opentool").document
    digest = compute_digest(tool_fields.write(read(shown).catalog.tools[0])[field])
    shown["x-toolwire"] = {"tools": {"add": {field: {"is": value, "shown": digest}}}}
    found = read(shown)
    assert [loss.pointer for loss in found.losses] == ["/functions/0"]
    assert found.catalog.tools[0].timeout_s is None


def _members(tool: Tool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in ("name", "toolkit", "version", "description", "input_schema")}


def test_colliding_exact_names_fall_back_to_document_names() -> None:
    document = convert_document(
        Catalog(title="K", tools=(ADD, Tool(name="sub", toolkit="Desk", version="1.2.0"))), "mcp"
    )
    shown = document.document
    for entry in shown["tools"]:
        entry["_meta"].pop("toolwire/tool", None)
    shown.pop("_meta")
    again = convert_document(read(shown).catalog, "opentool").document
    same = {name: {"name": {"is": "same", "shown": compute_digest(name)}} for name in ("add", "sub")}
    again["x-toolwire"] = {"tools": same}
    found = read(again)
    assert [tool.name for tool in found.catalog.tools] == ["add", "sub"]
    assert "two tools" in found.losses[-1].what


def test_members_unknown_to_a_strict_list_are_losses_one_by_one() -> None:
    tool = Tool(**_members(ADD), timeout_s=5, approval=Approval.AUTO, deprecated=True, output_name="sum")
    losses = convert.write(Catalog(title="Desk", tools=(tool,)), "oxp").losses
    assert pointers(losses) == {
        "/tools/0/timeout_s",
        "/tools/0/approval",
        "/tools/0/deprecated",
        "/tools/0/output_name",
    }
    assert {loss.instead for loss in losses} == {"nothing", '"result"'}


def test_loss_points_to_the_field_in_the_source() -> None:
    function = FUNCTION | {"return": {"name": "sum", "schema": {"type": "integer"}}, "x-llm": {"hint": "Gently."}}
    losses = convert_document(opentool(FUNCTION | {"name": "a"}, function), "oxp").losses
    assert {"/functions/1/return/name", "/functions/1/x-llm/hint"} <= pointers(losses)


def test_strict_definition_contains_only_its_own_members() -> None:
    document = convert_document(opentool(FUNCTION), "oxp").document
    assert set(document["items"][0]) == {"id", "name", "description", "version", "input_schema", "output_schema"}
    assert set(document) == {"$schema", "items", "x-toolwire"}


@pytest.mark.parametrize("kind", ["opentool", "mcp"])
def test_older_version_is_a_loss_in_kinds_with_one_version(kind: str) -> None:
    older = Tool(name="add", toolkit="Desk", version="1.0.0")
    written = convert.write(Catalog(title="Desk", tools=(ADD, older)), kind)
    assert written.losses == (Loss("/tools/0", "the tool Desk.add@1.0.0", "its newest version, 1.2.0"),)


def test_hints_without_json_equivalent_are_a_loss() -> None:
    tool = Tool(**_members(ADD), hints={"of": object()})
    (loss,) = convert.write(Catalog(title="Desk", tools=(tool,)), "openapi").losses
    assert loss.pointer == "/tools/0/hints"


def test_a_text_that_is_too_large_is_not_embedded_and_that_is_a_loss() -> None:
    text = json.dumps(opentool(FUNCTION | {"description": "d" * 1_048_576}))
    there = convert_document(text, "otc")
    assert "source" not in there.document.get("x-toolwire", {})
    assert there.losses[-1].instead == "what was read of it"


def test_opentool_members_without_catalog_equivalent_are_losses_by_pointer() -> None:
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


def test_every_operation_is_a_tool_in_a_document_without_x_llm() -> None:
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


def test_unoffered_operation_is_a_loss() -> None:
    document = openapi.write(Catalog(title="Desk", tools=(ADD,)), Site(keys=True))
    document["paths"] |= {"/a": {"get": {}}, "/b": {"get": {"x-llm": False}}, "/c": 5, "x-d": {}}
    found = read(document)
    assert [tool.name for tool in found.catalog.tools] == ["add"]
    whole = {"", "/security", "/components/securitySchemes", "/paths/~1a/get", "/paths/~1b/get"}
    assert pointers(found.losses) == whole


def test_served_list_is_read_with_its_policies() -> None:
    tool = Tool(**_members(ADD), approval=Approval.AUTO)
    found = read(otc.write(Catalog(title="Desk", tools=(tool,))))
    assert (found.kind, found.catalog.tools) == ("otc", (tool,))


def test_universal_tool_array_is_read_and_written() -> None:
    catalog = Catalog(title="Desk", tools=(ADD,))
    document = otc.write_array(catalog)
    found = read(document)
    assert (found.kind, found.catalog) == ("universal", catalog)
    assert convert.write(catalog, "universal").document == document
    assert read([]).catalog == Catalog()


def test_uncallable_list_entries_are_losses() -> None:
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


def test_mcp_response_is_read_and_its_losses_have_pointers() -> None:
    tools = [
        {"name": "a b", "title": "A", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "c"},
    ]
    found = read({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools, "nextCursor": "2"}})
    assert (found.kind, found.catalog.tools[0].name, found.catalog.tools[0].safe) == ("mcp", "a_b", True)
    assert pointers(found.losses) == {
        "/result/tools/0/name",
        "/result/tools/0/annotations",
        "/result/tools/1",
        "/result/nextCursor",
    }


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"5", "\ud800", b'{"swagger": "2.0"}', b'{"opentool": 1}', b"[5]"])
def test_unreadable_data_is_a_problem(data: bytes | str) -> None:
    assert isinstance(convert.convert(data, "otc"), Problem)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [None, 5, "5", [], {}, {"tools": 5}, {"openapi": 3}, {"items": {}}])
def test_data_of_any_other_kind_is_a_problem_or_empty(kind: str, data: Any) -> None:
    found = convert.read(data, kind)
    assert isinstance(found, Problem) or found.catalog.tools == ()


def test_unknown_kind_raises_value_error() -> None:
    with pytest.raises(ValueError, match="unknown kind 'soap'"):
        convert.convert(b"{}", "soap")


@pytest.mark.parametrize("source", [5, {}, {"kind": "opentool"}, {"kind": "soap", "text": "", "digest": ""}])
def test_invalid_embedded_source_is_ignored(source: Any) -> None:
    document = convert_document(Catalog(title="Desk", tools=(ADD,)), "mcp").document
    document["_meta"] = {"toolwire/convert": {"source": source}}
    assert convert_document(document, "opentool").document["functions"][0]["name"] == "add"


@pytest.mark.parametrize(("kind", "text"), [("soap", "{}"), ("opentool", "{")])
def test_unreadable_embedded_source_is_ignored(kind: str, text: str) -> None:

    document = convert_document(Catalog(title="Desk", tools=(ADD,)), "mcp").document
    found = embed_source(document, ("_meta", "toolwire/convert"), SourceText(kind, text))
    assert convert_document(found, "opentool").document["functions"][0]["name"] == "add"


def test_embedded_source_with_other_tools_is_ignored() -> None:
    document = convert_document(opentool(FUNCTION), "mcp").document
    other = SourceText("opentool", json.dumps(opentool(FUNCTION | {"description": "Something else."})))
    document.pop("_meta")
    back = convert_document(embed_source(document, ("_meta", "toolwire/convert"), other), "opentool")
    assert back.document["functions"][0]["description"] == "d"


def test_mcp_response_with_an_embedded_source_restores_it() -> None:
    raw = json.dumps(opentool(FUNCTION))
    answer = {"jsonrpc": "2.0", "id": 1, "result": convert_document(raw, "mcp").document}
    assert convert_document(answer, "opentool").text == raw


def test_strict_list_ignores_exact_values() -> None:
    tool = Tool(**_members(ADD), timeout_s=5)
    listed = convert.write(Catalog(title="Desk", tools=(tool,)), "oxp").document
    reply = convert.write(Catalog(title="Desk", tools=(tool,)), "otc").document["x-toolwire"]
    assert read(listed | {"x-toolwire": reply}).catalog.tools[0].timeout_s is None


def test_loss_names_its_place_inside_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "title": "A"}}, "$comment": "c"}
    tool = Tool(name="f", toolkit="T", input_schema=schema, description="d")
    (loss,) = convert.write(Catalog(title="T", tools=(tool,)), "oxp").losses
    assert (loss.what, loss.instead) == (
        "the exact input schema of T.f@1.0.0, at /properties/a/description: nothing",
        '"A"',
    )
