"""What a document says in several places of one thing: beside a reference, in branches, in another layer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.core.codec import Peer
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Call
from toolwire.protocols.openapi import CODEC
from toolwire.validation import compile_schema

TEXT = {"type": "string"}
FILE = {"type": "string", "format": "binary"}
BASE = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}
OWNED = {"type": "object", "properties": {"id": {"type": "integer", "readOnly": True}, "n": TEXT}, "required": ["id"]}
SCHEMAS = {"Base": BASE, "Owned": OWNED, "File": FILE, "Flag": {"$anchor": "flag", "type": "boolean"}}

Make = Callable[..., Peer]


@pytest.fixture
def make_peer(peer: Callable[..., Peer]) -> Make:
    """Make a peer of a document with one operation, ``a``, whose body has the given schema."""

    def make(schema: Any, media: str = "application/json", version: str = "3.1.0", **more: Any) -> Peer:
        required = more.pop("required", True)
        body = {"required": required, "content": {media: {"schema": schema, **more}}}
        operation = {"operationId": "a", "x-llm": True, "requestBody": body, "responses": {"200": {"description": ""}}}
        return peer(document({"/a": {"post": operation}}, version))

    return make


def document(paths: Any, version: str = "3.1.0", **components: Any) -> dict[str, Any]:
    return {
        "openapi": version,
        "info": {"title": "T", "version": "1"},
        "x-llm": {"version": "0.1", "name": "t", "defaultApproval": "auto"},
        "paths": paths,
        "components": {"schemas": SCHEMAS, **components},
    }


@pytest.fixture
def send_call(drive: Callable[..., Any]) -> Callable[..., Request]:
    """Return the request of a call."""

    def send(peer: Peer, name: str, /, **arguments: Any) -> Request:
        requests: list[Request] = []

        def answer(request: Request) -> Response:
            requests.append(request)
            return Response(200, ((b"content-type", b"application/json"),), b"{}")

        drive(CODEC.send(peer, Call(peer.catalog.names[name], arguments)), answer)
        return requests[-1]

    return send


@pytest.mark.requirement("XL-084", "XL-088", "CV-17")
@pytest.mark.parametrize(("version", "names"), [("3.1.0", ["name", "extra"]), ("3.0.3", ["name"])])
def test_properties_beside_a_body_reference_count_from_3_1_on(
    make_peer: Make, send_call: Callable[..., Request], version: str, names: list[str]
) -> None:
    beside = {"$ref": "#/components/schemas/Base", "properties": {"extra": TEXT}, "required": ["extra"]}
    peer = make_peer(beside, version=version)
    schema = peer.catalog.names["a"].input_schema
    assert (list(schema["properties"]), schema["required"]) == (names, names)
    given = dict.fromkeys(names, "x")
    assert json.loads(send_call(peer, "a", **given).body) == given
    chosen = make_peer({"$ref": "#/components/schemas/Base", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]})
    assert list(chosen.catalog.names["a"].input_schema["properties"]) == ["body"]


@pytest.mark.requirement("CV-13")
@pytest.mark.parametrize(
    "schema",
    [
        FILE,
        {"anyOf": [FILE, {"type": "null"}]},
        {"allOf": [{"$ref": "#/components/schemas/File"}], "description": "A picture."},
        {"type": ["string", "null"], "contentMediaType": "application/octet-stream"},
    ],
)
def test_file_property_is_recognized_inside_any_schema_wrapper(
    make_peer: Make, send_call: Callable[..., Request], schema: Any
) -> None:
    peer = make_peer({"type": "object", "properties": {"n": schema}}, "multipart/form-data")
    assert peer.catalog.names["a"].input_schema["properties"]["n"]["contentEncoding"] == "base64"
    body = send_call(peer, "a", n="aGVsbG8=").body
    assert b'filename="n"' in body
    assert b"\r\n\r\nhello\r\n" in body


@pytest.mark.requirement("CV-12", "CV-13")
def test_form_as_one_argument_is_encoded_as_declared(make_peer: Make, send_call: Callable[..., Request]) -> None:
    branches = {
        "type": "object",
        "anyOf": [{"properties": {"f": FILE}, "required": ["f"]}, {"properties": {"u": TEXT}}],
    }
    picture = make_peer(branches, "multipart/form-data", encoding={"f": {"contentType": "image/png"}})
    body = send_call(picture, "a", body={"f": "aGVsbG8="}).body
    assert b"content-type: image/png\r\n\r\nhello\r\n" in body
    form = make_peer(
        branches, "application/x-www-form-urlencoded", encoding={"u": {"style": "deepObject", "explode": True}}
    )
    assert send_call(form, "a", body={"u": {"x": 1}}).body == b"u%5Bx%5D=1"


@pytest.mark.requirement("CV-21")
@pytest.mark.parametrize(
    "items",
    [
        {
            "allOf": [
                {"$ref": "#/components/schemas/Owned"},
                {"type": "object", "required": ["id", "z"], "properties": {"z": TEXT}},
            ]
        },
        {"$ref": "#/components/schemas/Owned", "required": ["id"]},
    ],
)
def test_read_only_property_is_never_required(make_peer: Make, items: Any) -> None:
    schema = make_peer({"type": "array", "items": items}).catalog.names["a"].input_schema
    assert '"id"' not in json.dumps(schema, default=dict)


@pytest.mark.requirement("XL-084", "XL-086", "CV-11")
def test_a_body_that_may_be_left_out_is_given_whole_or_not_at_all(
    make_peer: Make, send_call: Callable[..., Request]
) -> None:
    peer = make_peer({"required": ["a", "b"], "properties": {"a": TEXT, "b": TEXT, "c": TEXT}}, required=False)
    schema = peer.catalog.names["a"].input_schema
    assert schema["dependentRequired"] == {"a": ["b"], "b": ["a"], "c": ["a", "b"]}
    assert "required" not in schema
    request = send_call(peer, "a")
    assert (request.body, get_header(request.headers, b"content-type")) == (b"", "")


@pytest.mark.requirement("XL-084", "XL-086", "CV-11", "CV-25")
def test_required_body_properties_are_listed_once(peer: Callable[..., Peer], send_call: Callable[..., Request]) -> None:
    names = [f"Option{number}" for number in range(35)]
    form = {"type": "object", "required": ["To", "From"], "properties": dict.fromkeys(["To", "From", *names], TEXT)}
    body = {"content": {"application/x-www-form-urlencoded": {"schema": form}}}
    account = {"name": "Sid", "in": "path", "required": True, "schema": TEXT}
    operation = {"operationId": "a", "x-llm": True, "requestBody": body, "responses": {"200": {"description": ""}}}
    found = peer(document({"/{Sid}": {"post": {**operation, "parameters": [account]}}}))
    schema = dict(found.catalog.names["a"].input_schema)
    assert {key: one for key, one in schema.items() if key != "properties"} == {
        "type": "object",
        "required": ["Sid"],
        "if": {"anyOf": [{"required": [name]} for name in ("To", "From", *names)]},  # O-29
        "then": {"required": ["To", "From"]},
    }
    check = compile_schema(schema)
    assert check({"Sid": "1"}) is None
    assert check({"Sid": "1", "To": "2", "From": "3", "Option9": "4"}) is None
    refused = check({"Sid": "1", "Option9": "4"})
    assert refused is not None
    assert "To: is required" in refused.message
    assert send_call(found, "a", Sid="1").body == b""


@pytest.mark.requirement("CV-15", "CV-21")
@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}])
def test_required_but_undefined_property_can_be_given(
    make_peer: Make, send_call: Callable[..., Request], closed: dict[str, bool]
) -> None:
    inner = {"type": "object", "required": ["deep"], "properties": {"x": TEXT}, **closed}
    peer = make_peer({"type": "object", "required": ["a", "b"], "properties": {"a": TEXT, "in": inner}, **closed})
    given = {"a": "x", "b": [1], "in": {"deep": 7}}
    tool = peer.catalog.names["a"]
    assert compile_schema(tool.input_schema)(given) is None
    assert compile_schema(tool.input_schema)({"a": "x"}) is not None
    assert json.loads(send_call(peer, "a", **given).body) == given
    text = "\n".join(peer.memo.findings)
    assert ("does not define it" in text) is bool(closed)


@pytest.mark.requirement("CV-17")
def test_property_named_ref_is_read_as_a_property(drive: Callable[..., Any], site: Any) -> None:
    text = b"""
