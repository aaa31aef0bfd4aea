"""The document we publish: valid, the same bytes each time, whole in itself, and true to what tools declare."""

from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Cost, RateLimit, Tool
from toolwire.framing import jsontext
from toolwire.protocols.openapi import CODEC, document_writer
from toolwire.protocols.openapi.document.references import resolve


def write(*tools: Tool, keys: bool = False) -> dict[str, Any]:
    return document_writer.write(Catalog(tools=tools), Site(keys=keys))


def references(node: object) -> list[str]:
    if isinstance(node, list):
        return [found for one in node for found in references(one)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for one in node.values() for found in references(one)]


ODD = {
    "type": "object",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://elsewhere.test/schema",
    "properties": {
        "self": {"$ref": "#"},
        "again": {"$ref": "#/properties/plain"},
        "plain": {"type": "string"},
        "generic": {"$ref": "#/$defs/Page[Item~1A]"},
        "inner": {"$ref": "#/$defs/Deep/properties/x"},
        "gone": {"$ref": "#/$defs/Gone"},
        "out": {"$ref": "https://elsewhere.test/x"},
        "always": True,
        "never": False,
        "$ref": {"type": "string"},
        "choice": {"enum": [{"$ref": "#/not-a-reference"}]},
    },
    "$defs": {
        "Page[Item/A]": {"type": "array", "items": {"$ref": "#/$defs/Page[Item~1A]"}},
        "Deep": {"type": "object", "properties": {"x": {"type": "integer"}}},
    },
}


@pytest.mark.requirement("XL-120", "XL-122")
@pytest.mark.parametrize("keys", [False, True])
def test_the_document_is_valid_openapi_3_1(kitchen: Catalog, keys: bool) -> None:
    published = document_writer.write(kitchen, Site(keys=keys))
    OpenAPIV31SpecValidator(published).validate()
    assert published["openapi"].startswith("3.1.")


@pytest.mark.requirement("XL-120", "XL-122")
def test_schemas_with_unusual_references_stay_valid_and_resolve_internally() -> None:
    published = write(
        Tool(name="write", input_schema=ODD, output_schema=ODD), Tool(name="look", input_schema=ODD, safe=True)
    )
    OpenAPIV31SpecValidator(published).validate()
    found = set(references(published["paths"])) | set(references(published["components"]["schemas"]))
    found -= {"#/not-a-reference"}
    assert len(found) > 8
    for reference in found:
        assert isinstance(resolve(published, reference), dict)


@pytest.mark.requirement("XL-019", "XL-087")
def test_document_has_the_same_bytes_at_both_urls_and_in_any_tool_order(kitchen: Catalog) -> None:
    turned = Catalog(title=kitchen.title, version=kitchen.version, description=kitchen.description,
                     tools=tuple(reversed(kitchen.tools)))  # fmt: skip
    first, second = CODEC.routes(kitchen, Site()), CODEC.routes(turned, Site())
    reply = {
        jsontext.write(response.body.decode())
        for routes in (first, second)
        for path in ("/openapi.json", "/.well-known/openapi.json")
        if isinstance(response := routes["GET", path].read(Request("GET", path)), Response)
    }
    assert len(reply) == 1


def test_each_tool_has_an_operation_at_a_path_without_variables(kitchen: Catalog) -> None:
    paths = document_writer.write(kitchen, Site())["paths"]
    assert {path: {method: one["operationId"] for method, one in item.items()} for path, item in paths.items()} == {
        "/api/reset": {"post": "reset"},
        "/api/save": {"post": "save"},
        "/api/save@1.0.0": {"post": "save_1_0_0"},
        "/api/search": {"get": "search"},
    }


def test_operation_ids_stay_unique_whatever_tools_are_called() -> None:
    published = write(Tool(name="a"), Tool(name="a", version="2.0.0"), Tool(name="a_1_0_0"))
    ids = [one["operationId"] for item in published["paths"].values() for one in item.values()]
    assert sorted(ids) == ["a", "a_1_0_0", "a_1_0_0_"]


