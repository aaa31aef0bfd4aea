"""A reference may stand where an operation, a path or a part of one stands: it is followed, or said to be left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolwire import connect_sync
from toolwire.cli import main
from toolwire.core.selection import Selection

DELETE = {
    "operationId": "destroy_droplets",
    "parameters": [{"name": "tag_name", "in": "query", "required": True, "schema": {"type": "string"}}],
    "responses": {"204": {"description": "gone"}},
}
TAG = DELETE["parameters"][0]


def tools_of(
    folder: Path, files: dict[str, Any], *, follow: bool = True, include: str = "all", **root: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the tools of ``openapi.json`` among ``files``, by name, and the findings."""
    whole = {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://t.example"}]}
    for name, data in {"openapi.json": whole | root, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")
    selection = Selection(include=include, elsewhere=follow)  # type: ignore[arg-type]
    with connect_sync(str(folder / "openapi.json"), selection=selection) as remote:
        return {tool.name: tool for tool in remote.tools}, remote.findings()


@pytest.mark.requirement("CV-17", "XL-088", "O-06")
@pytest.mark.parametrize(
    ("files", "paths"),
    [
        ({}, {"/d": {"delete": {"$ref": "#/x-operations/destroy"}}}),
        ({}, {"/d": {"$ref": "#/components/pathItems/d"}}),
        ({}, {"$ref": "#/x-paths"}),
        ({"d.json": DELETE}, {"/d": {"delete": {"$ref": "d.json"}}}),
        ({"d.json": {"a": DELETE}}, {"/d": {"delete": {"$ref": "d.json#/a"}}}),
        ({"d.json": {"delete": DELETE}}, {"/d": {"$ref": "d.json"}}),
        ({"d.json": {"delete": {"$ref": "e/f.json"}}, "e/f.json": DELETE}, {"/d": {"$ref": "d.json"}}),
        ({"paths.json": {"/d": {"delete": DELETE}}}, {"$ref": "paths.json"}),
        ({"list.json": DELETE["parameters"]}, {"/d": {"delete": DELETE | {"parameters": {"$ref": "list.json"}}}}),
        ({"one.json": TAG}, {"/d": {"delete": DELETE | {"parameters": [{"$ref": "one.json"}]}}}),
        ({}, {"/d": {"delete": {"operationId": DELETE["operationId"]}, "parameters": {"$ref": "#/x-list"}}}),
        ({}, {"/d": {"delete": DELETE | {"responses": {"$ref": "#/x-responses"}}}}),
    ],
)  # fmt: skip
def test_reference_in_place_of_any_document_part_is_resolved(
    tmp_path: Path, files: dict[str, Any], paths: dict[str, Any]
) -> None:
    parts = {
        "x-operations": {"destroy": DELETE},
        "components": {"pathItems": {"d": {"delete": DELETE}}},
        "x-paths": {"/d": {"delete": DELETE}},
        "x-list": DELETE["parameters"],
        "x-responses": DELETE["responses"],
    }
    tools, findings = tools_of(tmp_path, files, paths=paths, **parts)
    tool = tools["destroy_droplets"]
    assert tool.parameters == {"tag_name": {"type": "string"}}
    assert list(tool.required_parameters) == ["tag_name"]
    assert findings == ()


@pytest.mark.requirement("CV-17")
def test_a_pointer_may_lead_through_a_reference(tmp_path: Path) -> None:
    operation = DELETE | {"parameters": [{"$ref": "#/components/parameters/tag"}]}
    tools, findings = tools_of(
        tmp_path,
        {"parts.json": {"parameters": {"tag": TAG}}},
        paths={"/d": {"delete": operation}},
        components={"$ref": "parts.json"},
    )
    assert set(tools["destroy_droplets"].parameters) == {"tag_name"}
    assert findings == ()


@pytest.mark.requirement("XL-088", "CV-30", "O-06")
@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"$ref": "d.json"}, "outside the document"),
        ({"$ref": "#/x-nothing"}, "which does not exist"),
        ({"$ref": "#/paths/~1d/delete"}, "form a cycle"),
        ({"$ref": "#/info"}, "what it refers to is not an operation"),
        ({"$ref": "#/info/title"}, "not an object"),
        ({**DELETE, "parameters": {"$ref": "#/x-nothing"}}, "which does not exist"),
        ({**DELETE, "parameters": [{"$ref": "p.json"}]}, "outside the document"),
        ({**DELETE, "requestBody": {"$ref": "b.json"}}, "outside the document"),
        ({**DELETE, "requestBody": {"required": True, "content": {"$ref": "#/x-nothing"}}}, "which does not exist"),
        ({**DELETE, "requestBody": {"required": True}}, "its request body is required, but declares no content"),
    ],
)
def test_dangling_reference_drops_its_tool_with_a_finding(tmp_path: Path, node: dict[str, Any], reason: str) -> None:
    tools, findings = tools_of(tmp_path, {}, follow=False, paths={"/d": {"delete": node, "get": {"operationId": "g"}}})
    assert set(tools) == {"g"}
    assert any(one.startswith("DELETE /d: ") and reason in one for one in findings), findings


