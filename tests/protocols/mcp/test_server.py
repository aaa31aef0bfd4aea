"""The server half: every revision is answered, errors are where MCP wants them, nothing private is sent."""

from __future__ import annotations

import json

import pytest

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Pending, Site
from toolwire.core.http import STATUS_BY_KIND, Request, get_header
from toolwire.core.model import Call, Kind, Problem, Tool, Value
from toolwire.protocols.mcp import CODEC

STATELESS = "2026-07-28"
VERSIONS = ["", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS]
TOLD = [
    Kind.TOOL_FAILED,
    Kind.TIMEOUT,
    Kind.CANCELLED,
    Kind.INTERRUPTED,
    Kind.INTERNAL,
    Kind.INVALID_ARGUMENTS,
    Kind.DENIED,
    Kind.UNCONFIRMED,
    Kind.RATE_LIMITED,
    Kind.MISSING_REQUIREMENTS,
    Kind.UNREACHABLE,
    Kind.BAD_ANSWER,
]


def raw(body: bytes, content_type: bytes = b"application/json") -> Request:
    return Request("POST", "/mcp", ((b"content-type", content_type),), body)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_initialize_agrees_to_a_supported_revision(ask, message, version):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    status, answer = ask(message("initialize", params))
    assert status == 200
    assert answer["result"]["protocolVersion"] == version
    assert answer["result"]["serverInfo"] == {"name": "Desk", "version": "3.1.0"}
    assert answer["result"]["instructions"] == "Small things."
    assert "tools" in answer["result"]["capabilities"]


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", ""])
def test_initialize_offers_the_newest_handshake_revision_for_any_other(ask, message, version):
    _, answer = ask(message("initialize", {"protocolVersion": version}))
    assert answer["result"]["protocolVersion"] == "2025-11-25"


def test_discovery_lists_every_revision_and_its_cache_time(ask, message):
    _, answer = ask(message("server/discover", version=STATELESS))
    result = answer["result"]
    assert result["supportedVersions"][0] == STATELESS
    assert "2025-06-18" in result["supportedVersions"]
    assert (result["resultType"], result["cacheScope"]) == ("complete", "public")
    assert result["ttlMs"] >= 0
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "Desk"


def test_tool_list_behind_a_key_is_not_cached_publicly(serve, message):
    response = serve(site=Site(keys=True))(message("tools/list", version=STATELESS))
    assert json.loads(response.body)["result"]["cacheScope"] == "private"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_revision_can_list_and_call_tools(ask, message, version):
    _, listed = ask(message("tools/list", version=version))
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["add", "remove-all", "echo", "forget"]
    status, called = ask(
        message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, version=version, id_="x")
    )
    assert (status, called["id"]) == (200, "x")
    assert called["result"]["structuredContent"] == {"result": 3}
    assert called["result"]["content"] == [{"type": "text", "text": "3"}]


def test_ping_gets_an_empty_result(ask, message):
    _, answer = ask(message("ping"))
    assert answer["result"] == {}


def test_a_notification_is_accepted_without_a_body(serve):
    response = serve()(raw(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'))
    assert (response.status, response.body) == (202, b"")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"7", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
    ],
)
def test_invalid_request_gets_one_error_with_status_400(ask, body, code):
    status, answer = ask(raw(body))
    assert (status, answer["error"]["code"]) == (400, code)
    assert answer["jsonrpc"] == "2.0"


def test_a_body_of_another_type_is_refused(ask):
    status, answer = ask(raw(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b"text/plain"))
    assert (status, answer["error"]["code"]) == (415, -32600)


@pytest.mark.parametrize(("version", "status"), [("2025-11-25", 200), (STATELESS, 404)])
def test_an_unknown_method_is_method_not_found(ask, message, version, status):
    assert ask(message("tools/destroy", version=version))[0] == status
    assert ask(message("tools/destroy", version=version))[1]["error"]["code"] == -32601


def test_initialize_is_unknown_in_the_stateless_revision(ask, message):
    assert ask(message("initialize", version=STATELESS))[1]["error"]["code"] == -32601
    assert ask(message("server/discover", version="2025-11-25"))[1]["error"]["code"] == -32601


@pytest.mark.parametrize(("version", "status"), [("2025-11-25", 200), (STATELESS, 400)])
@pytest.mark.parametrize(
    "params",
    [
        {"name": "nope", "arguments": {}},
        {"name": "add", "arguments": [1, 2]},
        {"name": 7},
    ],
)
def test_an_unknown_tool_or_broken_parameters_are_invalid_params(ask, message, version, status, params):
    request = message("tools/call", params, version=version)
    if version == STATELESS and params["name"] == 7:
        request = request._replace(headers=[field for field in request.headers if field[0] != b"mcp-name"])
        assert ask(request)[1]["error"]["code"] == -32020
        return
    got, answer = ask(request)
    assert (got, answer["error"]["code"]) == (status, -32602)


def test_error_for_an_unknown_tool_lists_the_known_tools(ask, message):
    _, answer = ask(message("tools/call", {"name": "subtract"}))
    assert "Available tools: add" in answer["error"]["message"]