def test_parameters_say_how_each_argument_is_written(kitchen: Catalog) -> None:
    operation = document_writer.write(kitchen, Site())["paths"]["/api/search"]["get"]
    forms = {one["name"]: "content" if "content" in one else "schema" for one in operation["parameters"]}
    assert forms == {
        "text": "schema", "limit": "schema", "tags": "schema", "exact": "schema", "near": "content",
        "cuisine": "schema", "any": "content",
    }  # fmt: skip
    text = operation["parameters"][0]
    assert (text["in"], text["required"], text["description"]) == ("query", True, "What to look for.")


@pytest.mark.requirement("XL-123")
@pytest.mark.parametrize(
    ("tool", "approval"),
    [
        (Tool(name="x", safe=True), "auto"),
        (Tool(name="x"), "per-call"),
        (Tool(name="x", safe=True, approval=Approval.PER_CALL), "per-call"),
        (Tool(name="x", approval=Approval.AUTO), "auto"),
        (Tool(name="x", safe=True, approval=Approval.DENY), "per-call"),
    ],
)
def test_safe_tools_are_written_as_auto_and_others_as_per_call_by_default(tool: Tool, approval: str) -> None:
    (item,) = write(tool)["paths"].values()
    (operation,) = item.values()
    assert operation["x-llm"]["approval"] == approval
    assert operation["x-llm"].get("readOnly", False) is tool.safe


@pytest.mark.requirement("XL-031", "XL-120")
def test_tool_policy_is_written_on_its_operation() -> None:
    tool = Tool(
        name="x", description="D", hint="H", approval=Approval.PER_CALL, blanket_allowed=True, destructive=True,
        rate_limit=RateLimit(max=3, window="1h"), cost=Cost.CREDITS, idempotent=True, deprecated=True,
    )  # fmt: skip
    operation = write(tool)["paths"]["/api/x"]["post"]
    assert operation["x-llm"] == {
        "enabled": True, "approval": "per-call", "blanketApprovalAllowed": True, "destructive": True,
        "idempotent": True, "rateLimit": {"max": 3, "window": "1h"}, "hint": "H", "costIndicator": "credits",
    }  # fmt: skip
    assert (operation["summary"], operation["deprecated"]) == ("D", True)


@pytest.mark.requirement("XL-025")
def test_document_root_states_name_and_description_of_the_site(kitchen: Catalog) -> None:
    published = document_writer.write(kitchen, Site())
    assert published["x-llm"] == {
        "version": "0.1", "name": "Kitchen", "description": "Keeps recipes.", "defaultApproval": "per-call",
    }  # fmt: skip
    assert published["info"] == {"title": "Kitchen", "version": "2.1.0", "description": "Keeps recipes."}


def test_security_is_declared_where_calls_need_a_key() -> None:
    assert "security" not in write()
    published = write(keys=True)
    (name,) = published["components"]["securitySchemes"]
    assert published["security"] == [{name: []}]
    assert published["components"]["securitySchemes"][name] == {"type": "http", "scheme": "bearer"}


def test_hint_already_in_a_description_is_not_repeated() -> None:
    (item,) = write(Tool(name="x", description="D\nH", hint="H"))["paths"].values()
    assert item["post"]["summary"] == "D"


@pytest.mark.parametrize("odd", [{"$defs": 7}, {"$ref": 7}, {"allOf": [7]}, {"properties": {"a": 7}}])
def test_invalid_schema_of_one_tool_keeps_the_document_of_the_others(odd: dict[str, Any]) -> None:
    published = write(Tool(name="odd", input_schema={"properties": {"a": {}}}, output_schema=odd), Tool(name="even"))
    assert sorted(published["paths"]) == ["/api/even", "/api/odd"]


def test_a_catalog_without_tools_is_a_valid_document() -> None:
    published = write()
    OpenAPIV31SpecValidator(published).validate()
    assert published["paths"] == {}
