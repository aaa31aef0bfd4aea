"""Bodies: JSON, forms, multipart, text and files, each read back by somebody else's parser where there is one."""

from __future__ import annotations

import base64
import json
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.http import Request, get_header
from toolwire.core.model import Kind, Problem
from toolwire.core.resources import Resource, Resources
from toolwire.protocols.openapi.request.build_request import build_request
from toolwire.protocols.openapi.request.plan import Encoding, Parameter, Place, Plan

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CAT = b"\x89PNG\r\n--toolwire\r\n"


def plan(media_type: str, *names: str, encodings: dict[str, Encoding] | None = None, **members: Any) -> Plan:
    """Return the plan of a POST whose body has the properties ``names``, each an argument of its own name."""
    whole = {"media_type": media_type, "encodings": encodings or {}, "properties": tuple((one, one) for one in names)}
    return Plan(**{"method": "POST", "base": "https://a.test", "path": "/x", **whole, **members})


def build_sent_request(wanted: Plan, resources: Resources | None = None, **arguments: Any) -> Request:
    request = build_request(wanted, arguments, resources=resources)
    assert isinstance(request, Request), request
    return request


def parts(request: Request) -> list[Any]:
    """Return the parts of a multipart request as the standard library's mail parser reads them."""
    kind = get_header(request.headers, b"content-type")
    message = message_from_bytes(f"content-type: {kind}\r\n\r\n".encode() + request.body, policy=HTTP)
    return list(message.iter_parts())


def errors(wanted: Plan, resources: Resources | None = None, **arguments: Any) -> dict[str, str]:
    problem = build_request(wanted, arguments, resources=resources)
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.INVALID_ARGUMENTS
    return dict(problem.parameter_errors)


@pytest.mark.requirement("CV-11", "CV-33")
@pytest.mark.parametrize("media_type", ["application/json", "application/vnd.api+json"])
def test_json_body_is_exact_and_names_its_media_type(media_type: str) -> None:
    request = build_sent_request(plan(media_type, "id", "price"), id=2**63 + 7, price=0.1)
    assert request.body == b'{"id":9223372036854775815,"price":0.1}'
    assert get_header(request.headers, b"content-type") == media_type


@pytest.mark.requirement("CV-32")
def test_json_body_contains_only_given_arguments() -> None:
    assert build_sent_request(plan("application/json", "a", "b"), b=None).body == b'{"b":null}'
    nothing = build_sent_request(plan("application/json", "a", "b"))
    assert (nothing.body, get_header(nothing.headers, b"content-type")) == (b"", "")
    assert build_sent_request(plan("application/json", "a", body_required=True)).body == b"{}"
    assert build_sent_request(plan(FORM, "a", "b"), a=1, b=None).body == b"a=1"


@pytest.mark.requirement("CV-15")
@pytest.mark.parametrize("value", [[1, "a"], "text", 7, None, {"a": {"b": []}}])
def test_body_that_is_one_argument_is_sent_unchanged(value: object) -> None:
    wanted = plan("application/json", whole_body="body")
    assert json.loads(build_sent_request(wanted, body=value).body) == value
    assert build_sent_request(wanted).body == b""


@pytest.mark.requirement("CV-12")
def test_a_form_repeats_arrays_and_writes_objects_as_json() -> None:
    request = build_sent_request(
        plan(FORM, "name", "tags", "address", "yes"), name="a b&c=ü", tags=["x,y", "z"], address={"zip": 1}, yes=True
    )
    assert request.body == b"name=a%20b%26c%3D%C3%BC&tags=x%2Cy&tags=z&address=%7B%22zip%22%3A1%7D&yes=true"
    assert get_header(request.headers, b"content-type") == FORM
    assert parse_qsl(request.body.decode())[:2] == [("name", "a b&c=ü"), ("tags", "x,y")]


DEEP = Encoding(style="deepObject", explode=True)