def test_tool_is_also_found_by_its_id(ask, message):
    _, answer = ask(message("tools/call", {"name": "Calculator.add@1.2.0", "arguments": {"a": 2, "b": 2}}))
    assert answer["result"]["structuredContent"] == {"result": 4}


def test_unknown_cursor_is_refused(ask, message):
    assert ask(message("tools/list", {"cursor": "2"}))[1]["error"]["code"] == -32602


@pytest.mark.parametrize("version", ["1999-01-01", "2027-01-01"])
def test_unsupported_revision_is_refused_with_the_supported_ones(ask, message, version):
    status, answer = ask(message("tools/list", version=version))
    assert (status, answer["error"]["code"]) == (400, -32022)
    assert answer["error"]["data"]["requested"] == version
    assert STATELESS in answer["error"]["data"]["supported"]


@pytest.mark.parametrize("field", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
@pytest.mark.parametrize("change", ["missing", "another"])
def test_stateless_request_with_contradicting_headers_is_refused(ask, message, field, change):
    request = message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, version=STATELESS)
    headers = [pair for pair in request.headers if pair[0] != field]
    if change == "another":
        headers.append((field, b"other"))
    status, answer = ask(request._replace(headers=headers))
    assert (status, answer["error"]["code"]) == (400, -32020)


def test_stateless_request_must_state_client_capabilities(ask, message):
    request = message("tools/list", version=STATELESS)
    body = json.loads(request.body)
    del body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    status, answer = ask(request._replace(body=json.dumps(body).encode()))
    assert (status, answer["error"]["code"]) == (400, -32602)


def test_a_stateless_call_without_a_name_is_refused_for_that(ask, message):
    status, answer = ask(message("tools/call", {"arguments": {}}, version=STATELESS))
    assert (status, answer["error"]["code"]) == (400, -32602)
    assert "name" in answer["error"]["message"]


def test_name_header_in_base64_is_decoded(ask, message):
    request = message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, version=STATELESS)
    headers = [(name, b"=?base64?YWRk?=" if name == b"mcp-name" else value) for name, value in request.headers]
    assert ask(request._replace(headers=headers))[0] == 200


@pytest.mark.parametrize("kind", TOLD)
def test_tool_errors_that_a_model_can_act_on_are_results_with_is_error(ask, message, kind):
    problem = Problem(kind=kind, message="It did not work.", additional_prompt_content="Try b.", can_retry=True)
    status, answer = ask(message("tools/call", {"name": "echo"}), lambda _: problem)
    assert status == 200
    assert answer["result"]["isError"] is True
    reply, hint = [block["text"] for block in answer["result"]["content"]]
    assert hint == "Try b."
    if kind is Kind.UNCONFIRMED:  # the user of a client without forms cannot send a header field
        assert reply.startswith("echo did not run: it needs the consent of its user, and this client cannot be asked")
    else:
        assert reply == "It did not work."
    # I-32: the rest is for programs of newer clients; a host that is still asked must tell that from an answer.
    assert ("_meta" in answer["result"]) == (kind is Kind.UNCONFIRMED)
    newer = ask(message("tools/call", {"name": "echo"}, version=STATELESS), lambda _: problem)[1]["result"]
    assert newer["_meta"]["toolwire/problem"]["canRetry"] is True


@pytest.mark.requirement("I-32")
def test_result_for_an_older_client_has_only_what_it_knows(ask, message):
    call = {"name": "Calculator.add@1.2.0", "arguments": {"a": 2, "b": 2}}
    older = ask(message("tools/call", call))[1]["result"]
    assert older == {
        "content": [{"type": "text", "text": "4"}],
        "structuredContent": {"result": 4},
        "isError": False,
    }
    newer = ask(message("tools/call", call, version=STATELESS))[1]["result"]
    assert newer.keys() == {*older, "resultType", "_meta"}


@pytest.mark.requirement("A-53")
@pytest.mark.parametrize("kind", list(Kind))
def test_a_developer_message_is_never_sent(serve, message, kind):
    problem = Problem(kind=kind, message="No.", developer_message="secret-canary")
    response = serve(run=lambda _: problem)(message("tools/call", {"name": "echo"}))
    assert b"secret-canary" not in response.body
    assert b"secret-canary" not in CODEC.refuse(problem).body


@pytest.mark.parametrize("kind", list(Kind))
def test_refusals_before_any_message_are_json_rpc_errors(kind):
    response = CODEC.refuse(Problem(kind=kind, message="No."))
    body = json.loads(response.body)
    assert response.status == STATUS_BY_KIND[kind]
    assert get_header(response.headers, b"content-type") == "application/json"
    assert (body["jsonrpc"], body["id"], body["error"]["message"]) == ("2.0", None, "No.")
    assert isinstance(body["error"]["code"], int)


@pytest.mark.parametrize(("wait", "seconds"), [(None, "1"), (0, "1"), (1_500, "2"), (60_000, "60")])
def test_overloaded_server_states_when_to_retry(serve, message, wait, seconds):
    problem = Problem(kind=Kind.OVERLOADED, message="Busy.", can_retry=True, retry_after_ms=wait)
    response = serve(run=lambda _: problem)(message("tools/call", {"name": "echo"}, id_=9))
    assert (response.status, get_header(response.headers, b"retry-after")) == (503, seconds)
    assert json.loads(response.body)["id"] == 9


