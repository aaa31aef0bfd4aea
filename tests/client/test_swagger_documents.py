"""Swagger 2.0 documents are read as OpenAPI 3.0, and their operations are called as they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from toolwire import connect_sync
from toolwire.cli import main
from toolwire.client.discovery.discover import discover
from toolwire.client.login import read_declared_sign_in
from toolwire.client.transport.drivers import run
from toolwire.client.transport.network import SyncNetwork
from toolwire.core.model import Value
from toolwire.core.selection import Selection
from toolwire.protocols.openapi.document import swagger_20

EVERY = Selection(include="all")
TAGS = {"type": "array", "items": {"type": "string"}}
DOCUMENT: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Pets", "version": "1.0.0"},
    "basePath": "/v2",
    "consumes": ["application/json", "application/xml"],
    "produces": ["application/json"],
    "parameters": {
        "page": {"name": "page", "in": "query", "type": "integer", "minimum": 1},
        "pet": {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}},
    },
    "responses": {"Pet": {"description": "A pet", "schema": {"$ref": "#/definitions/Pet"}}},
    "securityDefinitions": {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "name": {"type": "basic"},
        "sign_in": {
            "type": "oauth2", "flow": "accessCode", "scopes": {"read": "Read"},
            "authorizationUrl": "https://pets.example/a", "tokenUrl": "https://pets.example/t",
        },
    },
    "definitions": {
        "Pet": {
            "type": "object", "discriminator": "kind", "required": ["kind"],
            "properties": {
                "kind": {"type": "string"},
                "owner": {"type": "string", "x-nullable": True},
                "discriminator": {"type": "string"},
                "parent": {"$ref": "#/definitions/Pet"},
            },
        },
    },
    "paths": {
        "/pets": {
            "parameters": [{"$ref": "#/parameters/page"}],
            "get": {
                "operationId": "list_pets",
                "parameters": [
                    {"name": "csv", "in": "query", **TAGS},
                    {"name": "multi", "in": "query", "collectionFormat": "multi", **TAGS},
                    {"name": "pipes", "in": "query", "collectionFormat": "pipes", **TAGS},
                ],
                "responses": {
                    "200": {"description": "", "schema": {"type": "array", "items": {"$ref": "#/definitions/Pet"}}}
                },
            },
            "post": {
                "operationId": "add_pet",
                "parameters": [{"$ref": "#/parameters/pet"}],
                "responses": {"200": {"$ref": "#/responses/Pet"}},
            },
        },
        "/pets/{id}": {
            "post": {
                "operationId": "rename_pet",
                "consumes": ["application/x-www-form-urlencoded"],
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "type": "integer"},
                    {"name": "name", "in": "formData", "type": "string", "required": True},
                    {"name": "tags", "in": "formData", "collectionFormat": "multi", **TAGS},
                ],
                "responses": {
                    "200": {"description": "done", "schema": {"$ref": "#/paths/~1pets/get/responses/200/schema"}}
                },
            }
        },
        "/pets/{id}/photo": {
            "put": {
                "operationId": "add_photo",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "type": "integer"},
                    {"name": "photo", "in": "formData", "type": "file", "required": True},
                    {"name": "title", "in": "formData", "type": "string"},
                ],
                "responses": {"204": {"description": "done"}},
            }
        },
    },
}  # fmt: skip


@pytest.fixture
def pets(listen: Any, encode_response: Any) -> Any:
    whole = encode_response(json.dumps(DOCUMENT).encode(), "content-type: application/json")
    fine = encode_response(b"[]", "content-type: application/json")
    return listen(lambda seen: [whole if seen.line.split()[1] == "/swagger.json" else fine])


def call_and_return_request(pets: Any, tool: str, **arguments: Any) -> Any:
    """Return the request that a call of the tool ``tool`` was."""
    with connect_sync(f"{pets.origin}/swagger.json", selection=EVERY, approve=lambda question: True) as remote:
        assert isinstance(remote.call(tool, arguments), Value)
        assert remote.findings() == ()
    return pets.requests[-1]


def test_query_lists_are_written_in_the_declared_format(pets: Any) -> None:
    seen = call_and_return_request(pets, "list_pets", page=2, csv=["a", "b"], multi=["c", "d"], pipes=["e", "f"])
    path, _, query = seen.line.split()[1].partition("?")
    assert path == "/v2/pets"
    assert sorted(parse_qsl(query)) == [
        ("csv", "a,b"),
        ("multi", "c"),
        ("multi", "d"),
        ("page", "2"),
        ("pipes", "e|f"),
    ]


def test_a_body_behind_a_reference_is_sent_as_json(pets: Any) -> None:
    seen = call_and_return_request(pets, "add_pet", kind="cat", owner=None)
    assert seen.headers["content-type"] == "application/json"
    assert json.loads(seen.body) == {"kind": "cat", "owner": None}


def test_a_form_is_sent_as_a_form(pets: Any) -> None:
    seen = call_and_return_request(pets, "rename_pet", id=7, name="Tom", tags=["a", "b"])
    assert seen.line.split()[1] == "/v2/pets/7"
    assert seen.headers["content-type"] == "application/x-www-form-urlencoded"
    assert sorted(parse_qsl(seen.body.decode())) == [("name", "Tom"), ("tags", "a"), ("tags", "b")]


def test_a_file_is_sent_in_a_multipart_body(pets: Any) -> None:
    seen = call_and_return_request(pets, "add_photo", id=7, photo="AAEC", title="Tom")
    assert seen.headers["content-type"].startswith("multipart/form-data")
    assert b"\x00\x01\x02" in seen.body


@pytest.mark.requirement("CV-29")
def test_swagger_schemas_are_converted_to_openapi_3() -> None:
    whole, notes = swagger_20.upgrade(DOCUMENT, "https://pets.example/swagger.json")
    assert notes == []
    assert whole["openapi"] == "3.0.3"
    pet = whole["components"]["schemas"]["Pet"]
    assert pet["discriminator"] == {"propertyName": "kind"}
    assert pet["properties"]["owner"] == {"type": "string", "nullable": True}
    assert pet["properties"]["discriminator"] == {"type": "string"}
    assert pet["properties"]["parent"] == {"$ref": "#/components/schemas/Pet"}
    schemes = whole["components"]["securitySchemes"]
    assert schemes["name"] == {"type": "http", "scheme": "basic"}
    assert schemes["sign_in"]["flows"]["authorizationCode"]["tokenUrl"] == "https://pets.example/t"


@pytest.mark.parametrize(
    ("root", "servers"),
    [
        ({}, None),
        ({"host": "a.example"}, ["https://a.example/"]),
        ({"host": "a.example", "basePath": "/v1/"}, ["https://a.example/v1"]),
        ({"host": "a.example", "schemes": ["http", "https"]}, ["http://a.example/", "https://a.example/"]),
        ({"basePath": "/v1"}, ["/v1"]),
    ],
)
def test_host_base_path_and_schemes_are_the_servers(root: dict[str, Any], servers: list[str] | None) -> None:
    whole, _ = swagger_20.upgrade({"swagger": "2.0", "paths": {}, **root}, "https://docs.example/swagger.json")
    assert whole.get("servers") == (None if servers is None else [{"url": url} for url in servers])


@pytest.mark.requirement("FU-21")
@pytest.mark.parametrize(
    ("parameter", "finding"),
    [
        ({"name": "a", "in": "query", "collectionFormat": "semicolons", **TAGS}, "'semicolons' is not one of"),
        ({"name": "a", "in": "header", "collectionFormat": "multi", **TAGS}, "'multi' is not one of"),
        (
            {"name": "a", "in": "query", "type": "array", "items": {**TAGS, "collectionFormat": "multi"}},
            "'multi' is not one of",
        ),
    ],
)
def test_swagger_part_without_an_equivalent_is_a_finding(
    tmp_path: Path, parameter: dict[str, Any], finding: str
) -> None:
    item = {"get": {"operationId": "get_it", "parameters": [parameter], "responses": {}}}
    data = {**DOCUMENT, "host": "pets.example", "paths": {"/pets": item}}
    (tmp_path / "swagger.json").write_text(json.dumps(data), encoding="utf-8")
    with connect_sync(str(tmp_path / "swagger.json"), selection=EVERY) as remote:
        assert any(finding in one for one in remote.findings())


@pytest.mark.requirement("FU-21")
def test_every_command_reads_a_swagger_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("swagger.json").write_text(json.dumps({**DOCUMENT, "host": "pets.example"}), encoding="utf-8")
    for argv in (
        ["tools", "swagger.json", "--include", "all"],
        ["size", "swagger.json", "--include", "all"],
        ["convert", "swagger.json", "--to", "opentool"],
    ):
        assert main(argv) == 0, (argv, capsys.readouterr().err)
        assert "pets" in capsys.readouterr().out
    assert main(["check", "swagger.json"]) < 2
    assert "Swagger 2" not in capsys.readouterr().out


def test_sign_in_reads_swagger_security_definitions(pets: Any) -> None:
    transport = SyncNetwork()
    found = run(discover(f"{pets.origin}/swagger.json", selection=EVERY), transport)
    transport.close()
    assert found.peer is not None
    reply = read_declared_sign_in(found.peer)
    assert reply is not None
    assert ("x-key", "") in reply.keys
    assert ("authorization", "Basic ") in reply.keys


@pytest.mark.parametrize("version", ["1.2", 1, None, "2.1", {}])
def test_other_swagger_version_is_refused(tmp_path: Path, version: Any) -> None:
    (tmp_path / "swagger.json").write_text(json.dumps({**DOCUMENT, "swagger": version}), encoding="utf-8")
    assert main(["tools", str(tmp_path / "swagger.json"), "--include", "all"]) != 0


@pytest.mark.parametrize("value", [None, 7, "x", [], [7], {}, {"$ref": "#/x"}, {"a": 7}, {"/a": {"get": 7}}])
@pytest.mark.parametrize(
    "member",
    ["paths", "definitions", "parameters", "responses", "securityDefinitions", "host", "basePath", "schemes",
     "consumes", "produces", "info"],
)  # fmt: skip
def test_unexpected_swagger_member_raises_no_exception(member: str, value: Any) -> None:
    whole, _ = swagger_20.upgrade({**DOCUMENT, member: value}, "https://a.example/swagger.json")
    assert whole["openapi"] == "3.0.3"
