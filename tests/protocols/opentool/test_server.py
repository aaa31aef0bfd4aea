"""The server half: what each path answers, whatever it is sent."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Site, Streaming
from toolwire.core.http import JSON_HEADERS, STATUS_BY_KIND, Request, Response, get_header
from toolwire.core.model import Kind, Problem, Progress, Tool, Value
from toolwire.protocols.opentool import CODEC

Wire = Callable[[Catalog], Callable[[Request], Any]]
DART_FRAME = re.compile(r"event:(\w+)\ndata:(.*?)\n\n")


def post(body: Any, path: str = "/opentool/call", headers: Any = JSON_HEADERS) -> Request:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request("POST", path, headers, text, "request-1")


def call(method: Any = "create", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {"text": "x"}, "id": "c1"} | more


def body(response: Any) -> Any:
    assert isinstance(response, Response)
    return json.loads(response.body)


def frames(text: bytes) -> list[tuple[str, Any]]:
    found = DART_FRAME.findall(text.decode())
    assert "".join(f"event:{name}\ndata:{data}\n\n" for name, data in found).encode() == text
    return [(name, json.loads(data)) for name, data in found]


@pytest.mark.requirement("OTRPC-001", "S-17", "A-28")
def test_routes_are_those_of_the_protocol_without_stop(store: Catalog) -> None:
    routes = CODEC.routes(store, Site())
    assert set(routes) == {
        ("GET", "/opentool/version"),
        ("GET", "/opentool/load"),
        ("POST", "/opentool/call"),
        ("POST", "/opentool/streamCall"),
    }
    assert not any(route.is_public for route in routes.values())


@pytest.mark.requirement("OTRPC-002", "OTRPC-003", "S-2")
def test_version_is_the_version_of_the_catalog(store: Catalog, wire: Wire) -> None:
    assert body(wire(store)(Request("GET", "/opentool/version"))) == {"version": "1.2.0"}


@pytest.mark.requirement("OTRPC-003", "A-24")
@pytest.mark.parametrize("version", ["v2", "1.0", "2024-01", "01.2.3", "1.2.3-"])
def test_version_route_always_returns_a_semantic_version(wire: Wire, version: str) -> None:
    assert body(wire(Catalog(version=version))(Request("GET", "/opentool/version"))) == {"version": "1.0.0"}


@pytest.mark.requirement("OTRPC-013", "OTRPC-014")
def test_load_route_returns_the_document_built_once(store: Catalog, wire: Wire) -> None:
    read = wire(store)
    load = read(Request("GET", "/opentool/load"))
    assert body(load)["opentool"] == "1.1.0"
    assert load is read(Request("GET", "/opentool/load"))
    assert re.fullmatch('"[0-9a-f]{32}"', get_header(load.headers, b"etag"))
    assert wire(Catalog())(Request("GET", "/opentool/load")).body == b"{}"


@pytest.mark.requirement("OTRPC-004", "OTRPC-006", "OTRPC-009", "OTRPC-011", "OTRPC-012", "S-3", "S-6", "A-12")
def test_call_is_read_and_its_value_answered(store: Catalog, wire: Wire) -> None:
    pending = wire(store)(post(call()))
    assert isinstance(pending, Pending)
    assert pending.call.tool is store.names["create"]
    assert pending.call.arguments == {"text": "x"}
    response = pending.reply(Value(7), 1.0)
    assert response.status == 200
    assert response.body == b'{"jsonrpc":"2.0","result":{"id":7},"error":null,"id":"c1"}'


@pytest.mark.requirement("A-15")
def test_the_id_of_a_request_is_no_idempotency_key(store: Catalog, wire: Wire) -> None:
    assert wire(store)(post(call(id="1"))).call.call_id == "request-1"


@pytest.mark.requirement("OTRPC-008", "A-15")
@pytest.mark.parametrize("id_", ["c1", "", "é", 0, 7, 1.5, 2**70])
def test_response_id_keeps_the_type_of_the_request_id(store: Catalog, wire: Wire, id_: Any) -> None:
    answered = body(wire(store)(post(call(id=id_))).reply(Value(1), 0.0))["id"]
    assert (answered, type(answered)) == (id_, type(id_))


@pytest.mark.requirement("OTRPC-005", "OTRPC-007", "S-4", "A-18", "A-19")
@pytest.mark.parametrize(
    "request_",
    [
        {"jsonrpc": "2.0.0", "method": "count", "id": "1"},
        {"method": "count", "id": "1"},
        {"jsonrpc": "2.0", "method": "count", "params": None, "id": "1", "more": []},
    ],
)
def test_server_reads_requests_of_each_real_client(store: Catalog, wire: Wire, request_: Any) -> None:
    pending = wire(store)(post(request_))
    assert isinstance(pending, Pending)
    assert pending.call.arguments == {}


@pytest.mark.requirement("OTRPC-005", "A-13", "A-16", "A-17", "S-5", "S-16", "SE-03")
@pytest.mark.parametrize(
    ("sent", "code", "id_"),
    [
        (b"{not json", -32700, None),
        (b"", -32700, None),
        (b'{"a": NaN}', -32700, None),
        (b'"\xff"', -32700, None),
        (b"[" * 300, -32700, None),
        ([call()], -32600, None),
        (7, -32600, None),
        (call(jsonrpc="1.0"), -32600, "c1"),
        (call(jsonrpc=2), -32600, "c1"),
        (call(method=7), -32600, "c1"),
        (call(id=None), -32600, None),
        (call(method=""), -32600, "c1"),
        ({"jsonrpc": "2.0", "id": 3}, -32600, 3),
        (call(id=[]), -32600, None),
        (call(id=True), -32600, None),
        ({"jsonrpc": "2.0", "method": "count"}, -32600, None),
    ],
)
@pytest.mark.parametrize("path", ["/opentool/call", "/opentool/streamCall"])
def test_invalid_call_is_refused_with_400_in_json(
    store: Catalog, wire: Wire, sent: Any, code: int, id_: Any, path: str
) -> None:
    response = wire(store)(post(sent, path))
    assert response.status == 400
    assert get_header(response.headers, b"content-type") == "application/json"
    answered = body(response)
    assert answered["error"]["code"] == code
    assert answered["error"]["message"]
    assert (answered["id"], answered["result"]) == (id_, {})


@pytest.mark.requirement("A-29")
@pytest.mark.parametrize("headers", [(), ((b"content-type", b"text/plain"),)])
def test_another_content_type_is_refused(store: Catalog, wire: Wire, headers: Any) -> None:
    response = wire(store)(post(call(), headers=headers))
    assert response.status == 415
    assert body(response)["error"]["code"] == -32600


@pytest.mark.requirement("OTRPC-006", "OTRPC-010", "A-13", "A-14")
def test_unknown_function_is_refused_as_not_supported(store: Catalog, wire: Wire) -> None:
    response = wire(store)(post(call("nope")))
    assert response.status == 200
    error = body(response)["error"]
    assert (error["code"], error["message"]) == (-32601, "Function Not Supported: nope")
    assert "create" in error["data"]["additional_prompt_content"]
    assert len(body(wire(store)(post(call("x" * 9999))))["error"]["message"]) < 300
    assert "no function at all" in str(body(wire(Catalog())(post(call()))))


@pytest.mark.requirement("A-19", "A-14")
@pytest.mark.parametrize("params", [[], ["x"], "x", 7, True])
def test_params_that_are_no_object_are_invalid_params(store: Catalog, wire: Wire, params: Any) -> None:
    response = wire(store)(post(call(params=params)))
    assert response.status == 200
    assert body(response)["error"]["code"] == -32602


@pytest.mark.requirement("OTRPC-010", "A-13", "A-14", "S-3")
@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.OVERLOADED, Kind.UNAUTHORIZED}))
def test_every_other_problem_of_a_call_is_answered_with_200(store: Catalog, wire: Wire, kind: Kind) -> None:
    response = wire(store)(post(call())).reply(Problem(kind=kind, message="It went wrong."), 0.0)
    assert response.status == 200
    answered = body(response)
    assert answered["result"] == {}
    assert answered["error"]["message"] == "It went wrong."
    assert answered["error"]["data"] == {"kind": kind.value}
    assert isinstance(answered["error"]["code"], int)
    assert answered["id"] == "c1"


@pytest.mark.requirement("A-13", "A-53")
def test_problem_members_are_sent_as_error_data_without_developer_message(store: Catalog, wire: Wire) -> None:
    problem = Problem(
        kind=Kind.TOOL_FAILED,
        message="",
        developer_message="password=1234",
        can_retry=True,
        retry_after_ms=0,
        additional_prompt_content="Try another.",
        parameter_errors={"text": "is too long"},
        details={"n": 1},
    )
    response = wire(store)(post(call())).reply(problem, 0.0)
    assert b"1234" not in response.body
    assert body(response)["error"] == {
        "code": 500,
        "message": "tool_failed",
        "data": {
            "kind": "tool_failed",
            "can_retry": True,
            "retry_after_ms": 0,
            "additional_prompt_content": "Try another.",
            "parameter_errors": {"text": "is too long"},
            "details": {"n": 1},
        },
    }


@pytest.mark.requirement("S-7", "A-14", "A-25")
def test_a_call_without_its_key_is_401_in_json(store: Catalog, wire: Wire) -> None:
    problem = Problem(kind=Kind.UNAUTHORIZED, message="Send a key.")
    for response in (CODEC.refuse(problem), wire(store)(post(call())).reply(problem, 0.0)):
        assert response.status == 401
        assert get_header(response.headers, b"www-authenticate") == "Bearer"
        answered = body(response)
        assert answered["message"] == answered["error"]["message"] == "Send a key."
        assert answered["error"]["code"] == 401


@pytest.mark.parametrize(("wait", "said"), [(None, "1"), (0, "1"), (1, "1"), (1000, "1"), (1001, "2"), (60_000, "60")])
def test_overload_is_503_with_retry_time(store: Catalog, wire: Wire, wait: int | None, said: str) -> None:
    problem = Problem(kind=Kind.OVERLOADED, message="Busy.", retry_after_ms=wait)
    for response in (CODEC.refuse(problem), wire(store)(post(call())).reply(problem, 0.0)):
        assert response.status == 503
        assert get_header(response.headers, b"retry-after") == said
        assert body(response)["error"]["code"] == 503


@pytest.mark.requirement("S-5")
@pytest.mark.parametrize("kind", sorted(Kind))
def test_refusal_before_routing_has_the_status_of_its_kind(kind: Kind) -> None:
    response = CODEC.refuse(Problem(kind=kind, message="No."))
    assert response.status == STATUS_BY_KIND[kind]
    assert body(response)["id"] is None


def test_tools_with_one_name_are_called_with_their_toolkit_prefix(wire: Wire) -> None:
    catalog = Catalog(tools=(Tool(name="f", toolkit="A"), Tool(name="f", toolkit="B"), Tool(name="g", toolkit="A")))
    read = wire(catalog)
    assert [one["name"] for one in body(read(Request("GET", "/opentool/load")))["functions"]] == ["A_f", "g", "B_f"]
    assert read(post(call("B_f"))).call.tool.id == "B.f@1.0.0"
    assert read(post(call("f"))).status == 200


def stream(wire: Wire, store: Catalog, method: str) -> Streaming:
    streaming = wire(store)(post(call(method, params={}), "/opentool/streamCall"))
    assert isinstance(streaming, Streaming)
    assert get_header(streaming.headers, b"content-type") == "text/event-stream"
    assert frames(streaming.opening) == [("start", {"start": method})]
    return streaming


@pytest.mark.requirement("A-28")
def test_stream_consists_of_start_pieces_and_done(store: Catalog, wire: Wire) -> None:
    streaming = stream(wire, store, "each")
    pieces = [Progress("hé\n"), Progress({"text": "b"}, "odd"), Progress({"a": 1, "b": 2})]
    assert frames(b"".join(map(streaming.frame, pieces))) == [
        ("data", {"jsonrpc": "2.0", "result": {"texts": "hé\n"}, "id": "c1"}),
        # The items are texts, so the one member of a piece would be read as the item.
        ("data", {"jsonrpc": "2.0", "result": {"texts": {"text": "b"}}, "id": "c1"}),
        ("data", {"jsonrpc": "2.0", "result": {"a": 1, "b": 2}, "id": "c1"}),
    ]
    assert frames(streaming.closing(Value(None), 1.0)) == [("done", {"done": "each"})]
    assert frames(streaming.closing(Value(["a"]), 1.0)) == [("done", {"done": "each"})]


@pytest.mark.requirement("A-28")
def test_tool_without_streaming_sends_its_value_as_one_piece(store: Catalog, wire: Wire) -> None:
    assert frames(stream(wire, store, "count").closing(Value(3), 1.0)) == [
        ("data", {"jsonrpc": "2.0", "result": {"result": 3}, "id": "c1"}),
        ("done", {"done": "count"}),
    ]


@pytest.mark.requirement("A-28")
def test_a_stream_that_fails_ends_with_an_error_beside_an_empty_result(store: Catalog, wire: Wire) -> None:
    ((name, data),) = frames(stream(wire, store, "each").closing(Problem(kind=Kind.TIMEOUT, message="Too long."), 1.0))
    assert name == "error"
    assert (data["result"], data["error"]["code"], data["id"]) == ({}, 500, "c1")


@pytest.mark.requirement("A-28", "A-14")
@pytest.mark.parametrize(
    ("kind", "status"), [(Kind.INVALID_ARGUMENTS, 200), (Kind.UNAUTHORIZED, 401), (Kind.OVERLOADED, 503)]
)
def test_a_stream_that_never_starts_is_one_error_frame(store: Catalog, wire: Wire, kind: Kind, status: int) -> None:
    response = stream(wire, store, "each").refuse(Problem(kind=kind, message="No."))
    assert response.status == status
    assert get_header(response.headers, b"content-type") == "text/event-stream"
    assert [name for name, _ in frames(response.body)] == ["error"]


@pytest.mark.requirement("A-28")
def test_a_stream_of_a_function_that_is_not_there_is_one_error_frame(store: Catalog, wire: Wire) -> None:
    response = wire(store)(post(call("nope"), "/opentool/streamCall"))
    ((name, data),) = frames(response.body)
    assert (response.status, name, data["error"]["code"]) == (200, "error", -32601)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda one: st.lists(one, max_size=2)
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0.0", "1.0", 2, None]),
        "method": st.sampled_from(["create", "count", "nope", "", 7, None]),
        "params": values | st.dictionaries(st.text(max_size=3), values, max_size=2),
        "id": values,
        "result": values,
    },
)


@pytest.mark.requirement("S-5", "S-16")
@given(
    sent=st.binary(max_size=60) | envelopes.map(lambda data: json.dumps(data).encode()),
    path=st.sampled_from(["call", "streamCall"]),
)
def test_any_bytes_are_read_as_a_call_or_answered(store: Catalog, wire: Wire, sent: bytes, path: str) -> None:
    reading = wire(store)(post(sent, f"/opentool/{path}"))
    if isinstance(reading, Response):
        assert reading.status in (200, 400)
        assert b'"message":' in reading.body
    else:
        assert isinstance(reading.call.arguments, dict)
