"""From what a document declares to what is sent: the two halves of the plan, together."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.check import ALLOW
from toolwire.core.codec import Listen
from toolwire.core.http import Request, get_header
from toolwire.core.model import Call, Problem
from toolwire.core.resources import Resource, Resources
from toolwire.protocols.openapi import CODEC
from toolwire.validation import build_arguments_check


def send_first(peer: Any, **arguments: Any) -> Request:
    """Return the first thing a call of the one tool of ``peer`` sends."""
    (tool,) = peer.catalog.tools
    flow = CODEC.send(peer, Call(tool, arguments, "call-1"))
    asked = next(flow)
    flow.close()
    request = asked.request if isinstance(asked, Listen) else asked
    assert isinstance(request, Request)
    return request


def read_refusal(peer: Any, **arguments: Any) -> str:
    """Return the sentence that refuses a call of the one tool of ``peer``."""
    (tool,) = peer.catalog.tools
    with pytest.raises(StopIteration) as ended:
        next(CODEC.send(peer, Call(tool, arguments, "call-1")))
    assert isinstance(ended.value.value, Problem)
    return str(ended.value.value.message)


def body(*media_types: str, schema: Any = None, **media: Any) -> dict[str, Any]:
    whole = schema or {"type": "object", "properties": {"a": {"type": "string"}}}
    return {"required": True, "content": {one: {"schema": whole, **media} for one in media_types}}


@pytest.mark.requirement("CV-32", "CV-08")
def test_the_default_of_a_schema_is_not_sent_and_that_of_a_server_variable_is(peer: Any, one: Any) -> None:
    servers = [{"url": "/{version}/api", "variables": {"version": {"default": "v7", "enum": ["v7", "v8"]}}}]
    parameters = [{"name": "limit", "in": "query", "schema": {"type": "integer", "default": 10}}]
    found = peer(one(parameters=parameters, servers=servers))
    assert send_first(found).url == "https://recipes.test/v7/api/x"
    assert send_first(found, limit=10).url == "https://recipes.test/v7/api/x?limit=10"
    assert "version" not in found.catalog.tools[0].parameters


@pytest.mark.requirement("D-07")
def test_a_variable_that_is_the_host_is_no_argument(peer: Any, one: Any) -> None:
    servers = [
        {"url": "https://{host}/v1", "variables": {"host": {"default": "recipes.test", "enum": ["recipes.test"]}}}
    ]
    found = peer(one(servers=servers))
    assert not found.catalog.tools[0].parameters
    assert send_first(found).url == "https://recipes.test/v1/x"
    assert "takes no `host`" in read_refusal(found, host="evil.test")


@pytest.mark.requirement("CV-11")
@pytest.mark.parametrize(
    ("declared", "chosen"),
    [
        (["application/xml", "text/plain", "application/json"], "application/json"),
        (["multipart/form-data", "application/vnd.a+json"], "application/vnd.a+json"),
        (["multipart/form-data", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded"),
        (["text/plain", "multipart/form-data"], "multipart/form-data"),
        (["application/octet-stream", "text/plain"], "text/plain"),
        (["*/*"], "application/json"),
        (["application/*"], "application/json"),
    ],
)
def test_the_media_type_of_a_body_is_chosen_by_a_fixed_preference(
    peer: Any, one: Any, declared: list[str], chosen: str
) -> None:
    found = peer(one(method="post", requestBody=body(*declared)))
    argument = next(iter(found.catalog.tools[0].parameters))
    request = send_first(found, **{argument: "x"})
    assert get_header(request.headers, b"content-type").partition(";")[0] == chosen


@pytest.mark.requirement("CV-12")
def test_form_of_deep_objects_is_encoded_as_the_document_declares(peer: Any, one: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"card": {"type": "object"}, "expand": {"type": "array", "items": {"type": "string"}}},
    }
    encoding = {"card": {"style": "deepObject", "explode": True}, "expand": {"style": "deepObject", "explode": True}}
    found = peer(
        one(method="post", requestBody=body("application/x-www-form-urlencoded", schema=schema, encoding=encoding))
    )
    request = send_first(found, card={"number": "42", "owner": {"name": "A B"}}, expand=["x", "y"])
    assert request.body == (b"card%5Bnumber%5D=42&card%5Bowner%5D%5Bname%5D=A%20B&expand%5B0%5D=x&expand%5B1%5D=y")


@pytest.mark.requirement("CV-13")
@pytest.mark.parametrize("file", [{"type": "string", "format": "binary"}, {}, {"contentMediaType": "image/png"}])
def test_binary_property_is_a_file_in_every_version(peer: Any, one: Any, file: dict[str, str]) -> None:
    schema = {"type": "object", "properties": {"photo": file, "title": {"type": "string"}}}
    found = peer(one(method="post", requestBody=body("multipart/form-data", schema=schema)))
    stored = Resources(b"salt")
    object.__setattr__(found, "resources", stored)
    request = send_first(
        found, photo=stored.store(Resource(data=b"cat", media_type="image/png", name="c.png")), title="T"
    )
    assert b'name="photo"; filename="c.png"\r\ncontent-type: image/png\r\n\r\ncat\r\n' in request.body
    assert b'name="title"\r\n\r\nT\r\n' in request.body


@pytest.mark.requirement("XL-077")
def test_a_declared_idempotency_key_is_filled_with_the_id_of_the_call(peer: Any, one: Any) -> None:
    parameters = [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}]
    assert (
        get_header(send_first(peer(one(method="post", parameters=parameters))).headers, b"idempotency-key") == "call-1"
    )
    assert get_header(send_first(peer(one(parameters=parameters))).headers, b"idempotency-key") == ""
    named = {"x-llm": {"idempotencyKey": "X-Once"}}
    assert get_header(send_first(peer(one(method="post", **named))).headers, b"x-once") == "call-1"


@pytest.mark.requirement("CV-24")
def test_accept_header_lists_the_declared_media_types(peer: Any, one: Any) -> None:
    responses = {"200": {"description": "", "content": {"application/vnd.a+json": {}, "text/csv": {}}}}
    accept = get_header(send_first(peer(one(responses=responses))).headers, b"accept")
    assert accept.startswith("application/vnd.a+json")
    assert "text/csv" in accept


@pytest.mark.requirement("XL-106", "CV-28")
@pytest.mark.parametrize("media_type", ["text/event-stream", "application/jsonl", "application/json-seq"])
def test_operation_that_declares_a_stream_is_called_with_listen(peer: Any, one: Any, media_type: str) -> None:
    content = {media_type: {"itemSchema": {"type": "object"}}}
    found = peer({**one(responses={"200": {"description": "", "content": content}}), "openapi": "3.2.0"})
    flow = CODEC.send(found, Call(found.catalog.tools[0], {}))
    assert isinstance(next(flow), Listen)


@pytest.mark.requirement("CV-28")
def test_a_querystring_parameter_of_3_2_is_the_whole_query(peer: Any, one: Any) -> None:
    content = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    document = one(parameters=[{"name": "all", "in": "querystring", "content": content}])
    assert send_first(peer({**document, "openapi": "3.2.0"}), all={"a": [1, 2], "b": "x y"}).url.endswith(
        "/x?a=1&a=2&b=x%20y"
    )


@pytest.mark.requirement("XL-086", "D-10")
def test_invalid_path_argument_is_refused_before_any_request(peer: Any, one: Any) -> None:
    parameters = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    found = peer(one(path="/x/{id}", parameters=parameters))
    flow = CODEC.send(found, Call(found.catalog.tools[0], {"id": ".."}))
    with pytest.raises(StopIteration) as ended:
        next(flow)
    assert isinstance(ended.value.value, Problem)


@pytest.mark.requirement("A-49")
def test_undeclared_argument_is_refused_with_a_suggestion(peer: Any, one: Any) -> None:
    parameters = [{"name": "tag_name", "in": "query", "schema": {"type": "string"}}]
    found = peer(one(method="delete", parameters=parameters))
    assert read_refusal(found, tag="old") == "x takes no `tag`: did you mean `tag_name`?"
    assert send_first(found, tag_name="old").url == "https://recipes.test/x?tag_name=old"


@pytest.mark.requirement("A-49", "CV-15")
@pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded"])
def test_body_with_additional_properties_sends_undeclared_arguments(peer: Any, one: Any, media_type: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}
    parameters = [{"name": "q", "in": "query", "schema": {"type": "string"}}]
    found = peer(one(method="post", parameters=parameters, requestBody=body(media_type, schema=schema)))
    assert found.catalog.tools[0].input_schema["additionalProperties"] is True
    request = send_first(found, a="1", q="2", other="3")
    assert request.url == "https://recipes.test/x?q=2"
    expected = {"application/json": b'{"other":"3","a":"1"}'}.get(media_type, b"other=3&a=1")
    assert request.body == expected
    closed = {"allOf": [schema, {"type": "object", "additionalProperties": False}]}
    found = peer(one(method="post", requestBody=body(media_type, schema=closed)))
    assert "takes no `other`" in read_refusal(found, other="3")


@pytest.mark.requirement("CV-01")
@pytest.mark.parametrize(("schema", "empty"), [("object", {}), ("array", []), ("string", "")])
def test_required_header_is_sent_without_text_for_an_empty_value(peer: Any, one: Any, schema: str, empty: Any) -> None:
    parameters = [
        {"name": name, "in": "header", "required": name == "X-Config", "schema": {"type": schema}}
        for name in ("X-Config", "X-More")
    ]
    found = peer(one(parameters=parameters))
    (config, more) = found.catalog.tools[0].parameters
    headers = dict(send_first(found, **{config: empty, more: empty}).headers)
    assert headers[b"x-config"] == b""
    assert b"x-more" not in headers


PNG, TEXT = "data:image/png;name=c.png;base64,Y2F0", b'name="photo"\r\n\r\n'


@pytest.mark.requirement("CV-13")
@pytest.mark.parametrize("is_list", [False, True])
def test_a_part_whose_type_is_open_takes_a_file_and_any_other_value(peer: Any, one: Any, is_list: bool) -> None:
    photo = {"type": "array", "items": {}} if is_list else {}
    schema = {"type": "object", "properties": {"photo": photo, "note": {"type": "string"}}}
    found = peer(one(method="post", requestBody=body("multipart/form-data", schema=schema)))

    def send(value: Any) -> bytes:
        arguments = {"photo": [value] if is_list else value, "note": PNG}
        assert build_arguments_check()(Call(found.catalog.tools[0], arguments)) is ALLOW
        return send_first(found, **arguments).body

    assert b'name="photo"; filename="c.png"\r\ncontent-type: image/png\r\n\r\ncat\r\n' in send(PNG)
    assert b'name="note"\r\n\r\n' + PNG.encode() in send(PNG), "a text is no file"
    assert TEXT + b"hello\r\n" in send("hello")
    assert b'content-type: application/json\r\n\r\n{"a":1}\r\n' in send({"a": 1})


@pytest.mark.requirement("CV-14", "CV-13")
@pytest.mark.parametrize(
    ("given", "sent"),
    [("data:image/png;base64,Y2F0", "image/png"), ("data:image/gif;base64,Y2F0", "image/jpeg"), ("Y2F0", "image/jpeg")],
)
def test_a_file_says_which_of_the_declared_types_it_is(peer: Any, one: Any, given: str, sent: str) -> None:
    file = {"type": "string", "format": "binary"}
    found = peer(one(method="post", requestBody=body("image/png", "image/jpeg", schema=file)))
    assert get_header(send_first(found, body=given).headers, b"content-type") == sent
    schema = {"type": "object", "properties": {"photo": file}}
    encoding = {"photo": {"contentType": "image/jpeg, image/png"}}
    found = peer(one(method="post", requestBody=body("multipart/form-data", schema=schema, encoding=encoding)))
    assert f"content-type: {sent}\r\n\r\ncat".encode() in send_first(found, photo=given).body


@pytest.mark.requirement("CV-14")
@pytest.mark.parametrize("file", [{"type": "string", "format": "binary"}, {"contentMediaType": "*/*"}])
def test_a_file_of_any_type_is_sent_as_its_bytes(peer: Any, one: Any, file: dict[str, str]) -> None:
    found = peer(one(method="post", requestBody=body("*/*", schema=file)))
    request = send_first(found, body=PNG)
    assert (get_header(request.headers, b"content-type"), request.body) == ("image/png", b"cat")


@pytest.mark.requirement("O-22")
@pytest.mark.parametrize("others", ["additionalProperties", "unevaluatedProperties"])
def test_null_removes_a_member_in_a_merge_patch_and_only_there(one: Any, others: str, peer: Any) -> None:
    inner = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string", "enum": ["a"]}, "inner": {"$ref": "#/components/schemas/Inner"}}
        | {"map": {"type": "object", others: {"$ref": "#/components/schemas/Inner"}}},
    }
    arguments = {"text": None, "inner": {"name": None}, "map": {"a": None}}
    for kind, accepted in (("application/merge-patch+json", True), ("application/json", False)):
        whole = one(method="patch", requestBody=body(kind, schema=schema))
        found = peer({**whole, "components": {"schemas": {"Inner": inner}}})
        verdicts = [
            build_arguments_check()(Call(found.catalog.tools[0], {name: value})) is ALLOW
            for name, value in arguments.items()
        ]
        assert verdicts == [accepted] * 3
        if accepted:
            assert send_first(found, **arguments).body == b'{"text":null,"inner":{"name":null},"map":{"a":null}}'


@pytest.mark.requirement("O-33")
@pytest.mark.parametrize("word", ["allOf", "oneOf", "anyOf"])
def test_null_is_sent_where_nullable_stands_beside_a_type_and_branches(one: Any, word: str, peer: Any) -> None:
    schema = {"type": "object", word: [{"$ref": "#/components/schemas/Inner"}], "nullable": True}
    whole = {"type": "object", "properties": {"inner": schema}}
    inner = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    declared = one(method="post", requestBody=body("application/json", schema=whole))
    found = peer({**declared, "openapi": "3.0.3", "components": {"schemas": {"Inner": inner}}})
    check, tool = build_arguments_check(), found.catalog.tools[0]
    assert check(Call(tool, {"inner": None})) is ALLOW
    assert check(Call(tool, {"inner": {}})) is not ALLOW
    assert send_first(found, inner=None).body == b'{"inner":null}'
