"""How the properties of forms and the values of parameters are encoded, by the version of the document that says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from email import policy
from email.parser import BytesParser
from typing import Any

import pytest

from toolwire.core.http import Request, get_header
from toolwire.core.model import Call, Problem
from toolwire.protocols.openapi import CODEC

TEXT = {"type": "string"}
DATA = {"type": "object", "properties": {"a": TEXT, "b": {"type": "array", "items": TEXT}}}
VALUE = {"a": "x y", "b": ["1"]}

Sent = Callable[..., Request]


@pytest.fixture
def send_operation(peer: Any, one: Any) -> Sent:
    """Return the request of a POST with a body, or with other members, of a document of some version."""

    def send(version: str, arguments: dict[str, Any], path: str = "/x", **operation: Any) -> Request:
        found = peer({**one(path=path, method="post", **operation), "openapi": version})
        (tool,) = found.catalog.tools
        flow = CODEC.send(found, Call(tool, arguments))
        try:
            request = next(flow)
        except StopIteration as stop:
            pytest.fail(str(stop.value))
        assert isinstance(request, Request)
        return request

    return send


def form(media_type: str, encoding: dict[str, Any], **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"content": {media_type: {"schema": schema, "encoding": encoding}}}


def parts(request: Request) -> list[tuple[str, str, bytes]]:
    """Return name, content type and bytes of each part, as another program reads them."""
    head = b"content-type: " + get_header(request.headers, b"content-type").encode() + b"\r\n\r\n"
    whole = BytesParser(policy=policy.HTTP).parsebytes(head + request.body)
    return [
        (
            str(part.get_param("name", header="content-disposition")),
            str(part.get("content-type", "")).replace('"', "").replace("; ", ";"),
            part.get_payload(decode=True),
        )
        for part in whole.iter_parts()
    ]


@pytest.mark.requirement("CV-13", "CV-11", "O-07")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0", "3.2.0"])
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/vnd.a+json;v=1",
    ],
)
def test_json_part_is_json_with_any_media_type_parameters(
    send_operation: Sent, version: str, content_type: str
) -> None:
    body = form("multipart/form-data", {"request": {"contentType": content_type}}, request=DATA, name=TEXT)
    request = send_operation(version, {"request": VALUE, "name": "n"}, requestBody=body)
    (first, second) = parts(request)
    assert first[:2] == ("request", content_type.replace("; ", ";"))
    assert json.loads(first[2]) == VALUE
    assert second == ("name", "", b"n")


@pytest.mark.requirement("CV-13")
@pytest.mark.parametrize(
    "content_type", ["application/sdp", "application/x-own", "text/plain; charset=utf-8", "application/xml"]
)
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_string_without_binary_format_is_sent_as_text(send_operation: Sent, version: str, content_type: str) -> None:
    body = form("multipart/form-data", {"offer": {"contentType": content_type}}, offer=TEXT)
    request = send_operation(version, {"offer": "v=0\r\no=- 1"}, requestBody=body)
    assert parts(request) == [("offer", content_type.replace("; ", ";"), b"v=0\r\no=- 1")]


@pytest.mark.requirement("CV-13", "CV-14", "O-07")
@pytest.mark.parametrize(
    ("schema", "encoding"),
    [
        ({"type": "string", "format": "binary"}, {}),
        ({"type": "string", "format": "binary"}, {"contentType": "application/x-own"}),
        ({"type": "string", "contentMediaType": "image/png"}, {}),
        ({"type": "string", "contentEncoding": "base64"}, {"contentType": "application/x-own"}),
        ({}, {"contentType": "application/x-own"}),
        (TEXT, {"contentType": "image/png, image/jpeg"}),
        ({"type": "array", "items": {"type": "string", "format": "binary"}}, {}),
    ],
)
def test_argument_sent_as_bytes_is_declared_as_base64(
    peer: Any, one: Any, send_operation: Sent, schema: Any, encoding: Any
) -> None:
    body = form("multipart/form-data", {"file": encoding}, file=schema)
    (tool,) = peer(one(method="post", requestBody=body)).catalog.tools
    message = tool.parameters["file"]
    assert message.get("items", message)["contentEncoding"] == "base64"
    value = ["aGk="] if "items" in message else "aGk="
    ((name, _, data),) = parts(send_operation("3.1.0", {"file": value}, requestBody=body))
    assert (name, data) == ("file", b"hi")


@pytest.mark.requirement("CV-12", "CV-13")
@pytest.mark.parametrize(
    ("version", "media_type", "encoding", "expected"),
    [
        ("3.0.3", "multipart/form-data", {"style": "form"}, [("d", "application/json", json.dumps(VALUE))]),
        (
            "3.0.3",
            "multipart/form-data",
            {"style": "deepObject", "explode": True},
            [("d", "application/json", json.dumps(VALUE))],
        ),
        (
            "3.1.0",
            "multipart/form-data",
            {"style": "deepObject", "explode": True},
            [("d[a]", "", "x y"), ("d[b][0]", "", "1")],
        ),
        ("3.2.0", "multipart/form-data", {"style": "deepObject"}, [("d[a]", "", "x y"), ("d[b][0]", "", "1")]),
        (
            "3.1.0",
            "multipart/form-data",
            {"style": "deepObject", "contentType": "application/json"},
            [("d[a]", "", "x y"), ("d[b][0]", "", "1")],
        ),
        ("3.1.0", "multipart/mixed", {"style": "deepObject"}, [("d", "application/json", json.dumps(VALUE))]),
        ("3.1.0", "multipart/form-data", {}, [("d", "application/json", json.dumps(VALUE))]),
    ],
)
def test_style_in_a_multipart_body_follows_the_openapi_version(
    send_operation: Sent, version: str, media_type: str, encoding: Any, expected: Any
) -> None:
    request = send_operation(version, {"d": VALUE}, requestBody=form(media_type, {"d": encoding}, d=DATA))
    found = [
        (name, kind, json.dumps(json.loads(data)) if kind == "application/json" else data.decode())
        for name, kind, data in parts(request)
    ]
    assert found == expected


@pytest.mark.requirement("CV-12")
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_style_in_a_form_body_is_used_in_every_version(send_operation: Sent, version: str) -> None:
    body = form("application/x-www-form-urlencoded; charset=UTF-8", {"d": {"style": "deepObject"}}, d=DATA)
    request = send_operation(version, {"d": VALUE}, requestBody=body)
    assert request.body == b"d%5Ba%5D=x%20y&d%5Bb%5D%5B0%5D=1"
    assert get_header(request.headers, b"content-type") == "application/x-www-form-urlencoded; charset=UTF-8"


@pytest.mark.requirement("CV-13")
def test_part_headers_with_a_fixed_value_are_sent(send_operation: Sent) -> None:
    headers = {
        "X-Kind": {"schema": {"const": "picture"}},
        "Content-Type": {"schema": {"const": "no/no"}},
        "X-Free": {"schema": TEXT},
    }
    body = form("multipart/form-data", {"name": {"headers": headers}}, name=TEXT)
    assert b"X-Kind: picture\r\n" in (whole := send_operation("3.1.0", {"name": "n"}, requestBody=body).body)
    assert b"X-Free" not in whole
    assert b"no/no" not in whole


@pytest.mark.requirement("CV-28")
def test_the_encoding_of_a_whole_query_counts(send_operation: Sent) -> None:
    schema = {"type": "object", "properties": {"filter": DATA, "tags": {"type": "array", "items": TEXT}, "q": TEXT}}
    encoding = {"filter": {"style": "deepObject"}, "tags": {"style": "pipeDelimited", "explode": False}}
    content = {"application/x-www-form-urlencoded": {"schema": schema, "encoding": encoding}}
    parameters = [{"name": "all", "in": "querystring", "content": content}]
    arguments = {"all": {"filter": {"a": "x y"}, "tags": ["1", "2"], "q": "&"}}
    request = send_operation("3.2.0", arguments, parameters=parameters)
    assert request.url.partition("?")[2] == "filter%5Ba%5D=x%20y&tags=1%7C2&q=%26"


@pytest.mark.requirement("CV-02")
@pytest.mark.parametrize(("version", "path"), [("3.0.4", "a%3Ab"), ("3.1.2", "a%3Ab"), ("3.2.0", "a:b")])
def test_reserved_characters_in_a_path_are_kept_from_3_2_on(send_operation: Sent, version: str, path: str) -> None:
    parameters = [
        {"name": "id", "in": "path", "required": True, "allowReserved": True, "schema": TEXT},
        {"name": "q", "in": "query", "allowReserved": True, "schema": TEXT},
    ]
    request = send_operation(version, {"id": "a:b", "q": "a:b"}, path="/x/{id}", parameters=parameters)
    assert request.url == f"https://recipes.test/x/{path}?q=a:b"


@pytest.mark.requirement("CV-11", "CV-03")
@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("Application/JSON", "application/json"),
        ("application/json;charset=UTF-8", "application/json"),
        ('application/ld+json; profile="https://a.example/p"', 'application/ld+json; profile="https://a.example/p"'),
        ("application/vnd.api+json; ext=bulk; charset=utf-8", "application/vnd.api+json; ext=bulk"),
        ("application/json; broken", "application/json"),
    ],
)
def test_the_parameters_of_a_media_type_are_sent_as_declared(send_operation: Sent, declared: str, said: str) -> None:
    request = send_operation("3.1.0", {"a": "1"}, requestBody={"content": {declared: {"schema": DATA}}})
    assert get_header(request.headers, b"content-type") == said
    assert json.loads(request.body) == {"a": "1"}


@pytest.mark.requirement("CV-03")
def test_json_parameter_is_json_with_any_media_type_parameters(send_operation: Sent) -> None:
    content = {"Application/Problem+JSON; charset=utf-8": {"schema": DATA}}
    request = send_operation("3.1.0", {"d": {"a": "1"}}, parameters=[{"name": "d", "in": "query", "content": content}])
    assert request.url.endswith("?d=%7B%22a%22%3A%221%22%7D")


def test_invalid_file_argument_is_refused(peer: Any, one: Any) -> None:
    body = form("multipart/form-data", {}, file={"type": "string", "format": "binary"})
    found = peer(one(method="post", requestBody=body))
    with pytest.raises(StopIteration) as ended:
        next(CODEC.send(found, Call(found.catalog.tools[0], {"file": "no base64!"})))
    assert isinstance(ended.value.value, Problem)