openapi: 3.1.0
info: {title: T, version: '1'}
x-llm: {version: '0.1', name: t}
paths:
  /a:
    post:
      operationId: a
      x-llm: true
      requestBody:
        required: true
        content:
          application/json:
            example: {$ref: nowhere}
            schema:
              type: object
              required: [in]
              properties:
                in:
                  type: object
                  properties:
                    $ref:
                      type: string
"""
    finding = drive(CODEC.find("https://recipes.test/openapi.json"), site({"/openapi.json": text}))
    tool = finding.peer.catalog.names["a"]
    assert dict(tool.input_schema)["properties"]["in"]["properties"] == {"$ref": {"type": "string"}}
    assert finding.peer.memo.findings == ()
    check = compile_schema(tool.input_schema)
    assert check({"in": {"$ref": "#/x"}}) is None
    assert check({"in": {"$ref": 7}}) is not None


@pytest.mark.requirement("XL-088", "CV-07")
def test_members_beside_a_path_item_reference_are_merged(
    peer: Callable[..., Peer], send_call: Callable[..., Request]
) -> None:
    def operation(name: str) -> dict[str, Any]:
        return {"operationId": name, "x-llm": True, "responses": {"200": {"description": ""}}}

    item = {
        "$ref": "#/components/pathItems/Item",
        "servers": [{"url": "/s"}],
        "parameters": [{"name": "y", "in": "query", "required": True, "schema": TEXT}],
        "post": operation("made"),
    }
    found = peer(document({"/i": item}, pathItems={"Item": {"get": operation("got")}}))
    assert sorted(found.catalog.names) == ["got", "made"]
    request = send_call(found, "got", y="1")
    assert (request.method, request.url.partition("/s/")[2]) == ("GET", "i?y=1")


@pytest.mark.requirement("CV-17")
def test_default_response_schema_is_used_if_no_success_is_declared(peer: Callable[..., Peer]) -> None:
    reply = {"description": "", "content": {"application/json": {"schema": {"$ref": "#flag"}}}}
    operation = {"operationId": "a", "x-llm": True, "responses": {"default": reply}}
    found = peer(document({"/a": {"get": operation}}))
    assert "boolean" in json.dumps(found.catalog.names["a"].output_schema, default=dict)


@pytest.mark.requirement("XL-088", "D-11")
def test_unsupported_http_method_is_counted_and_not_offered(peer: Callable[..., Peer]) -> None:
    def operation(name: str) -> dict[str, Any]:
        return {"operationId": name, "x-llm": True, "responses": {"200": {"description": ""}}}

    extra = {"COPY": operation("copy"), "VERSION-CONTROL": operation("control"), "Move": operation("move")}
    found = peer(document({"/a": {"additionalOperations": extra}}, "3.2.0"))
    assert list(found.catalog.names) == ["copy"]


@pytest.mark.requirement("D-34", "XL-012")
@pytest.mark.parametrize("direct", [True, False])
def test_circular_and_very_long_reference_chains_terminate(peer: Callable[..., Peer], direct: bool) -> None:
    chain: dict[str, Any] = {
        f"S{number}": {
            "type": "object",
            "properties": {f"p{number}": {"$ref": f"#/components/schemas/S{number + 1}", "readOnly": number % 2 == 0}},
            "allOf": [{"$ref": f"#/components/schemas/S{number + 1}", "description": "and more"}],
        }
        for number in range(2_000)
    }
    chain["S2000"] = {"allOf": [{"$ref": "#/components/schemas/S2000", "description": "itself"}]}
    for start in ("S0", "S2000"):
        schema = {"$ref": f"#/components/schemas/{start}", "description": "x"}
        body = {"content": {"application/json": {"schema": schema if direct else {"type": "array", "items": schema}}}}
        operation = {"operationId": "a", "x-llm": True, "requestBody": body, "responses": {"200": {"description": ""}}}
        assert list(peer(document({"/a": {"post": operation}}, schemas={**SCHEMAS, **chain})).catalog.names) == ["a"]
