"""A catalog as OpenAPI 3.0, 3.1 and 3.2: each is valid, and each says the same tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openapi_spec_validator import validate

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Approval, Tool
from toolwire.protocols.openapi.document.versions import as_version
from toolwire.protocols.openapi.server import build_routes
from toolwire.protocols.openapi.tools import operations

CATALOG = Catalog(
    title="Shop",
    tools=(
        Tool(name="find", toolkit="Shop", description="Find", safe=True, input_schema={
            "type": "object",
            "properties": {"text": {"type": "string"}, "most": {"type": "integer", "exclusiveMinimum": 0}},
            "required": ["text"],
        }),
        Tool(name="buy", toolkit="Shop", description="Buy", destructive=True, approval=Approval.PER_CALL, input_schema={
            "type": "object",
            "properties": {
                "note": {"type": ["string", "null"], "maxLength": 9},
                "size": {"enum": ["s", "m", None], "type": ["string", "null"]},
                "kind": {"const": "book"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
                "any": {"type": ["integer", "string"]},
            },
            "required": ["kind"],
            "$defs": {"Part": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Part"}}}},
        }, output_schema={"type": "integer", "examples": [1]}),
    ),
)  # fmt: skip


def read_served_document(query: str) -> dict[str, Any]:
    answer = build_routes(CATALOG, Site())["GET", "/openapi.json"].read(Request("GET", f"/openapi.json{query}"))
    assert isinstance(answer, Response)
    return json.loads(answer.body)


def normalize_schema(schema: Any) -> str:
    """Say a schema so that two spellings of the same values are one text."""
    text = json.dumps(schema, sort_keys=True)
    return text.replace('"const": "book"', '"enum": ["book"]')


@pytest.mark.requirement("XL-122", "XL-124")
def test_three_versions_give_the_same_tools() -> None:
    documents = [read_served_document(query) for query in ("?openapi=3.0", "", "?openapi=3.2")]
    assert [document["openapi"] for document in documents] == ["3.0.3", "3.1.0", "3.2.0"]
    for document in documents:
        validate(document)
    older, usual, newer = [
        operations.read_operations(one, "https://shop.example/openapi.json").catalog for one in documents
    ]
    for other in (older, newer):
        for mine, theirs in zip(usual.tools, other.tools, strict=True):
            assert (mine.id, mine.description, mine.safe, mine.approval, mine.destructive) == (
                theirs.id, theirs.description, theirs.safe, theirs.approval, theirs.destructive,
            )  # fmt: skip
            assert mine.required_parameters == theirs.required_parameters
            for name, schema in mine.parameters.items():
                if name != "any":  # 3.0 says several types as a choice
                    assert normalize_schema(theirs.parameters[name]) == normalize_schema(schema)


@pytest.mark.requirement("XL-124")
def test_schema_without_3_0_equivalent_is_dropped_but_values_kept() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": "null"}, "y": True, "z": {"$ref": "#/components/schemas/S", "description": "d"}},
        "patternProperties": {"^x": {}},
        "exclusiveMaximum": 3,
        "maximum": 2,
    }
    content = {"application/json": {"schema": schema}}
    document = {
        "openapi": "3.1.0",
        "info": {"summary": "s"},
        "paths": {"/a": {"post": {"requestBody": {"content": content}}}},
    }
    older = as_version(document, "3.0")
    reply = older["paths"]["/a"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert reply == {
        "type": "object",
        "properties": {
            "x": {"nullable": True, "enum": [None]},
            "y": {},
            "z": {"allOf": [{"$ref": "#/components/schemas/S"}], "description": "d"},
        },
        "maximum": 2,
    }
    assert "summary" not in older["info"]


@pytest.mark.requirement("OQ-1")
def test_document_is_named_by_llm_json_convention_and_api_catalog() -> None:
    table = build_routes(CATALOG, Site(root="/sub"))
    reply = {}
    for path in ("llm.json", "openapi.json", "api-catalog"):
        route = table["GET", f"/.well-known/{path}"]
        answer = route.read(Request("GET", f"/.well-known/{path}"))
        assert isinstance(answer, Response)
        assert route.is_public
        reply[path] = json.loads(answer.body)
    assert reply["llm.json"]["openapi"] == "/sub/openapi.json"
    assert "x-llm" in reply["openapi.json"]
    assert reply["api-catalog"]["linkset"][0]["service-desc"][0]["href"] == "/sub/openapi.json"


@pytest.mark.requirement("XL-124")
def test_closed_object_stays_closed_and_missing_info_is_accepted_in_every_version() -> None:
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    open_ = {"type": "object", "additionalProperties": {"type": ["integer", "null"]}}
    older = as_version({"openapi": "3.1.0", "components": {"schemas": {"Closed": closed, "Open": open_}}}, "3.0")
    assert older == {
        "openapi": "3.0.3",
        "components": {
            "schemas": {
                "Closed": closed,
                "Open": {"type": "object", "additionalProperties": {"type": "integer", "nullable": True}},
            }
        },
    }
