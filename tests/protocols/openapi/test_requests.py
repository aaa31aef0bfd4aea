"""A call as a request: no argument changes the route, starts a header, or goes elsewhere."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.http import Request, get_header
from toolwire.core.model import Kind, Problem
from toolwire.protocols.openapi.request.build_request import build_request
from toolwire.protocols.openapi.request.plan import Parameter, Place, Plan

BASE = "https://recipes.test/v1"


def plan(path: str = "/recipes/{id}/notes", style: str = "simple", **members: Any) -> Plan:
    parameters = (("id", Parameter("id", Place.PATH, style)),) if "{id}" in path else ()
    return Plan(**{"method": "GET", "base": BASE, "path": path, "parameters": parameters, **members})


def put(parameter: Parameter, value: object) -> Request | Problem:
    return build_request(plan("/x", parameters=(("value", parameter),)), {"value": value})


TRAVERSALS = [
    "", ".", "..", "%2e", "%2e%2e", "%252e%252e", "%25252e%25252e", "../x", "..%2fx", "x/..", "x/../y", "..\\x",
    "x\\..", "%2e%2e%2f", "..;/x", "..;a=1", "%2e%2e%5c", "./x", "x/./y", ".%2e", "%2e.", "..%00", "\x00", "a\r\nb",
    "a\nb", "%0d%0aX: y", "%250d%250a", "\x7f", " ..", ".. ", "..%20/x", "a/%2e%2e/b", "%5c..%5c", "x%2f..%2f..",
    "%2525252e%2525252e", "%" + "25" * 12 + "41", [".."], [], {}, None,
]  # fmt: skip


@pytest.mark.requirement("CV-05", "D-10")
@pytest.mark.parametrize("style", ["simple", "label", "matrix"])
@pytest.mark.parametrize("value", TRAVERSALS)
def test_path_value_stays_in_its_route_or_is_refused(value: object, style: str) -> None:
    request = build_request(plan(style=style), {"id": value})
    if isinstance(request, Problem):
        assert request.kind is Kind.INVALID_ARGUMENTS
        assert "id" in request.parameter_errors
    else:
        assert style != "simple", "a dot segment was sent"
        assert request.url.count("/") == f"{BASE}/recipes/x/notes".count("/")
        assert request.url.startswith(f"{BASE}/recipes/")
        assert request.url.endswith("/notes")


@pytest.mark.requirement("CV-05", "D-10")
@pytest.mark.parametrize("value", TRAVERSALS)
def test_a_simple_path_value_with_a_dot_segment_in_any_disguise_is_refused(value: object) -> None:
    assert isinstance(build_request(plan(), {"id": value}), Problem)


@pytest.mark.requirement("D-10")
@given(st.text(max_size=20), st.sampled_from(["simple", "label", "matrix"]))
def test_any_text_keeps_the_segments_of_the_path(text: str, style: str) -> None:
    request = build_request(plan(style=style), {"id": text})
    if isinstance(request, Request):
        before, _, rest = request.url.partition("/recipes/")
        assert before == BASE
        assert rest.count("/") == 1
        assert rest.endswith("/notes")
        assert not set("?#\\ \r\n") & set(rest)
        assert rest.isascii()


@pytest.mark.requirement("CV-05")
def test_slash_in_a_path_value_is_encoded_and_text_around_it_kept() -> None:
    request = build_request(plan("/files/{id}.json"), {"id": "a/b c"})
    assert isinstance(request, Request)
    assert request.url == f"{BASE}/files/a%2Fb%20c.json"


@pytest.mark.requirement("CV-05", "D-10")
def test_two_variables_together_cannot_make_a_dot_segment() -> None:
    names = (("a", Parameter("a", Place.PATH, "simple")), ("b", Parameter("b", Place.PATH, "simple")))
    assert isinstance(build_request(plan("/x/{a}{b}/y", parameters=names), {"a": ".", "b": "."}), Problem)
    assert isinstance(build_request(plan("/x/{a}{b}/y", parameters=names), {"a": ".", "b": "x"}), Request)


def test_a_path_argument_that_is_missing_is_named() -> None:
    problem = build_request(plan(), {})
    assert isinstance(problem, Problem)
    assert list(problem.parameter_errors) == ["id"]


@pytest.mark.requirement("D-11")
@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\x00b", "é", "a\x7f", " a", "a ", ["a", "b\r"], {"k\n": 1}])
def test_a_header_value_with_a_line_break_or_the_like_is_refused(value: object) -> None:
    problem = put(Parameter("x-note", Place.HEADER, "simple"), value)
    assert isinstance(problem, Problem)
    assert list(problem.parameter_errors) == ["value"]


@pytest.mark.requirement("O-38")
@pytest.mark.parametrize(
    ("value", "reason"),
    [("a ", "may not begin or end with a space or a tab"), ("\ta", "may not begin or end"), ("é ", "visible ASCII")],
)
def test_the_refusal_of_a_header_value_names_the_right_reason(value: str, reason: str) -> None:
    problem = put(Parameter("x-note", Place.HEADER, "simple"), value)
    assert isinstance(problem, Problem)
    assert reason in problem.message


@pytest.mark.requirement("D-11")
@pytest.mark.parametrize(
    "value", ["a; b=c", "a b", 'a"b', "a\r\nb", "a\\b", "é", "a;b", "a; b", ["a; b=c"], {"a;b": 1}, {"a; b": 1}]
)
def test_invalid_cookie_value_is_refused(value: object) -> None:
    problem = put(Parameter("session", Place.COOKIE, "cookie", explode=True), value)
    assert isinstance(problem, Problem)
    assert list(problem.parameter_errors) == ["value"]


@pytest.mark.requirement("D-11", "CV-03")
@pytest.mark.parametrize("value", ["a; b=c", "a b", 'a"b', "a\r\nb", "a\\b", "\xe9", "a;b"])
def test_cookie_with_content_and_an_invalid_value_is_refused(value: str) -> None:
    problem = put(Parameter("session", Place.COOKIE, "text", media_type="text/plain"), value)
    assert isinstance(problem, Problem)
    assert list(problem.parameter_errors) == ["value"]


@pytest.mark.requirement("D-11")
def test_object_key_in_a_reserved_query_cannot_become_another_parameter() -> None:
    request = put(Parameter("filter", Place.QUERY, "form", explode=True, reserved=True), {"_method=DELETE": "x"})
    assert isinstance(request, Request)
    assert request.url.endswith("?_method%3DDELETE=x")


def test_headers_and_cookies_are_sent() -> None:
    both = (("h", Parameter("X-Note", Place.HEADER, "simple")), ("c", Parameter("c", Place.COOKIE, "form")),
            ("d", Parameter("d", Place.COOKIE, "form")))  # fmt: skip
    request = build_request(plan("/x", parameters=both), {"h": 'say "hi", you', "c": "a;b", "d": 1})
    assert isinstance(request, Request)
    assert get_header(request.headers, b"x-note") == 'say "hi", you'
    assert get_header(request.headers, b"cookie") == "c=a%3Bb; d=1"


@pytest.mark.requirement("CV-06")
def test_a_fixed_query_comes_before_the_arguments() -> None:
    parameters = (("q", Parameter("q", Place.QUERY, "form")),)
    request = build_request(plan("/x", fixed_query="list", parameters=parameters), {"q": "a b"})
    assert isinstance(request, Request)
    assert request.url == f"{BASE}/x?list&q=a%20b"


@pytest.mark.requirement("CV-15")
def test_properties_and_whole_bodies_are_sent_as_json() -> None:
    taken_apart = plan("/x", method="POST", media_type="application/json", properties=(("b_body", "b"), ("c", "c")))
    request = build_request(taken_apart, {"b_body": None, "unknown": 1})
    assert isinstance(request, Request)
    assert request.body == b'{"b":null}'
    assert get_header(request.headers, b"content-type") == "application/json"
    whole = build_request(
        plan("/x", method="PUT", media_type="application/merge-patch+json", whole_body="body"), {"body": [1]}
    )
    assert isinstance(whole, Request)
    assert (whole.body, get_header(whole.headers, b"content-type")) == (b"[1]", "application/merge-patch+json")


@pytest.mark.parametrize(("required", "body"), [(True, b"{}"), (False, b"")])
def test_an_optional_body_without_arguments_is_not_sent(required: bool, body: bytes) -> None:
    request = build_request(plan("/x", method="POST", media_type="application/json", body_required=required), {})
    assert isinstance(request, Request)
    assert request.body == body


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
def test_arguments_without_json_equivalent_are_refused(value: object) -> None:
    for style in ("form", "content"):
        result = put(Parameter("q", Place.QUERY, style), value)
        assert isinstance(result, Problem) or "null" in result.url


RESERVED = [
    "Accept", "Content-Type", "Authorization", "Host", "Cookie", "Set-Cookie", "Content-Length", "Transfer-Encoding",
    "Connection", "Upgrade", "TE", "Trailer", "Expect", "Origin", "Referer", "Via", "Forwarded", "Proxy-Authorization",
    "Proxy-Connection", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Mcp-Session-Id",
    "Mcp-Protocol-Version", "Sec-Fetch-Site", "HOST", "x-FORWARDED-for", "aCCEPT-eNCODING",
]  # fmt: skip


@pytest.mark.requirement("D-12", "CV-04")
def test_document_cannot_offer_reserved_headers_as_arguments(peer: Any, one: Any) -> None:
    declared = [{"name": name, "in": "header", "required": True, "schema": {"type": "string"}} for name in RESERVED]
    fine = {"name": "X-Request-Source", "in": "header", "schema": {"type": "string"}}
    (tool,) = peer(one(parameters=[*declared, fine])).catalog.tools
    assert list(tool.parameters) == ["X-Request-Source"]
    assert tool.required_parameters == ()
