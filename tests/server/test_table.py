"""Every path in one table, and what is said where there is none."""

import json

import pytest

from tests.support.conformance import build_kit
from toolwire.core.codec import Codec, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem
from toolwire.protocols import BUILTIN
from toolwire.server.route_table import RouteEntry, RouteTable, build_plain_refusal

TABLE = RouteTable(build_kit().catalog(), BUILTIN, Site())


def answer(method: str, path: str) -> Response:
    entry = TABLE.find_entry(method, path)
    assert isinstance(entry, RouteEntry)
    response = entry.read(Request(method, path))
    assert isinstance(response, Response)
    return response


def test_protocols_have_no_path_in_common() -> None:
    catalog = build_kit().catalog()
    wanted = [route for codec in BUILTIN for route in codec.routes(catalog, Site())]
    assert len(wanted) == len(set(wanted))


def test_unknown_path_is_refused_in_the_format_of_its_protocol() -> None:
    nothing = Problem(kind=Kind.NOT_FOUND, message="Nothing is served at this path. GET / lists the available paths.")
    by_name = {codec.name: codec for codec in BUILTIN}
    assert answer("GET", "/opentool/nope") == by_name["opentool"].refuse(nothing)
    assert answer("POST", "/tools/nope") == by_name["otc"].refuse(nothing)
    assert answer("GET", "/mcp/nope") == by_name["mcp"].refuse(nothing)
    assert answer("GET", "/nope") == build_plain_refusal(nothing)
    assert answer("GET", "nope") == build_plain_refusal(nothing)


def test_wrong_method_is_405_with_the_allowed_ones(codec: Codec) -> None:
    for method, path in codec.routes(build_kit().catalog(), Site()):
        response = answer("PATCH", path)
        assert response.status == 405
        allowed = dict(response.headers)[b"allow"].decode().split(", ")
        assert (method in allowed) is (method != "QUERY"), "Allow lists what the document lists"
        assert json.loads(response.body)


def test_get_allows_head_and_post_does_not() -> None:
    assert dict(answer("POST", "/health").headers)[b"allow"] == b"GET, HEAD"
    assert dict(answer("HEAD", "/mcp").headers)[b"allow"] == b"POST"
    assert TABLE.find_entry("HEAD", "/health") is TABLE.find_entry("GET", "/health")


@pytest.mark.parametrize("kind", Kind)
def test_every_protocol_can_refuse_every_kind_of_problem(codec: Codec, kind: Kind) -> None:
    problem = Problem(kind=kind, message="No.", developer_message="inside", retry_after_ms=1_500)
    response = codec.refuse(problem)
    assert response.status >= 400 or kind.value in (
        "accepted",
        "tool_failed",
        "timeout",
        "cancelled",
        "interrupted",
        "unreachable",
        "bad_answer",
        "internal",
    )
    assert "No." in json.dumps(json.loads(response.body))
    assert b"inside" not in response.body
    if kind is Kind.OVERLOADED:
        assert (response.status, dict(response.headers)[b"retry-after"]) == (503, b"2")
    if kind is Kind.UNAUTHORIZED:
        assert (response.status, dict(response.headers)[b"www-authenticate"]) == (401, b"Bearer")
