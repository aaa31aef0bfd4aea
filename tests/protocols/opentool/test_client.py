"""The client half: find a server, call it once, and believe nothing it says without looking."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Finding, Listen, Peer
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Call, Kind, Problem, Tool, Value
from toolwire.protocols.opentool import CODEC
from toolwire.protocols.opentool.client import endpoint

Drive = Callable[..., Any]
URL = "http://shop.test"
UNREACHED = Problem(kind=Kind.UNREACHABLE, message="Nobody answers at shop.test.")
FUNCTION = {"name": "f", "description": "d", "parameters": [], "return": {"name": "n", "schema": {"type": "integer"}}}
DOCUMENT = {"opentool": "1.1.0", "info": {"title": "Shop", "version": "2.0.0"}, "functions": [FUNCTION]}
PEER = Peer(protocol="opentool", url=f"{URL}/opentool", catalog=Catalog())
SUM = Tool(name="sum", output_schema={"type": "integer"})


def answer(body: Any = None, status: int = 200, headers: Any = ()) -> Response:
    return Response(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


def find(drive: Drive, version: Any, load: Any = UNREACHED, url: str = URL) -> Finding:
    def server(request: Request) -> Any:
        assert (request.method, request.body) == ("GET", b"")
        return version if request.url.endswith("/version") else load

    found = drive(CODEC.find(url), server)
    assert isinstance(found, Finding)
    return found


def send(drive: Drive, response: Any, tool: Tool = SUM) -> Any:
    asked: list[Request] = []

    def server(request: Request) -> Any:
        asked.append(request)
        return response

    outcome = drive(CODEC.send(PEER, Call(tool, {"a": 1}, "c1")), server)
    assert len(asked) == 1
    return outcome


@pytest.mark.requirement("C-8", "A-08")
@pytest.mark.parametrize(
    "url",
    ["{}", "{}/", "{}/opentool", "{}/opentool/", "{}/opentool/version", "{}/opentool/load", " {}/opentool?a=1#b "],
)
@pytest.mark.parametrize(
    "base", ["http://shop.test", "https://shop.test:9627/tools", "http://opentool", "http://[::1]"]
)
def test_pasted_url_is_accepted_in_each_form(url: str, base: str) -> None:
    assert endpoint(url.format(base)) == f"{base}/opentool"


@pytest.mark.requirement("C-8", "OTRPC-015", "OTRPC-017")
def test_a_server_is_found_with_its_catalog(drive: Drive) -> None:
    found = find(drive, answer({"version": "0.1"}), answer(DOCUMENT))
    assert found.peer is not None
    assert (found.peer.url, found.peer.site) == (f"{URL}/opentool", "Shop")
    assert [tool.id for tool in found.peer.catalog.tools] == ["Shop.f@2.0.0"]
    assert [(probe.url, probe.status, probe.accepted) for probe in found.probes] == [
        (f"{URL}/opentool/version", 200, True),
        (f"{URL}/opentool/load", 200, True),
    ]
    assert found.probes[1].meaning == "1 function"


@pytest.mark.requirement("C-5", "A-21", "OTRPC-014", "OTRPC-017")
@pytest.mark.parametrize(
    "load",
    [
        answer({}),
        answer(b""),
        answer(b" \n"),
        answer(None),
        answer({"code": 404, "message": "Json Parser NOT implement"}),
        answer(b"<html>", 404),
        answer(b"", 501),
    ],
)
def test_a_server_without_a_description_has_an_empty_catalog(drive: Drive, load: Response) -> None:
    found = find(drive, answer({"version": "N/A"}), load)
    assert found.peer is not None
    assert (found.peer.catalog.tools, found.peer.site) == ((), "")
    assert found.probes[1].meaning == "no description"


@pytest.mark.requirement("C-5", "OTRPC-016")
def test_a_function_without_a_description_can_be_called_by_name(drive: Drive) -> None:
    peer = find(drive, answer({"version": "1"}), answer({})).peer
    assert peer is not None
    outcome = drive(CODEC.send(peer, Call(Tool(name="f"), {})), lambda request: answer({"result": {"a": 1, "b": 2}}))
    assert outcome == Value({"a": 1, "b": 2})


@pytest.mark.requirement("C-8", "A-25")
@pytest.mark.parametrize("status", [401, 403])
def test_server_that_needs_a_key_is_reported(drive: Drive, status: int) -> None:
    closed = answer(b"", status)
    found = find(drive, closed)
    assert found.peer is None
    assert [probe.meaning for probe in found.probes] == ["needs a key"]
    found = find(drive, answer({"version": "1"}), closed)
    assert found.peer is None
    assert [probe.meaning for probe in found.probes][1:] == ["needs a key"]


@pytest.mark.parametrize(
    "version",
    [
        UNREACHED,
        answer({"version": "1"}, 404),
        answer({"version": "1"}, 500),
        answer({"version": "1"}, 307),
        answer({"version": 1}),
        answer({"versionNumber": None}),
        answer({}),
        answer([]),
        answer(b""),
        answer(b"<html>"),
        answer(b"\xff"),
    ],
)
def test_server_with_another_version_response_is_no_opentool_server(drive: Drive, version: Any) -> None:
    found = find(drive, version)
    assert found.peer is None
    assert len(found.probes) == 1
    assert found.probes[0].meaning
    assert not found.probes[0].accepted
    assert found.probes[0].status == (None if version is UNREACHED else version.status)


@pytest.mark.parametrize("load", [UNREACHED, answer(b"", 500), answer(b"<html>"), answer([]), answer({"tools": []})])
def test_server_with_an_unreadable_description_is_no_peer(drive: Drive, load: Any) -> None:
    found = find(drive, answer({"version": "1"}), load)
    assert found.peer is None
    assert not found.probes[1].accepted
    assert found.probes[1].meaning


def test_skipped_functions_are_reported_in_the_probe(drive: Drive) -> None:
    found = find(drive, answer({"version": "1"}), answer(DOCUMENT | {"functions": [1, 2, 3, 4, FUNCTION, FUNCTION]}))
    assert found.probes[1].meaning.startswith("1 function; function 1 is left out")
    assert found.probes[1].meaning.endswith("2 more notes")
    assert (
        "2 functions"
        in find(drive, answer({"version": "1"}), answer(DOCUMENT | {"functions": [FUNCTION, FUNCTION | {"name": "g"}]}))
        .probes[1]
        .meaning
    )


@pytest.mark.requirement("C-1", "OTRPC-004", "OTRPC-008")
def test_a_call_is_one_json_rpc_request_with_a_string_as_id(drive: Drive) -> None:
    sent: list[Request] = []
    for call_id in ("c1", ""):
        drive(CODEC.send(PEER, Call(SUM, {"text": "hé"}, call_id)), lambda request: sent.append(request) or UNREACHED)
    assert (sent[0].method, sent[0].url) == ("POST", f"{URL}/opentool/call")
    assert get_header(sent[0].headers, b"content-type") == "application/json"
    assert json.loads(sent[0].body) == {"jsonrpc": "2.0", "method": "sum", "params": {"text": "hé"}, "id": "c1"}
    assert json.loads(sent[1].body)["id"] == "1"


def test_the_target_is_shown_before_a_call() -> None:
    assert CODEC.target(PEER, Call(SUM, {})) == "POST http://shop.test/opentool/call"


@pytest.mark.requirement("OT-011")
def test_function_is_called_by_its_original_name(drive: Drive) -> None:
    named = DOCUMENT | {"functions": [FUNCTION | {"name": "files.read"}]}
    peer = find(drive, answer({"version": "1"}), answer(named)).peer
    assert peer is not None
    sent: list[Request] = []
    tool = peer.catalog.names["files_read"]
    drive(CODEC.send(peer, Call(tool, {})), lambda request: sent.append(request) or UNREACHED)
    assert json.loads(sent[0].body)["method"] == "files.read"


@pytest.mark.requirement("OTRPC-009", "C-3", "A-20")
def test_a_result_is_the_value(drive: Drive) -> None:
    assert send(drive, answer({"jsonrpc": "2.0", "result": {"Count": 3}, "error": None, "id": "c1"})) == Value(3)
    assert send(drive, answer({"jsonrpc": "2.0.0", "result": {"id": 1}, "id": ""})) == Value(1)
    assert send(drive, answer({"result": 3})) == Value(3)


@pytest.mark.requirement("OTRPC-010", "OTRPC-026", "C-3", "A-13")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": -32700}, Kind.MALFORMED),
        ({"code": -32601}, Kind.UNKNOWN_TOOL),
        ({"code": 405}, Kind.UNKNOWN_TOOL),
        ({"code": -32602}, Kind.INVALID_ARGUMENTS),
        ({"code": 403}, Kind.FORBIDDEN),
        ({"code": 500}, Kind.TOOL_FAILED),
        ({"code": 123456}, Kind.TOOL_FAILED),
        ({"code": "500"}, Kind.TOOL_FAILED),
        ({"code": True}, Kind.TOOL_FAILED),
        ({}, Kind.TOOL_FAILED),
        ({"code": 500, "data": {"kind": "denied"}}, Kind.DENIED),
        ({"code": 500, "data": {"kind": "unreachable"}}, Kind.TOOL_FAILED),
        ({"code": 500, "data": {"kind": "bad_answer"}}, Kind.TOOL_FAILED),
        ({"code": 500, "data": {"kind": []}}, Kind.TOOL_FAILED),
        ({"code": 500, "data": 7}, Kind.TOOL_FAILED),
    ],
)
def test_error_code_determines_the_problem_kind(drive: Drive, error: Any, kind: Kind) -> None:
    problem = send(drive, answer({"jsonrpc": "2.0", "result": {}, "error": error, "id": "c1"}))
    assert isinstance(problem, Problem)
    assert problem.kind is kind
    assert problem.message


@pytest.mark.requirement("C-2")
@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_error_in_the_body_counts_at_any_status(drive: Drive, status: int) -> None:
    problem = send(drive, answer({"error": {"code": 500, "message": "boom"}, "id": ""}, status))
    assert (problem.kind, problem.message) == (Kind.TOOL_FAILED, "boom")


def test_error_without_a_code_gets_its_kind_from_the_status(drive: Drive) -> None:
    assert send(drive, answer({"error": "slow down"}, 429)).kind is Kind.RATE_LIMITED
    assert send(drive, answer({"error": "slow down"})).kind is Kind.TOOL_FAILED


@pytest.mark.requirement("C-2", "OTRPC-024", "A-25")
@pytest.mark.parametrize("body", [b"", b"Unauthorized", b'{"error":"Invalid API key"}', b'{"result":{"a":1}}'])
def test_status_401_with_any_body_is_an_unauthorized_problem(drive: Drive, body: bytes) -> None:
    problem = send(drive, answer(body, 401))
    assert problem.kind is Kind.UNAUTHORIZED
    assert "key" in problem.message


@pytest.mark.requirement("I-30")
def test_a_result_with_the_id_of_another_call_is_no_success(drive: Drive) -> None:
    problem = send(drive, answer({"jsonrpc": "2.0", "result": {"result": 3}, "id": "c2"}))
    assert (problem.kind, "its id is 'c2'" in problem.message) == (Kind.BAD_ANSWER, True)
    for own in ({"id": "c1"}, {"id": None}, {}):
        assert send(drive, answer({"jsonrpc": "2.0", "result": {"result": 3}, **own})) == Value(3)


@pytest.mark.requirement("OTRPC-022", "C-3", "A-26")
@pytest.mark.parametrize("body", [b"", b"  ", b"null"])
def test_empty_response_is_reported_as_response_is_null(drive: Drive, body: bytes) -> None:
    problem = send(drive, answer(body))
    assert problem.kind is Kind.BAD_ANSWER
    assert "Response is null" in problem.message


@pytest.mark.requirement("OTRPC-023", "C-3")
@pytest.mark.parametrize("body", [{}, {"result": None}, {"result": None, "error": None}, {"error": 7}, [], 7, "x"])
def test_response_without_result_or_error_is_reported_as_error_is_null(drive: Drive, body: Any) -> None:
    problem = send(drive, answer(body))
    assert problem.kind is Kind.BAD_ANSWER
    assert "Error is null" in problem.message


@pytest.mark.requirement("OTRPC-025", "A-26")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, Kind.FORBIDDEN),
        (404, Kind.NOT_FOUND),
        (413, Kind.TOO_LARGE),
        (429, Kind.RATE_LIMITED),
        (503, Kind.OVERLOADED),
        (500, Kind.BAD_ANSWER),
        (307, Kind.BAD_ANSWER),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"result":{"a":1}}', b"{"])
def test_error_status_without_a_body_is_a_problem(drive: Drive, status: int, kind: Kind, body: bytes) -> None:
    problem = send(drive, answer(body, status))
    assert problem.kind is kind
    assert f"status {status}" in problem.message
    assert not problem.can_retry


@pytest.mark.parametrize(
    ("text", "wait"), [(b"2", 2000), (b"", None), (b"-1", None), (b"9999999", 2_592_000_000), (b"x", None)]
)
def test_retry_time_of_the_server_is_read(drive: Drive, text: bytes, wait: int | None) -> None:
    assert send(drive, answer(b"", 503, ((b"retry-after", text),))).retry_after_ms == wait


def test_non_json_response_is_a_bad_answer(drive: Drive) -> None:
    problem = send(drive, answer(b"<html>"))
    assert problem.kind is Kind.BAD_ANSWER
    assert "Cannot read the server's answer" in problem.message


@pytest.mark.requirement("OTRPC-025", "C-11")
def test_unreachable_server_is_asked_once(drive: Drive) -> None:
    assert send(drive, UNREACHED) is UNREACHED


@pytest.mark.parametrize("status", [404, 405, 501])
def test_server_without_streams_is_called_again_without_streaming(drive: Drive, status: int) -> None:
    asked: list[str] = []

    def server(step: Any) -> Any:
        request = step.request if isinstance(step, Listen) else step
        asked.append(request.url.rpartition("/")[2])
        return Response(status) if asked[-1] == "streamCall" else answer({"jsonrpc": "2.0", "id": "c1", "result": 7})

    assert drive(CODEC.send(PEER, Call(replace(SUM, streams=True), {"a": 1}, "c1")), server) == Value(7)
    assert asked == ["streamCall", "call"]


@pytest.mark.requirement("C-3")
def test_extra_error_members_are_validated_one_by_one(drive: Drive) -> None:
    data = {
        "can_retry": "yes",
        "retry_after_ms": True,
        "additional_prompt_content": 7,
        "parameter_errors": {"a": "is wrong", "b": 7},
        "details": [],
        "developer_message": "secret",
    }
    problem = send(drive, answer({"error": {"code": 500, "message": ["x"], "data": data}}))
    assert problem == Problem(
        kind=Kind.TOOL_FAILED, message="The tool failed without a reason.", parameter_errors={"a": "is wrong"}
    )
    assert len(send(drive, answer({"error": {"message": "x" * 9999}})).message) == 4000


MEMBERS = ["result", "error", "code", "message", "data", "kind", "version", "opentool", "functions", "info", "name"]
PARTS = ["parameters", "schema", "type", "properties", "items", "enum", "required", "return", "x-llm", "x-json-schema"]
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda one: (
        st.lists(one, max_size=3) | st.dictionaries(st.sampled_from([*MEMBERS, *PARTS, "$ref"]), one, max_size=6)
    ),
    max_leaves=20,
)
bodies = st.binary(max_size=40) | any_json.map(lambda data: json.dumps(data).encode())
statuses = st.sampled_from([200, 204, 302, 400, 401, 404, 500, 503])


@given(body=bodies, status=statuses)
def test_any_response_to_a_call_is_a_value_or_a_problem(drive: Drive, body: bytes, status: int) -> None:
    assert isinstance(send(drive, answer(body, status)), Value | Problem)


@given(functions=any_json, body=bodies, status=statuses)
def test_any_probe_responses_give_a_finding(drive: Drive, functions: Any, body: bytes, status: int) -> None:
    version = answer({"version": "1"})
    for found in (
        find(drive, answer(body, status)),
        find(drive, version, answer(body, status)),
        find(drive, version, answer(DOCUMENT | {"functions": [functions, FUNCTION]})),
    ):
        assert all(probe.meaning for probe in found.probes)
    assert found.peer is not None
    assert "f" in found.peer.catalog.names
