"""Sending a call: what goes out in each dialect, and what every answer means."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Peer, Pending, Site
from toolwire.core.http import Request, Response
from toolwire.core.model import (
    Authorization,
    Call,
    Context,
    Kind,
    Problem,
    Requirements,
    Secret,
    Tool,
    Value,
)
from toolwire.protocols.otc import CODEC, definition, dialect
from toolwire.protocols.otc.client import Memo

ADD = Tool(name="add", toolkit="Calculator")
DIALECTS = [dialect.RFC, dialect.OXP, dialect.UNIVERSAL, dialect.OPEN_TOOL]


def peer(kind, tool=ADD, wire_id="Calc.add@1"):
    return Peer(
        protocol="otc", url="http://h", catalog=Catalog(tools=(tool,)), memo=Memo(dialect=kind, ids={tool.id: wire_id})
    )


def call(tool=ADD, **context):
    return Call(tool, {"a": 1, "b": 2}, "c-1", Context(**context))


def ok(data, status=200, headers=()):
    return Response(status, headers, data if isinstance(data, bytes) else json.dumps(data).encode())


@pytest.fixture
def result(talk):
    def told(data, status=200, headers=(), kind=dialect.OXP):
        response = ok(data, status, headers)
        return talk(CODEC.send(peer(kind), call()), *[response] * len(kind.paths))[0]

    return told


@pytest.mark.requirement("A-32", "C-9", "OXP-017", "A-37")
@pytest.mark.parametrize(("kind", "path"), [(dialect.RFC, "/call"), (dialect.OXP, "/tools/call")])
def test_request_has_exact_members_and_no_schema(talk, kind, path):
    sent = {"call_id": "c-1", "success": True, "value": 3}
    value, (request,) = talk(CODEC.send(peer(kind), call()), ok({"result": sent}))
    assert value == Value(3)
    assert (request.method, request.url) == ("POST", f"http://h{path}")
    assert (b"content-type", b"application/json") in request.headers
    assert json.loads(request.body) == {
        "request": {"tool_id": "Calc.add@1", "call_id": "c-1", "input": {"a": 1, "b": 2}}
    }
    assert CODEC.target(peer(kind), call()) == f"POST http://h{path}"


@pytest.mark.requirement("A-48")
def test_universal_tool_server_gets_its_schema_name(talk):
    _, (request,) = talk(CODEC.send(peer(dialect.UNIVERSAL), call()), ok({"success": True, "value": 3}))
    assert request.url == "http://h/tools/call"
    assert json.loads(request.body)["$schema"] == "otc://1.0"
    assert json.loads(request.body)["request"]["tool_id"] == "Calc.add@1"


@pytest.mark.requirement("A-33")
def test_an_open_tool_server_gets_name_and_args_and_answers_the_bare_value(talk):
    value, (request,) = talk(CODEC.send(peer(dialect.OPEN_TOOL), call()), ok({"success": False}))
    assert json.loads(request.body) == {"name": "Calc.add@1", "args": {"a": 1, "b": 2}}
    assert value == Value({"success": False})


@pytest.mark.requirement("C-10", "A-45", "OTC-015")
def test_client_sends_only_the_required_context(talk):
    needs = Requirements(
        authorization=(Authorization(id="google"), Authorization(id="x")), secrets=("KEY",), user_id=True
    )
    tool = Tool(name="add", toolkit="Calculator", requirements=needs)
    context = {
        "tokens": {"google": Secret("t"), "github": Secret("no")},
        "secrets": {"KEY": Secret("s"), "OTHER": Secret("no")},
        "user_id": "u",
        "user_info": {"name": "Ann"},
        "trace_id": "t-1",
    }
    for asking, expected in (
        (
            tool,
            {
                "authorization": [{"id": "google", "token": "t"}],
                "secrets": [{"id": "KEY", "value": "s"}],
                "user_id": "u",
                "user_info": {"name": "Ann"},
            },
        ),
        (ADD, None),
    ):
        flow = CODEC.send(peer(dialect.OXP, asking), call(asking, **context))
        _, (request,) = talk(flow, ok({}))
        sent = json.loads(request.body)["request"]
        assert sent.get("context") == expected
        assert sent["trace_id"] == "t-1"


@pytest.mark.requirement("A-33")
@pytest.mark.parametrize(
    "data",
    [
        {"success": True, "output": {"value": [3]}},
        {"result": {"success": True, "value": [3]}},
        {"success": True, "value": [3]},
        {"success": True, "value": [3], "error": None, "output": None, "new": 1},
        {"success": True, "value": [3], "result": {"success": True, "value": [3]}},
    ],
)
def test_each_of_three_answer_shapes_gives_the_value(result, data):
    assert result(data) == Value([3])


@pytest.mark.requirement("I-30")
def test_a_value_for_another_call_is_no_success(result):
    problem = result({"result": {"success": True, "call_id": "c-2", "value": [3]}})
    assert (problem.kind, "its call_id is 'c-2'" in problem.message) == (Kind.BAD_ANSWER, True)
    for own in ("c-1", "", None):
        assert result({"success": True, "call_id": own, "value": [3]}) == Value([3])


@pytest.mark.requirement("I-30", "A-31")
def test_arguments_are_sent_as_inputs_where_the_server_reads_only_that(talk):
    lacks = {"detail": [{"loc": ["body", "request", "inputs"], "msg": "Field required"}]}
    there = peer(dialect.RFC)
    value, sent = talk(CODEC.send(there, call()), ok(lacks, 422), ok({"success": True, "output": {"value": 3}}))
    assert value == Value(3)
    first, second = (json.loads(request.body)["request"] for request in sent)
    assert first == {"tool_id": "Calc.add@1", "call_id": "c-1", "input": {"a": 1, "b": 2}}
    assert second == {"tool_id": "Calc.add@1", "call_id": "c-1", "inputs": {"a": 1, "b": 2}}
    _, (third,) = talk(CODEC.send(there, call()), ok({"success": True, "output": {"value": 3}}))
    assert json.loads(third.body)["request"]["inputs"] == {"a": 1, "b": 2}


@pytest.mark.requirement("I-30")
def test_a_call_is_not_sent_again_without_its_arguments(talk):
    """A server that reads ``input`` would run the tool without arguments if they came as ``inputs``."""
    problem, _ = talk(CODEC.send(peer(dialect.RFC), call()), ok({"message": "a must be a string"}, 422))
    assert problem.kind is Kind.INVALID_ARGUMENTS


@pytest.mark.requirement("A-43")
@pytest.mark.parametrize("data", [{"success": True}, {"success": True, "output": {}}, {"result": {"success": True}}])
def test_missing_value_is_none(result, data):
    assert result(data) == Value(None)


@pytest.mark.requirement("OTC-028", "OTC-029", "OTC-030", "OTC-031", "OTC-032", "C-12")
def test_failure_is_read_completely_with_a_separate_developer_message(result, vectors):
    assert result(vectors["oxp-answer-error"]["body"]) == Problem(
        kind=Kind.TOOL_FAILED,
        message="The mailbox is locked.",
        developer_message="EX_LOCK",
        can_retry=True,
        retry_after_ms=500,
        additional_prompt_content="Try another mailbox.",
    )


@pytest.mark.requirement("OTC-030")
@pytest.mark.parametrize("can_retry", [{}, {"can_retry": None}, {"can_retry": "true"}, {"can_retry": 1}])
def test_failure_is_not_retryable_unless_declared(result, can_retry):
    problem = result({"success": False, "error": {"message": "No.", **can_retry}})
    assert problem.can_retry is False


@pytest.mark.parametrize("error", [None, {}, "", {"message": ""}, {"message": 7}, 7, []])
def test_a_failure_without_a_reason_still_has_a_sentence(result, error):
    problem = result({"success": False, "error": error})
    assert problem == Problem(kind=Kind.TOOL_FAILED, message="The tool failed without a reason.")


def test_success_beside_an_error_is_a_failure(result):
    assert result({"success": True, "value": 3, "error": {"message": "No."}}).message == "No."


@pytest.mark.parametrize("wait", [-1, 1.5, True, "5", None])
def test_invalid_retry_time_is_ignored(result, wait):
    assert result({"success": False, "error": {"message": "No.", "retry_after_ms": wait}}).retry_after_ms is None


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"3", b"null", {}, {"success": 1}, {"success": "true"}, {"success": True, "output": 7}]
)
def test_unreadable_answer_is_a_problem(result, data):
    problem = result(data)
    assert problem.kind is Kind.BAD_ANSWER
    assert problem.message.startswith("Cannot read the server's answer")


@pytest.mark.requirement("C-9", "OXP-008", "OXP-009", "OXP-010")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, Kind.BAD_ANSWER),
        (400, Kind.MALFORMED),
        (401, Kind.UNAUTHORIZED),
        (403, Kind.FORBIDDEN),
        (404, Kind.NOT_FOUND),
        (405, Kind.WRONG_METHOD),
        (413, Kind.TOO_LARGE),
        (418, Kind.BAD_ANSWER),
        (422, Kind.INVALID_ARGUMENTS),
        (429, Kind.RATE_LIMITED),
        (500, Kind.BAD_ANSWER),
        (503, Kind.OVERLOADED),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": 7}', b"null"])
def test_each_status_has_a_problem_kind_for_any_body(result, status, kind, body):
    problem = result(body, status)
    assert problem.kind is kind
    assert problem.message.endswith(".")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Kind.INVALID_ARGUMENTS), (404, Kind.UNKNOWN_TOOL), (500, Kind.TOOL_FAILED)]
)
def test_framework_statuses_mean_what_universal_tool_defines(result, status, kind):
    assert result(b"Internal Server Error", status, kind=dialect.UNIVERSAL).kind is kind


def test_the_errors_of_a_web_framework_name_the_parameters(result):
    detail = [{"loc": ["body", "a"], "msg": "must be a number", "type": "x"}, {"msg": "whole"}, "text", 7]
    problem = result({"detail": detail}, 422)
    assert problem.parameter_errors["a"] == "must be a number"
    assert problem.message == "a: must be a number; whole; text"
    assert result({"detail": "Tool not found"}, 404, kind=dialect.UNIVERSAL).message == "Tool not found"


@pytest.mark.requirement("C-10", "OXP-011")
def test_missing_requirements_come_with_the_pages_to_visit(result, vectors):
    problem = result(vectors["oxp-missing"]["body"], 400)
    assert problem.kind is Kind.MISSING_REQUIREMENTS
    assert problem.details["missing_requirements"]["authorization"][0]["url"] == "https://auth.example/start"


@pytest.mark.requirement("A-41", "OTC-032")
@pytest.mark.parametrize(
    ("headers", "body", "wait_ms"),
    [
        ({b"retry-after": b"2"}, {}, 2_000),
        ({b"retry-after": b"2", b"retry-after-ms": b"1500"}, {}, 1_500),
        ({b"retry-after": b"2"}, {"retry_after_ms": 7}, 7),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:28:04 GMT", b"date": b"Wed, 21 Oct 2026 07:28:00 GMT"}, {}, 4_000),
        ({}, {"retry_after_ms": 1500.0}, 1_500),
        ({b"retry-after": b"99999999999999"}, {}, 86_400_000),
        ({b"retry-after": b"999999999"}, {}, 86_400_000),
        ({}, {}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_busy_server_states_when_to_retry(result, status, headers, body, wait_ms):
    problem = result({"message": "Later.", **body}, status, tuple(headers.items()))
    assert (problem.message, problem.retry_after_ms, problem.can_retry) == ("Later.", wait_ms, wait_ms is not None)


@pytest.mark.requirement("A-32")
@pytest.mark.parametrize("status", [404, 405])
def test_call_is_repeated_on_the_other_path_if_the_first_is_not_served(talk, status):
    value, requests = talk(CODEC.send(peer(dialect.RFC), call()), ok(b"", status), ok({"success": True, "value": 3}))
    assert value == Value(3)
    assert [request.url for request in requests] == ["http://h/call", "http://h/tools/call"]
    assert requests[0].body == requests[1].body


def test_call_is_not_repeated_for_any_other_status(talk):
    for status in (200, 400, 401, 409, 422, 429, 500, 502, 503):
        _, requests = talk(CODEC.send(peer(dialect.OXP), call()), ok(b"", status))
        assert len(requests) == 1


def test_transport_problem_is_returned_unchanged(talk):
    problem = Problem(kind=Kind.UNREACHABLE, message="No route.")
    result, requests = talk(CODEC.send(peer(dialect.RFC), call()), problem)
    assert result is problem
    assert len(requests) == 1


def test_arguments_that_are_not_json_are_not_sent(talk):
    strange = Call(ADD, {"a": object()}, "c-1")
    problem, requests = talk(CODEC.send(peer(dialect.OXP), strange))
    assert (problem.kind, requests) == (Kind.INVALID_ARGUMENTS, [])


def test_long_error_messages_are_cut(result):
    assert len(result({"message": "x" * 100_000}, 400).message) <= 4_000


def converse(flow, respond):
    """Answer each request of ``flow``, at most three; return its value and the requests."""
    requests, response = [], None
    for _ in range(4):
        try:
            requests.append(flow.send(response))
        except StopIteration as end:
            return end.value, requests
        response = respond(requests[-1])
    raise AssertionError("the flow does not end")


ends = st.sampled_from(["result", "output", "success", "value", "error"])
reasons = st.sampled_from(
    ["message", "developer_message", "can_retry", "retry_after_ms", "parameter_errors", "details"]
)
members = ends | reasons | st.sampled_from(["missing_requirements", "detail", "msg", "loc"])
pieces = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members, inner, max_size=6),
    max_leaves=30,
)


@given(pieces.map(lambda data: json.dumps(data).encode()) | st.binary(max_size=100), st.integers(100, 599))
def test_any_response_is_a_value_or_a_problem(body, status):
    for kind in DIALECTS:
        result, _ = converse(CODEC.send(peer(kind), call()), lambda _: Response(status, (), body))
        assert isinstance(result, Value | Problem)


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
problems = st.builds(
    Problem,
    kind=st.just(Kind.TOOL_FAILED) | st.sampled_from(sorted(set(Kind)
        - {Kind.TIMEOUT, Kind.CANCELLED, Kind.INTERRUPTED, Kind.INTERNAL}
        - {Kind.ACCEPTED, Kind.UNREACHABLE, Kind.BAD_ANSWER, Kind.RATE_LIMITED, Kind.OVERLOADED})),
    message=st.text(min_size=1, max_size=20).map(str.strip).filter(bool),
    can_retry=st.booleans(),
    retry_after_ms=st.none() | st.integers(0, 1_000_000),
    additional_prompt_content=st.none() | st.text(min_size=1, max_size=9).map(str.strip).filter(bool),
    parameter_errors=st.dictionaries(st.text(max_size=3), st.just("is wrong"), max_size=2),
    details=st.dictionaries(st.sampled_from(["line", "page"]), json_data, max_size=2),
)  # fmt: skip


@pytest.mark.requirement("A-33", "OTC-026", "OTC-028")
@pytest.mark.parametrize("kind", DIALECTS[:3], ids=lambda kind: kind.title)
@settings(max_examples=60)
@given(arguments=st.dictionaries(st.text(max_size=5), json_data, max_size=3), end=json_data.map(Value) | problems)
def test_call_and_result_arrive_unchanged(kind, arguments, end):
    prefix = "/uts" if kind is dialect.UNIVERSAL else ""
    catalog = Catalog(tools=(ADD,))
    routes = CODEC.routes(catalog, Site())
    there = Peer(protocol="otc", url="http://h" + prefix, catalog=catalog, memo=Memo(dialect=kind, ids={}))
    calls = []

    def serve(request):
        path = request.url.removeprefix("http://h")
        reading = routes["POST", path].read(Request("POST", path, request.headers, request.body, "made-1"))
        assert isinstance(reading, Pending)
        calls.append(reading.call)
        return reading.reply(end, 1.0)

    sent = Call(ADD, arguments, "c-1")
    result, _ = converse(CODEC.send(there, sent), serve)
    assert result == end
    assert calls[0] == sent._replace(key="c-1")  # whose id it is, at the server


@pytest.mark.requirement("OTC-028", "A-33")
@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("where", ["top", "output", "result"])
def test_refusal_reason_is_read_in_each_answer_shape(result, status, where):
    error = {"message": "Not so.", "developer_message": "x", "parameter_errors": {"a": "no"}}
    reply = {"success": False, "error": error}
    problem = result(reply if where == "top" else {where: reply}, status)
    assert (problem.message, problem.developer_message, problem.parameter_errors) == ("Not so.", "x", {"a": "no"})
    assert problem.kind is (Kind.MALFORMED if status == 400 else Kind.INVALID_ARGUMENTS)


@pytest.mark.requirement("A-36", "A-38")
def test_a_number_after_an_id_is_a_version():
    tools = [{"id": f"C.Add@{version}", "name": "Add", "input_schema": {}} for version in ("1", "2", "2.1.0")]
    read = [definition.read(tool) for tool in tools]
    assert [(one[0].version, one[1]) for one in read] == [
        ("1.0.0", "C.Add@1"),
        ("2.0.0", "C.Add@2"),
        ("2.1.0", "C.Add@2.1.0"),
    ]