@pytest.mark.requirement("CV-12")
@pytest.mark.parametrize(
    ("encoding", "value", "fields"),
    [
        (DEEP, {"city": "A", "lines": ["x", "y"]}, [("v[city]", "A"), ("v[lines][0]", "x"), ("v[lines][1]", "y")]),
        (DEEP, [{"price": "p_1", "quantity": 2}], [("v[0][price]", "p_1"), ("v[0][quantity]", "2")]),
        (DEEP, "all", [("v", "all")]),
        (Encoding(style="form", explode=False), ["a", "b"], [("v", "a,b")]),
        (Encoding(style="form", explode=True), {"a": 1, "b": 2}, [("a", "1"), ("b", "2")]),
        (Encoding(style="pipeDelimited", explode=False), ["a", "b"], [("v", "a|b")]),
        (Encoding(style="form", explode=False, reserved=True), "a/b:c", [("v", "a/b:c")]),
        (Encoding(media_type="application/json"), {"a": [1]}, [("v", '{"a":[1]}')]),
        (Encoding(media_type="application/json"), "text", [("v", '"text"')]),
        (DEEP, None, []),
    ],
)
def test_encoding_object_defines_how_a_form_field_is_written(
    encoding: Encoding, value: object, fields: list[tuple[str, str]]
) -> None:
    body = build_sent_request(plan(FORM, "v", encodings={"v": encoding}), v=value).body.decode()
    assert parse_qsl(body, keep_blank_values=True) == fields


@pytest.mark.requirement("CV-12")
@given(st.dictionaries(TEXT.filter(bool), st.lists(TEXT)))
def test_any_form_of_texts_comes_back_from_another_parser(data: dict[str, list[str]]) -> None:
    request = build_request(plan(FORM, *data), data)
    assert isinstance(request, Request)
    wanted = [(name, text) for name, texts in data.items() for text in texts]
    assert parse_qsl(request.body.decode(), keep_blank_values=True) == wanted


@pytest.mark.requirement("CV-13")
def test_a_multipart_has_a_part_for_each_property_and_each_item() -> None:
    encodings = {
        "meta": Encoding(media_type="application/vnd.meta+json"),
        "photos": Encoding(binary=True, media_type="image/png"),
        "note": Encoding(media_type="text/markdown", headers=(("X-Kind", "short"), ("Content-Length", "1"))),
    }
    photo = base64.b64encode(CAT).decode()
    wanted = plan(MULTIPART, "name", "tags", "address", "meta", "photos", "note", "gone", encodings=encodings)
    request = build_sent_request(
        wanted, name="Ä", tags=[1, True], address={"zip": 1}, meta=[1], photos=[photo, photo], note="# x", gone=None
    )
    read = [
        (
            one["content-disposition"].params["name"],
            one.get_filename(),
            one["content-type"],
            one.get_payload(decode=True),
        )
        for one in parts(request)
    ]
    assert read == [
        ("name", None, None, "Ä".encode()),
        ("tags", None, None, b"1"),
        ("tags", None, None, b"true"),
        ("address", None, "application/json", b'{"zip":1}'),
        ("meta", None, "application/vnd.meta+json", b"1"),
        ("photos", "photos", "image/png", CAT),
        ("photos", "photos", "image/png", CAT),
        ("note", None, "text/markdown", b"# x"),
    ]
    note = parts(request)[-1]
    assert (note["x-kind"], note["content-length"]) == ("short", None)


@pytest.mark.requirement("CV-13", "D-11")
@given(name=TEXT.filter(bool), value=TEXT)
def test_no_name_or_value_can_end_its_multipart_part(name: str, value: str) -> None:
    wanted = plan(MULTIPART, properties=(("a", name), ("b", "last")))
    request = build_request(wanted, {"a": value, "b": f"\r\n--toolwire\r\ncontent-type: x\r\n\r\n{value}"})
    if isinstance(request, Request):
        boundary = get_header(request.headers, b"content-type").partition("boundary=")[2].encode()
        pieces = request.body.split(b"--" + boundary)
        assert len(pieces) == 4
        heads = [piece.partition(b"\r\n\r\n")[0] for piece in pieces[1:-1]]
        assert [head.count(b"\r\n") for head in heads] == [1, 1]
        assert all(b"\n" not in head.replace(b"\r\n", b"") for head in heads)


@pytest.mark.requirement("CV-13")
def test_file_by_handle_keeps_its_media_type_and_gets_a_safe_name() -> None:
    stored = Resources(b"salt")
    wanted = plan(MULTIPART, "file", encodings={"file": Encoding(binary=True)})
    for name, shown in [
        ("cat.png", "cat.png"), ("../../etc/passwd", "passwd"), ("C:\\x\\évil \"n\r\n.exe", "évil _n_.exe"),
        ("..", "file.webp"), ("", "file.webp"), ("a" * 300 + ".png", "a" * 96 + ".png"),
    ]:  # fmt: skip
        handle = stored.store(Resource(data=CAT, media_type="image/webp", name=name))
        (part,) = parts(build_sent_request(wanted, stored, file=handle))
        assert (part.get_filename(), part["content-type"], part.get_payload(decode=True)) == (shown, "image/webp", CAT)


