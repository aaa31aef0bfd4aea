"""Examples that stand beside a schema, of parameters and media types, reach every model, in a bounded size."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from toolwire import asgi, connect_sync
from toolwire.adapters.schema import Provider, build_tool_schema
from toolwire.core.catalog import Catalog
from toolwire.core.model import Call, Result, Tool, Value
from toolwire.core.selection import Selection
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.protocols.openapi.tools.operations import read_operations
from toolwire.testing.loopback import background

BODY = {"fields": {"summary": "Printer on fire"}}
WEEK = "#/components/examples/W"
SHOWN = {"q": ["status:open"], "r": ["2026-W05"], "tags": [["a", "b"]], "body": [BODY]}


def build_document(**media: Any) -> dict[str, Any]:
    """Return an operation of three parameters and an untyped body, whose ``media`` is given."""
    operation = {
        "operationId": "find",
        "parameters": [
            {"name": "q", "in": "query", "schema": {"type": "string"}, "example": "status:open"},
            {"name": "r", "in": "query", "schema": {"type": "string"}, "examples": {"one": {"$ref": WEEK}}},
            {
                "name": "tags",
                "in": "query",
                "content": {"application/json": {"schema": {"type": "array"}, "example": ["a", "b"]}},
            },
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}, **media}}},
        "responses": {},
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "Find", "version": "1"},
        "servers": [{"url": "https://recipes.test"}],
        "paths": {"/find": {"post": operation}},
        "components": {"examples": {"W": {"value": "2026-W05"}}},
    }


def read_tool(document: dict[str, Any]) -> Tool:
    offer = read_operations(document, "https://recipes.test/openapi.json", Selection(include="all"))
    (tool,) = offer.catalog.tools
    return tool


def list_shown(tool: Tool) -> dict[str, Any]:
    return {name: one["examples"] for name, one in tool.parameters.items() if "examples" in one}


class FoundTools:
    """The tools of a document, as a gateway has them."""

    def __init__(self, tool: Tool) -> None:
        self._catalog = Catalog(title="Find", tools=(tool,))

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        return Value(value=None)


@pytest.mark.requirement("O-27")
@pytest.mark.parametrize(
    "media",
    [
        {"example": BODY},
        {"examples": {"e": {"summary": "One", "value": BODY}}},
        {"examples": {"e": {"dataValue": BODY}}},
        {"examples": {"e": BODY}},
        {"schema": {"type": "object", "example": BODY}},
    ],
)
def test_examples_beside_a_schema_reach_the_model(media: dict[str, Any]) -> None:
    assert list_shown(read_tool(build_document(**media))) == SHOWN


@pytest.mark.requirement("O-27")
def test_examples_of_swagger_two_reach_the_model() -> None:
    parameters = [
        {"name": "q", "in": "query", "type": "string", "x-example": "status:open"},
        {"name": "body", "in": "body", "schema": {"type": "object"}, "x-examples": {"application/json": BODY}},
    ]
    operation = {"operationId": "find", "parameters": parameters, "responses": {}}
    document = {
        "swagger": "2.0",
        "info": {"title": "Find", "version": "1"},
        "host": "recipes.test",
        "paths": {"/find": {"post": operation}},
    }
    assert list_shown(read_tool(document)) == {"q": ["status:open"], "body": [BODY]}


@pytest.mark.requirement("O-27")
def test_example_of_a_body_goes_to_the_arguments_that_its_properties_are() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "n": {"type": "integer"}, "kind": {"enum": ["x", "y"]}},
    }
    tool = read_tool(build_document(schema=schema, example={"a": "one", "n": "not a number", "kind": "x", "more": 1}))
    assert list_shown(tool) == {key: value for key, value in SHOWN.items() if key != "body"} | {"a": ["one"]}


@pytest.mark.requirement("O-27")
@pytest.mark.parametrize("protocol", ["mcp", "openapi", "opentool", "otc"])
def test_every_protocol_carries_the_examples_of_a_document(protocol: str) -> None:
    tool = read_tool(build_document(example=BODY))
    with background(asgi(FoundTools(tool))) as url, connect_sync(url, protocol=protocol) as remote:
        (found,) = remote.catalog().tools
        assert list_shown(found) == SHOWN


@pytest.mark.requirement("O-27")
@pytest.mark.parametrize("provider", Provider)
def test_every_provider_is_told_the_examples_of_a_document(provider: Provider) -> None:
    declared = build_tool_schema(read_tool(build_document(example=BODY)).input_schema, provider).schema
    text = json.dumps(declared).replace('\\"', '"')
    assert all(json.dumps(one) in text for values in SHOWN.values() for one in values)


@pytest.mark.requirement("O-27")
def test_examples_of_any_size_add_two_thousand_bytes_at_most() -> None:
    bare = len(json.dumps(dict(read_tool(build_document()).input_schema)))
    long_list = {"items": [{"id": number, "text": "x" * 100} for number in range(500)]}
    (stored,) = list_shown(read_tool(build_document(example=long_list)))["body"]
    assert stored == {"items": long_list["items"][:3]}
    for example in ("x" * 100_000, {"a": "x" * 5_000}, {f"k{number}": "x" * 50 for number in range(5_000)}):
        assert "body" not in list_shown(read_tool(build_document(example=example)))
    several = {f"e{number}": {"value": {"text": "x" * 900, "number": number}} for number in range(1_000)}
    tool = read_tool(build_document(examples=several))
    assert len(list_shown(tool)["body"]) == 2
    assert len(json.dumps(dict(tool.input_schema))) < bare + 2_200


@pytest.mark.requirement("O-27")
def test_an_example_that_does_not_fit_or_cannot_be_shown_is_left_out() -> None:
    schema = {"type": "object", "required": ["fields"]}
    examples = [{"other": 1}, "text", None, {"fields": "hidden\u200b\u202e"}, BODY]
    tool = read_tool(
        build_document(schema=schema, examples={str(key): {"value": one} for key, one in enumerate(examples)})
    )
    assert list_shown(tool).get("fields") == [BODY["fields"]]


def count_calls(branches: int) -> int:
    """Return how many functions are called to read a tool with 50 examples that fit no choice of its choices."""
    document = build_document()
    document["components"]["schemas"] = {
        "A": {"anyOf": [{"$ref": "#/components/schemas/B", "description": str(one)} for one in range(branches)]},
        "B": {"anyOf": [{"type": "integer", "minimum": one} for one in range(branches)]},
    }
    examples = {f"e{number}": {"value": f"text {number}"} for number in range(50)}
    parameter = {"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/A"}, "examples": examples}
    document["paths"]["/find"]["post"]["parameters"] = [parameter]
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        assert "q" not in list_shown(read_tool(document))
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.requirement("O-27", "D-15")
def test_comparing_examples_costs_no_more_than_the_document_is_long() -> None:
    assert count_calls(400) < 2 * count_calls(200)


@pytest.mark.requirement("O-27")
def test_odd_words_of_a_schema_do_not_hinder_its_example() -> None:
    odd = {"schema": {"type": "object", "required": [{"a": 1}, "n"], "properties": {"n": {"type": "integer"}}}}
    document = build_document(**odd, example={"n": 1})
    assert list_shown(read_tool(document)).get("n") == [1]
