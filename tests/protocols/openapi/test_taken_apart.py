"""Bodies and parameters where a document says something rare of them: what a model is given, and what is then sent."""

from __future__ import annotations

import base64
from collections.abc import Callable
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

import pytest

from toolwire.core.codec import Peer
from toolwire.core.http import Request, get_header
from toolwire.core.model import Kind, Problem, Tool
from toolwire.protocols.openapi.request import path_template
from toolwire.protocols.openapi.request.build_request import build_request
from toolwire.protocols.openapi.request.plan import Plan
from toolwire.protocols.openapi.tools import operations

Read = Callable[..., Peer]
One = Callable[..., dict[str, Any]]

MULTIPART = "multipart/form-data"
FILE = base64.b64encode(b"\x89PNG").decode()


def tool(peer: Peer) -> Tool:
    (only,) = peer.catalog.tools
    return only


def build_operation_body(media_type: str, media: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: media}, **more}}


def build_sent_request(peer: Peer, **arguments: Any) -> Request:
    plan = peer.memo.plans[tool(peer).id]
    request = build_request(plan, arguments)
    assert isinstance(request, Request), request
    return request


def parts(request: Request) -> list[Any]:
    kind = get_header(request.headers, b"content-type")
    message = message_from_bytes(f"content-type: {kind}\r\n\r\n".encode() + request.body, policy=HTTP)
    return list(message.iter_parts())


@pytest.mark.requirement("CV-15", "CV-28")
def test_body_declared_by_item_schema_is_a_list(peer: Read, one: One) -> None:
    media = {"itemSchema": {"type": "integer"}}
    found = peer(one("/x", "post", **build_operation_body("application/json", media)))
    assert tool(found).parameters["body"] == {"type": "array", "items": {"type": "integer"}}
    assert build_sent_request(found, body=[1, 2]).body == b"[1,2]"


