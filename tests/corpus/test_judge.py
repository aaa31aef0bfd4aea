"""What is asked of every real document, asked of our own: odd ones, as people publish them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from corpus import judge, values, workers  # noqa: E402 - the folder is beside the package, not in it

_OK = {"200": {"description": "It."}}
_TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}}


def operation(**members: Any) -> dict[str, Any]:
    return {"responses": _OK, **members}


def document(paths: dict[str, Any], version: str = "3.0.3") -> dict[str, Any]:
    schemas = {
        "Tree": _TREE,
        "Size": {"type": "string", "enum": ["s", "m", "s", "m", "l"]},
        "Bad": {"type": "objekt", "required": "name", "pattern": "(", "minLength": -1, "enum": "x"},
        "Both": {"allOf": [{"$ref": "#/components/schemas/Tree"}, {"required": ["kids", "gone"]}]},
        "A b/c": {"type": "integer", "nullable": True, "exclusiveMinimum": True, "minimum": 0},
    }
    server = {"url": "https://{region}.api.test/v1", "variables": {"region": {"default": "eu"}}}
    info = {"title": "Odd", "version": "2021-01-01"}
    return {"openapi": version, "info": info, "servers": [server], "paths": paths, "components": {"schemas": schemas}}


def query(name: str, schema: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **members}


def build_request_body(schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"content": {kind: {"schema": schema}}, "required": True}


def to(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


PATHS: dict[str, Any] = {
    "/repos/{owner}": {"get": operation(operationId="repos/get"), "head": operation(operationId="repos/head")},
    "/repos": {"get": operation(operationId="repos/get"), "put": operation(operationId="repos_get")},
    "/long": {"get": operation(operationId="x" * 200), "post": operation(operationId="x" * 199 + "y")},
    "/nameless/{id}.json": {"get": operation(), "delete": operation(operationId="")},
    "/ünïcode": {"get": operation(operationId="取得"), "post": operation(operationId="取得")},
    "/tree": {
        "post": operation(requestBody=build_request_body(to("Tree"))),
        "put": operation(requestBody=build_request_body(to("Both"))),
    },
    "/bad": {
        "post": operation(requestBody=build_request_body({"properties": {"a": to("Bad"), "b": to("Nowhere"), "c": 7}}))
    },
    "/odd": {
        "get": operation(
            parameters=[
                query("page[size]", to("A b/c")),
                query("$filter", {"type": "string"}),
                query("size", to("Size"), style="nonsense"),
                query("size[]", {"type": "array", "items": to("Size")}),
            ]
        )
    },
    "/form": {"post": operation(requestBody=build_request_body(_TREE | {"required": ["kids"]}, "multipart/form-data"))},
    "/broken": {"get": "none", "post": {"parameters": [{"name": 7}]}, "put": operation(parameters=[None])},
    "/gone": {"$ref": "#/components/pathItems/gone"},
    "x-internal": {"get": operation()},
}


def judge_file(path: Path) -> dict[str, Any]:
    reply: dict[str, Any] = {}
    for one in judge.judge(path):
        reply |= one
    return reply


@pytest.fixture
def document_file(tmp_path: Path) -> Path:
    return tmp_path / "odd.json"


@pytest.mark.requirement("XL-082", "XL-083", "XL-084", "XL-087", "XL-088", "CV-18", "CV-22", "CV-23", "CV-30", "CV-31")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_unusual_document_drops_nothing_silently_and_gives_legal_tools(document_file: Path, version: str) -> None:
    document_file.write_text(json.dumps(document(PATHS, version)))
    reply = judge_file(document_file)
    assert reply["faults"] == []
    assert (reply["operations"], reply["tools"], reply["skipped"]) == (19, 14, 5)
    assert reply["counts"]["reversed"] >= 20
    assert reply["counts"]["written"] == reply["counts"]["made"] > 20


@pytest.mark.requirement("XL-082", "XL-087")
def test_the_order_of_a_document_changes_nothing(document_file: Path) -> None:
    document_file.write_text(json.dumps(document(PATHS)))
    first = judge_file(document_file)["digest"]
    document_file.write_text(json.dumps(document(dict(reversed(PATHS.items()))), indent=1))
    assert judge_file(document_file)["digest"] == first
    document_file.write_text(json.dumps(document(PATHS | {"/more": {"get": operation(operationId="more")}})))
    assert judge_file(document_file)["digest"] != first


@pytest.mark.requirement("XL-088", "CV-29")
def test_refused_document_has_a_reason(document_file: Path) -> None:
    document_file.write_text('{"swagger": "1.2", "paths": {}}')
    assert judge_file(document_file)["refused"] == "is Swagger 1.2, which is not read: ask for OpenAPI 3"


def waits(path: Path) -> Iterator[dict[str, Any]]:
    if path.name == "hangs":
        time.sleep(600)
    if path.name == "raises":
        raise RuntimeError("of it")
    if path.name == "dies":
        sys.exit(3)
    yield {"document": path.name}
    yield {"faults": []}


def test_hang_crash_or_exit_affects_only_one_document() -> None:
    paths = [Path(name) for name in ("raises", "hangs", "dies", "fine")]
    found = {one["path"]: one["faults"] for one in workers.each(paths, waits, workers=1, reading=3)}
    assert found == {
        "raises": ["raised RuntimeError: of it"],
        "hangs": ["reading takes over 3 s"],
        "dies": ["the process ended while reading"],
        "fine": [],
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[A-Z]{3}-\\d{2,4}(x|y)?$", "minLength": 8},
        {"type": "string", "format": "date-time"},
        {"type": "integer", "minimum": 10, "maximum": 12, "multipleOf": 3},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "uniqueItems": True},
        {"oneOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "integer"}]},
        {
            "allOf": [
                {"properties": {"a": {"type": "string"}}},
                {"properties": {"a": {"maxLength": 2}}, "required": ["a"]},
            ]
        },
        {"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 2},
        {"$ref": "#/$defs/Tree"},
    ],
)
def test_arguments_are_generated_for_any_schema(schema: dict[str, Any]) -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": {"Tree": tree}}
    for full in (False, True):
        made = values.arguments(whole, full=full)
        assert made is not None
        assert jsonschema_rs.is_valid(whole, made)