NO_FILES: list[object] = [
    "/etc/passwd",
    "file:///etc/passwd",
    "../../secret",
    "C:\\boot.ini",
    "~/.ssh/id_rsa",
    "https://a.test/x",
    "resource:",
    "resource:" + "0" * 32,
    "data:text/plain,x",
    "a===",
    "é",
    7,
    None,
    ["x"],
    {"path": "/etc/passwd"},
]


@pytest.mark.requirement("D-35", "CV-13", "CV-14")
@pytest.mark.parametrize("value", NO_FILES)
def test_model_cannot_send_a_local_file_by_its_path(value: object) -> None:
    whole = plan("application/octet-stream", whole_body="body", binary=True)
    part = plan(MULTIPART, "file", encodings={"file": Encoding(binary=True)})
    assert list(errors(whole, Resources(b"salt"), body=value)) == ["body"]
    if value is None or value == ["x"]:
        return  # what is null is left out, and an array is one file for each item
    assert list(errors(part, Resources(b"salt"), file=value)) == ["file"]
    assert list(errors(part, None, file=value)) == ["file"]


@pytest.mark.requirement("CV-14")
@pytest.mark.parametrize(
    "text", [base64.b64encode(CAT).decode(), "data:image/png;base64," + base64.b64encode(CAT).decode()]
)
def test_a_binary_body_is_base64_text_or_a_handle(text: str) -> None:
    stored = Resources(b"salt")
    wanted = plan("image/png", whole_body="body", binary=True)
    for value in (text, stored.store(Resource(data=CAT, media_type="image/png"))):
        request = build_sent_request(wanted, stored, body=value)
        assert (request.body, get_header(request.headers, b"content-type")) == (CAT, "image/png")


def test_binary_body_keeps_its_declared_media_type() -> None:
    wanted = plan("image/*", whole_body="body", binary=True)
    stored = Resources(b"salt")
    request = build_sent_request(wanted, stored, body=stored.store(Resource(data=CAT, media_type="image/webp")))
    assert get_header(request.headers, b"content-type") == "image/webp"


@pytest.mark.requirement("CV-14")
@pytest.mark.parametrize(
    ("media_type", "value", "body"),
    [
        ("text/plain", "a\nü", "a\nü".encode()),
        ("application/xml", "<a>1</a>", b"<a>1</a>"),
        ("application/soap+xml", "<a/>", b"<a/>"),
        ("text/csv; charset=utf-8", 7, b"7"),
        ("application/graphql", "{ me }", b"{ me }"),
    ],
)
def test_text_and_xml_bodies_are_sent_unchanged(media_type: str, value: object, body: bytes) -> None:
    request = build_sent_request(plan(media_type, whole_body="body"), body=value)
    assert (request.body, get_header(request.headers, b"content-type")) == (body, media_type)


@pytest.mark.parametrize("media_type", [FORM, MULTIPART])
def test_a_form_that_is_one_argument_must_be_an_object(media_type: str) -> None:
    assert list(errors(plan(media_type, whole_body="body"), body=[1])) == ["body"]
    assert build_sent_request(plan(media_type, whole_body="body"), body={"a": 1}).body


@pytest.mark.requirement("CV-11", "CV-28")
@pytest.mark.parametrize("method", ["GET", "DELETE", "QUERY"])
def test_a_body_is_sent_with_any_method_whose_plan_has_one(method: str) -> None:
    request = build_sent_request(plan("application/json", "a", method=method), a=1)
    assert (request.method, request.body) == (method, b'{"a":1}')


@pytest.mark.requirement("XL-077")
def test_idempotency_key_is_the_call_id_unless_an_argument_sets_it() -> None:
    wanted = plan("application/json", "a", idempotency="Idempotency-Key")
    request = build_request(wanted, {"a": 1}, call_id="c-1")
    assert isinstance(request, Request)
    assert get_header(request.headers, b"idempotency-key") == "c-1"
    own = Parameter("Idempotency-Key", Place.HEADER, "simple")
    request = build_request(
        plan("application/json", idempotency="Idempotency-Key", parameters=(("key", own),)),
        {"key": "mine"},
        call_id="c-1",
    )
    assert isinstance(request, Request)
    assert [value for name, value in request.headers if name == b"idempotency-key"] == [b"mine"]
    request = build_request(wanted, {"a": 1}, call_id="c\r\nx: 1")
    assert isinstance(request, Request)
    assert get_header(request.headers, b"idempotency-key") == ""