@pytest.mark.requirement("CV-12", "CV-13")
@pytest.mark.parametrize("media_type", [MULTIPART, "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("media", [{}, {"schema": {}}, {"schema": {"description": "Files to upload."}}])
def test_form_without_a_schema_is_an_object_of_fields(
    peer: Read, one: One, media: dict[str, Any], media_type: str
) -> None:
    # As rclone-openapi describes /operations/uploadfile.
    found = peer(one("/x", "post", **build_operation_body(media_type, media)))
    assert tool(found).parameters["body"] == {**media.get("schema", {}), "type": "object"}
    request = build_sent_request(found, body={"name": "a"})
    if media_type == MULTIPART:
        assert [part.get_param("name", header="content-disposition") for part in parts(request)] == ["name"]
    else:
        assert request.body == b"name=a"


@pytest.mark.requirement("CV-15")
def test_object_with_too_many_properties_is_one_argument(peer: Read, one: One) -> None:
    def arguments(count: int) -> list[str]:
        schema = {"type": "object", "properties": {f"p{number}": {} for number in range(count)}}
        return list(
            tool(peer(one("/x", "post", **build_operation_body("application/json", {"schema": schema})))).parameters
        )

    assert len(arguments(256)) == 256
    assert arguments(257) == ["body"]


@pytest.mark.requirement("CV-13")
def test_several_files_of_one_property_are_separate_parts(peer: Read, one: One) -> None:
    schema = {"properties": {"photos": {"type": "array", "maxItems": 3, "items": {"format": "binary"}}}}
    found = peer(one("/x", "post", **build_operation_body(MULTIPART, {"schema": schema})))
    photos = tool(found).parameters["photos"]
    assert (photos["maxItems"], photos["items"]["contentEncoding"]) == (3, "base64")
    assert [part.get_payload(decode=True) for part in parts(build_sent_request(found, photos=[FILE, FILE]))] == [
        b"\x89PNG"
    ] * 2


@pytest.mark.requirement("CV-12", "CV-13")
def test_part_gets_only_headers_with_a_fixed_value(peer: Read, one: One) -> None:
    headers = {
        "X-Kind": {"schema": {"const": "photo"}},
        "X-Only": {"schema": {"enum": ["one"]}},
        "X-Usual": {"$ref": "#/components/headers/Usual"},
        "X-Free": {"schema": {"enum": ["a", "b"]}},
        "Content-Type": {"schema": {"const": "text/evil"}},
    }
    media = {"schema": {"properties": {"a": {"type": "string"}}}, "encoding": {"a": {"headers": headers}}}
    whole = one("/x", "post", **build_operation_body(MULTIPART, media))
    whole["components"] = {"headers": {"Usual": {"schema": {"type": "string", "default": "often"}}}}
    (part,) = parts(build_sent_request(peer(whole), a="text"))
    assert {name: value for name, value in part.items() if name != "content-disposition"} == {
        "X-Kind": "photo", "X-Only": "one", "X-Usual": "often",
    }  # fmt: skip


@pytest.mark.requirement("CV-12", "CV-13")
def test_part_with_a_style_is_written_in_that_style(peer: Read, one: One) -> None:
    media = {
        "schema": {"properties": {"tags": {"type": "array"}, "at": {"type": "object"}}},
        "encoding": {"tags": {"style": "form", "explode": False}, "at": {"style": "deepObject", "explode": True}},
    }
    request = build_sent_request(
        peer(one("/x", "post", **build_operation_body(MULTIPART, media))), tags=["a b", "ü"], at={"x": 1}
    )
    written = [(part.get_param("name", header="content-disposition"), part.get_payload()) for part in parts(request)]
    assert [name for name, _ in written] == ["tags", "at[x]"]
    assert [part.get_payload(decode=True) for part in parts(request)] == ["a b,ü".encode(), b"1"]


@pytest.mark.requirement("CV-13")
def test_form_with_too_many_parts_is_refused_by_its_argument() -> None:
    plan = Plan(method="POST", base="https://a.test", path="/x", media_type=MULTIPART, properties=(("all", "all"),))
    problem = build_request(plan, {"all": [1] * 10_001})
    assert isinstance(problem, Problem)
    assert (problem.kind, dict(problem.parameter_errors)) == (
        Kind.INVALID_ARGUMENTS, {"all": "has more than 10,000 items"},
    )  # fmt: skip


@pytest.mark.requirement("CV-11")
def test_data_for_other_media_types_is_written_as_json() -> None:
    plan = Plan(method="POST", base="https://a.test", path="/x", media_type="application/yaml", whole_body="body")
    for data, body in (({"a": [1]}, b'{"a":[1]}'), ("a: [1]", b"a: [1]")):
        request = build_request(plan, {"body": data})
        assert isinstance(request, Request)
        assert (request.body, get_header(request.headers, b"content-type")) == (body, "application/yaml")


@pytest.mark.requirement("CV-12")
def test_null_inside_a_deep_object_is_omitted(peer: Read, one: One) -> None:
    media = {"schema": {"properties": {"at": {"type": "object"}}}, "encoding": {"at": {"style": "deepObject"}}}
    found = peer(one("/x", "post", **build_operation_body("application/x-www-form-urlencoded", media)))
    assert build_sent_request(found, at={"x": 1, "y": {"z": None, "w": 2}, "v": [None, 3]}).body == (
        b"at%5Bx%5D=1&at%5By%5D%5Bw%5D=2&at%5Bv%5D%5B1%5D=3"
    )


@pytest.mark.requirement("CV-05", "D-10")
def test_a_bare_slash_never_becomes_part_of_a_path() -> None:
    errors: dict[str, str] = {}
    path_template.write_path("/a/{id}/b", {"id": ("which", "x/../y")}, errors)
    assert list(errors) == ["which"]


@pytest.mark.requirement("CV-30")
def test_trace_is_sent_without_its_declared_body(peer: Read, one: One) -> None:
    found = peer(one("/x", "trace", **build_operation_body("application/json", {"schema": {"properties": {"a": {}}}})))
    assert dict(tool(found).parameters) == {}
    assert "a TRACE takes no body" in "\n".join(found.memo.findings)


@pytest.mark.requirement("CV-28", "CV-30")
def test_whole_query_beside_query_parameters_drops_only_its_tool(peer: Read, one: One) -> None:
    form = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    both = [{"name": "q", "in": "query"}, {"name": "whole", "in": "querystring", "content": form}]
    found = peer(one(parameters=both))
    assert found.catalog.tools == ()
    assert "it declares both query parameters and one for the whole query" in "\n".join(found.memo.findings)
    assert len(peer(one(parameters=both[1:])).catalog.tools) == 1


@pytest.mark.requirement("CV-06", "CV-30")
def test_operations_with_a_shared_parameter_share_its_fault(peer: Read) -> None:
    shared = {"good": {"name": "q", "in": "query", "schema": {"type": "integer"}}, "bad": {"name": "q", "in": "moon"}}
    listed = {
        f"/{which}{number}": {"get": {"x-llm": {}, "parameters": [{"$ref": f"#/components/parameters/{which}"}]}}
        for which in shared
        for number in (1, 2)
    }
    whole = {"openapi": "3.1.0", "info": {"title": "T"}, "paths": listed, "components": {"parameters": shared}}
    found = peer(whole)
    assert [dict(one.parameters) for one in found.catalog.tools] == [{"q": {"type": "integer"}}] * 2
    assert sum("'moon', which is not supported" in text for text in found.memo.findings) == 2


@pytest.mark.requirement("CV-25")
def test_document_has_one_plan_for_each_tool(peer: Read, recipes: dict[str, Any]) -> None:
    found = peer(recipes)
    assert isinstance(found.memo, operations.OperationState)
    assert len(found.memo.plans) == len(found.catalog.tools) == 3
    assert set(found.memo.plans) == {one.id for one in found.catalog.tools}


@pytest.mark.requirement("CV-24")
def test_invalid_response_status_declares_nothing(peer: Read, one: One) -> None:
    found = peer(one(responses={"teapot": {"description": "?"}, "200": {"description": "Done"}}))
    assert found.memo.plans[tool(found).id].responses == {"200": {}}