@pytest.mark.requirement("XL-034", "XL-088")
def test_members_beside_an_operation_reference_are_used(tmp_path: Path) -> None:
    node = {"$ref": "#/x-operations/destroy", "x-llm": {"approval": "per-call", "hint": "Only old ones."}}
    tools, _ = tools_of(
        tmp_path, {}, include="declared", paths={"/d": {"delete": node}}, **{"x-operations": {"destroy": DELETE}}
    )
    assert tools["destroy_droplets"].hint == "Only old ones."


@pytest.mark.requirement("XL-088")
@pytest.mark.parametrize("argv", [["check"], ["convert", "--to", "opentool"], ["tools", "--include", "all"]])
def test_every_command_reads_such_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    paths = {"$ref": "#/x-paths"}
    tools_of(tmp_path, {}, paths=paths, **{"x-paths": {"/d": {"delete": {"$ref": "#/x-op"}}}, "x-op": DELETE})
    command, *options = argv
    assert main([command, str(tmp_path / "openapi.json"), *options]) < 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.requirement("O-09")
def test_a_property_that_is_called_ref_is_no_reference(tmp_path: Path) -> None:
    text = """\
openapi: 3.0.3
info: {title: T, version: '1'}
servers: [{url: 'https://t.example'}]
paths:
  /d:
    post:
      operationId: d
      requestBody:
        content:
          application/json:
            schema:
              type: object
              properties:
                $ref:
                  type: string
                other: {$ref: '#/components/schemas/Gone'}
"""
    (tmp_path / "api.yaml").write_text(text, encoding="utf-8")
    with connect_sync(str(tmp_path / "api.yaml"), selection=Selection(include="all")) as remote:
        assert [one for one in remote.findings() if "refers to" in one] == [
            "The document refers to '#/components/schemas/Gone', which is not there: anything fits it."
        ]


@pytest.mark.requirement("CV-34", "XL-088", "O-09")
def test_operation_dropped_for_its_method_is_reported(tmp_path: Path) -> None:
    item = {method: {"operationId": method} for method in ("get", "head", "options", "trace")}
    item["post"] = {"operationId": "post", "x-mcp": False}
    tools, findings = tools_of(tmp_path, {}, paths={"/d": item})
    assert set(tools) == {"get"}
    assert findings == (
        "POST /d: its x-mcp does not offer it.",
        "3 operations by HEAD, OPTIONS or TRACE are not offered: only an x-llm of its own offers one.",
    )
    offered = {"head": item["head"] | {"x-llm": {}}}
    assert set(tools_of(tmp_path, {}, paths={"/d": offered})[0]) == {"head"}
