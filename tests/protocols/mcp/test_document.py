"""Tools as MCP lists them, and what may be believed of a list that somebody else wrote."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.content import Image, read_content
from toolwire.core.model import Approval, Tool, Value
from toolwire.protocols.mcp import document, result
from toolwire.protocols.mcp.output_schema import build_output_form
from toolwire.validation import find_schema_fault


def read(*entries, title="Shop"):
    return document.read({"name": title, "version": "2"}, "", entries).catalog


def entry(name="buy", **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


@pytest.mark.requirement("XL-070")
def test_a_description_is_followed_by_its_hint(catalog):
    assert document.write(catalog)[0]["description"] == "Add two numbers.\nUse it for sums."


@pytest.mark.requirement("XL-076")
def test_annotations_state_what_the_tool_declares(catalog):
    add, remove, *_ = document.write(catalog)
    assert add["annotations"] == {
        "title": "Add two numbers.",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": True,
    }
    assert remove["annotations"]["destructiveHint"] is True
    assert remove["_meta"]["toolwire/x-llm"]["approval"] == "per-call"


@pytest.mark.requirement("XL-076")
def test_written_tool_list_is_read_back_unchanged(catalog):
    back = document.read({"name": "Desk", "version": "3.1.0"}, "Small things.", document.write(catalog)).catalog
    assert (back.title, back.version, back.description) == ("Desk", "3.1.0", "Small things.")
    stripped = [_without_hints(tool) for tool in back.tools]
    assert stripped == list(catalog.tools)


def _without_hints(tool: Tool) -> Tool:
    members = {name: getattr(tool, name) for name in Tool.__dataclass_fields__ if name != "hints"}
    return Tool(**members)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "integer"},
        {"type": ["object", "null"]},
        {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}},
    ],
)
def test_an_output_that_is_no_object_is_wrapped_and_unwrapped(schema):
    catalog = Catalog(tools=(Tool(name="x", output_schema=schema),))
    (listed,) = document.write(catalog)
    assert listed["outputSchema"]["type"] == "object"
    assert document.read({}, "", [listed]).catalog.tools[0].output_schema == schema


def test_fastmcp_result_wrapper_is_removed():
    output = {"type": "object", "properties": {"result": {"type": "integer"}}, "x-fastmcp-wrap-result": True}
    (tool,) = document.read(
        {}, "", [{"name": "add", "inputSchema": {"type": "object"}, "outputSchema": output}]
    ).catalog.tools
    assert tool.output_schema == {"type": "integer"}
    assert result.read(tool, {"content": [], "structuredContent": {"result": 3}}) == Value(3)


def test_wrapped_schema_still_refers_to_its_definitions():
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    (listed,) = document.write(Catalog(tools=(Tool(name="x", output_schema=schema),)))
    validator = jsonschema_rs.Draft202012Validator(listed["outputSchema"])
    assert validator.is_valid({"result": [[], [[]]]})
    assert not validator.is_valid({"result": [1]})


def test_output_schema_that_refers_to_its_root_is_not_declared():
    schema = {"type": "array", "items": {"$ref": "#"}}
    (listed,) = document.write(Catalog(tools=(Tool(name="x", output_schema=schema),)))
    assert listed["outputSchema"]["properties"] == {"result": {}}


def test_a_tool_that_returns_nothing_declares_no_output():
    (listed,) = document.write(Catalog(tools=(Tool(name="x", output_schema=None),)))
    assert "outputSchema" not in listed
    assert document.read({}, "", [listed]).catalog.tools[0].output_schema is None


def test_tools_with_one_name_are_listed_with_their_toolkits():
    catalog = Catalog(tools=(Tool(name="get", toolkit="A"), Tool(name="get", toolkit="B")))
    listed = document.write(catalog)
    assert [tool["name"] for tool in listed] == ["A_get", "B_get"]
    assert [tool.id for tool in document.read({}, "", listed).catalog.tools] == ["A.get@1.0.0", "B.get@1.0.0"]


@pytest.mark.requirement("I-21")
def test_a_foreign_read_only_hint_is_read_as_a_claim_that_no_question_is_needed():
    (tool,) = read(entry(annotations={"readOnlyHint": True, "idempotentHint": True})).tools
    assert (tool.safe, tool.idempotent, tool.approval, tool.blanket_allowed) == (True, False, Approval.AUTO, True)
    assert tool.hints["mcp"]["annotations"]["readOnlyHint"] is True


@pytest.mark.requirement("I-21")
@pytest.mark.parametrize(
    "annotations", [{}, {"readOnlyHint": "true"}, {"readOnlyHint": 1}, {"readOnlyHint": True, "destructiveHint": True}]
)
def test_only_a_plain_hint_that_nothing_contradicts_is_a_claim(annotations):
    (tool,) = read(entry(annotations=annotations)).tools
    assert (tool.safe, tool.approval, tool.blanket_allowed) == (False, None, None)


@pytest.mark.requirement("I-21")
def test_the_policy_of_our_own_server_decides_over_its_hint():
    policy = {"toolwire/x-llm": {"approval": "per-call"}}
    (tool,) = read(entry(annotations={"readOnlyHint": True}, _meta=policy)).tools
    assert (tool.safe, tool.approval) == (False, Approval.PER_CALL)


def test_a_foreign_destructive_hint_is_believed():
    assert read(entry(annotations={"destructiveHint": True})).tools[0].destructive


def test_a_declared_policy_is_read():
    (tool,) = read(entry(_meta={"toolwire/x-llm": {"approval": "auto", "readOnly": True}})).tools
    assert (tool.safe, tool.approval) == (True, Approval.AUTO)


@pytest.mark.parametrize("policy", [False, 7, {"enabled": False}])
def test_a_tool_whose_policy_hides_it_is_left_out(policy):
    assert read(entry(_meta={"toolwire/x-llm": policy})).tools == ()


@pytest.mark.parametrize(
    "bad",
    [
        7,
        None,
        {},
        {"name": "x"},
        {"name": "", "inputSchema": {}},
        {"name": 7, "inputSchema": {}},
        {"name": "x", "inputSchema": {"type": "array"}},
    ],
)
def test_invalid_tool_is_skipped_and_the_others_stay(bad):
    assert [tool.name for tool in read(entry("first"), bad, entry("last")).tools] == ["first", "last"]


@pytest.mark.requirement("O-34")
@pytest.mark.parametrize(
    "odd", [{"properties": []}, {"properties": {"a": 7}}, {"required": "a"}, {"required": [7]}, {"required": None}]
)
def test_tool_with_a_faulty_schema_is_mended_and_can_be_called(odd):
    (tool,) = read({"name": "x", "inputSchema": {"type": "object", **odd}}).tools
    assert find_schema_fault(tool.input_schema) == ""


def test_property_schema_true_becomes_an_empty_schema():
    (tool,) = read({"name": "x", "inputSchema": {"type": "object", "properties": {"a": True}}}).tools
    assert tool.parameters == {"a": {}}


def test_illegal_tool_name_is_made_legal_and_the_original_kept():
    (tool,) = read(entry("files.read file")).tools
    assert (tool.name, tool.original_name) == ("files_read_file", "files.read file")


def test_names_that_become_equal_stay_distinct():
    tools = read(entry("a.b"), entry("a_b"), entry("a b")).tools
    assert {tool.hints["mcp"]["name"] for tool in tools} == {"a.b", "a_b", "a b"}
    assert len({tool.name for tool in tools}) == 3


def test_first_of_two_tools_with_one_name_is_kept():
    (tool,) = read(entry("x", description="first"), entry("x", description="second")).tools
    assert tool.description == "first"


@pytest.mark.parametrize(
    "identities",
    [
        [("A", "x"), ("B", "x"), ("C", "A_x")],
        [("A", "x"), ("A", "x")],
        [("../..", "x"), ("A", "<b>")],
    ],
)
def test_invalid_declared_identity_never_drops_the_tool_list(identities):
    entries = [
        entry(f"tool{number}", _meta={"toolwire/tool": {"toolkit": toolkit, "name": name, "version": "1.0.0"}})
        for number, (toolkit, name) in enumerate(identities)
    ]
    assert read(*entries).tools


def test_a_server_without_a_name_is_called_tools():
    assert document.read({"name": 7}, "", []).catalog.title == "Tools"


def test_null_members_written_by_java_are_ignored_with_one_finding() -> None:
    unset = dict.fromkeys(["description", "enum", "items", "properties", "required", "format"])
    java = {
        "type": "object",
        "properties": {"a": {"type": "string"} | unset, "b": {"type": "array"} | unset | {"items": {"$ref": None}}},
        **dict.fromkeys(["required", "additionalProperties", "$defs", "definitions"]),
    }
    found = document.read({}, "", [{"name": name, "inputSchema": java, "outputSchema": None} for name in ("x", "y")])
    assert found.findings == ("members of schemas are null and are read as if they were not there: 'x' and 1 more",)
    for tool in found.catalog.tools:
        assert find_schema_fault(tool.input_schema) == ""
        assert tool.input_schema["properties"] == {"a": {"type": "string"}, "b": {"type": "array", "items": {}}}


def test_null_that_is_a_value_is_kept() -> None:
    schema = {"type": "object", "properties": {"a": {"default": None}, "b": {"const": None}, "c": {"enum": [None]}}}
    found = document.read({}, "", [{"name": "x", "inputSchema": schema}])
    assert (found.findings, found.catalog.tools[0].input_schema) == ((), schema)


# As the reference server "filesystem" 2026.8.31 lists its tool, but for the resources that it may return as well.
MEDIA_TOOL = {
    "name": "read_media_file",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "outputSchema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "content": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string", "enum": ["image", "audio"]},
                        "data": {"type": "string"},
                        "mimeType": {"type": "string"},
                    },
                    "required": ["type", "data", "mimeType"],
                },
            }
        },
        "required": ["content"],
    },
}
MEDIA_BLOCKS = [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]


@pytest.mark.requirement("MC-07")
def test_structured_content_that_repeats_the_blocks_is_content():
    (tool,) = document.read({}, "", [MEDIA_TOOL]).catalog.tools
    answer = {"content": MEDIA_BLOCKS, "structuredContent": {"content": MEDIA_BLOCKS}}
    value = result.read(tool, answer).unwrap()
    assert read_content(value) == Image(b"\x89PNG\r\n\x1a\n", "image/png")
    # A gateway passes it on as blocks alone, and an answer that differs from its blocks as it is.
    assert "outputSchema" not in document.write_tool(tool, tool.name)
    data = json.loads(result.write_value(b"1", build_output_form(tool), value, b"}}"))["result"]
    assert data == {"content": MEDIA_BLOCKS, "isError": False}
    other = {"content": [{"name": "a.png"}]}
    assert result.read(tool, {"content": MEDIA_BLOCKS, "structuredContent": other}) == Value(other)


@pytest.mark.requirement("MC-07")
@pytest.mark.parametrize("items", [{"type": "string"}, {"type": "object", "properties": {"name": {}}}])
def test_list_of_other_data_under_content_keeps_its_schema(items):
    schema = {"type": "object", "properties": {"content": {"type": "array", "items": items}}}
    (tool,) = document.read({}, "", [{**MEDIA_TOOL, "outputSchema": schema}]).catalog.tools
    assert tool.output_schema == schema