def test_a_missing_key_is_401_with_a_challenge():
    response = CODEC.refuse(Problem(kind=Kind.UNAUTHORIZED, message="A key is needed."))
    assert (response.status, get_header(response.headers, b"www-authenticate")) == (401, "Bearer")
    assert json.loads(response.body)["message"] == "A key is needed."


@pytest.mark.parametrize(
    ("meta", "trace"),
    [
        (
            {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
            "0af7651916cd43dd8448eb211c80319c",
        ),
        ({"traceparent": "nonsense", "progressToken": 1}, ""),
        ({"traceparent": 7}, ""),
        (None, ""),
    ],
)
def test_the_trace_of_the_caller_reaches_the_tool(ask, message, meta, trace):
    seen: list[Call] = []

    def run(call: Call) -> Value:
        seen.append(call)
        return Value(None)

    ask(message("tools/call", {"name": "echo", "_meta": meta}), run)
    assert seen[0].context.trace_id == trace
    assert seen[0].call_id == "request-1"


def test_only_post_is_routed(catalog):
    routes = CODEC.routes(catalog, Site())
    assert [route for route in routes if not routes[route].is_tool_free] == [("POST", "/mcp")]


def test_text_result_is_sent_unchanged_and_no_value_as_empty_content(ask, message):
    _, answer = ask(message("tools/call", {"name": "echo", "arguments": {"value": 'grün \u2028 "q"'}}))
    assert answer["result"]["content"] == [{"type": "text", "text": 'grün \u2028 "q"'}]
    _, answer = ask(message("tools/call", {"name": "forget"}))
    assert answer["result"]["content"] == []
    assert "structuredContent" not in answer["result"]


def test_reading_a_call_does_not_run_the_tool(catalog, message):
    reading = CODEC.routes(catalog, Site())["POST", "/mcp"].read(message("tools/call", {"name": "forget"}))
    assert isinstance(reading, Pending)
    assert reading.call.arguments == {}


def test_object_result_is_sent_as_structured_content_if_it_matches_its_schema(ask, message):
    _, answer = ask(message("tools/call", {"name": "remove-all"}))
    assert answer["result"]["structuredContent"] == {"count": 0}
    _, answer = ask(message("tools/call", {"name": "remove-all"}), lambda _: Value("not what was declared"))
    assert "structuredContent" not in answer["result"]


def test_initialize_without_a_revision_is_refused(ask, message):
    assert ask(message("initialize", {"protocolVersion": 7}))[1]["error"]["code"] == -32602


MARKED = Tool(
    name="deploy",
    input_schema={"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
)


@pytest.mark.requirement("MC-11")
def test_a_marked_argument_must_be_in_its_header_since_the_revision_that_has_such_headers(serve, message):
    transport = serve(Catalog(title="Desk", tools=(MARKED,)), lambda call: Value(dict(call.arguments)))

    def call(version, *said, name="deploy", **arguments):
        request = message("tools/call", {"name": name, "arguments": arguments}, version=version)
        request = request._replace(headers=[*request.headers, *((b"mcp-param-region", value) for value in said)])
        response = transport(request)
        return response.status, json.loads(response.body)

    assert call(STATELESS, b"north", name="nothing")[1]["error"]["code"] == -32602
    for _ in range(2):  # the marks are found at the first call
        assert call(STATELESS, b"north", region="north")[0] == 200
        assert call(STATELESS)[0] == 200
        for said in ((), (b"south",)):
            status, answer = call(STATELESS, *said, region="north")
            assert (status, answer["error"]["code"]) == (400, -32020)
            assert "mcp-param-region" in answer["error"]["message"]
            assert "north" not in answer["error"]["message"]
        assert call(STATELESS, b"north")[1]["error"]["code"] == -32020  # a header without its argument
        assert call("2025-11-25", region="north")[0] == 200


@pytest.mark.requirement("I-33")
@pytest.mark.parametrize("header", ["2025-11-25", "2099-01-01"])
def test_header_that_names_another_revision_than_the_envelope_is_refused(header):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    kind = (b"content-type", b"application/json")
    fields = (kind, (b"mcp-protocol-version", header.encode()), (b"mcp-method", b"tools/list"))
    routes = CODEC.routes(Catalog(tools=()), Site())
    answer = routes["POST", "/mcp"].read(Request("POST", "/mcp", fields, json.dumps(body).encode()))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32020)


@pytest.mark.requirement("I-33")
def test_unknown_revision_is_refused_in_the_words_that_peers_look_for():
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    fields = ((b"content-type", b"application/json"), (b"mcp-protocol-version", b"2099-01-01"))
    routes = CODEC.routes(Catalog(tools=()), Site())
    answer = routes["POST", "/mcp"].read(Request("POST", "/mcp", fields, json.dumps(body).encode()))
    assert json.loads(answer.body)["error"]["message"].startswith("Unsupported protocol version: '2099-01-01'.")
