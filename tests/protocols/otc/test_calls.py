"""POST /call and /tools/call, up to the moment a tool would run: what is read, and what is refused."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolwire.core.check import Allow, Deny
from toolwire.core.codec import Pending
from toolwire.core.http import Response
from toolwire.core.model import Secret, Value
from toolwire.validation import check_requirements

ADD = {"tool_id": "Calculator.Add@1.0.0", "input": {"a": 1, "b": 2}}
PATHS = ("/call", "/tools/call", "/uts/tools/call")


@pytest.fixture
def call(ask):
    def called(request, path="/call", **more):
        reading = ask(path, {"request": request, **more})
        assert isinstance(reading, Pending), reading
        return reading.call

    return called


@pytest.fixture
def read_refusal(ask):
    def refusal(body, path="/call", **how):
        response = ask(path, body, **how)
        if isinstance(response, Pending):
            verdict = check_requirements(response.call)
            assert isinstance(verdict, Deny), response
            response = response.reply(verdict.problem, 0.0)
        assert isinstance(response, Response), response
        return response.status, json.loads(response.body)

    return refusal


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.requirement("OTC-021", "OTC-036", "OTC-037", "OXP-001", "A-32")
def test_a_call_is_read_on_every_path(call, path):
    found = call({**ADD, "call_id": "c-1"}, path)
    assert (found.tool.id, found.arguments, found.call_id) == ("Calculator.Add@1.0.0", {"a": 1, "b": 2}, "c-1")


@pytest.mark.requirement("OTC-019", "OTC-024", "A-37")
@pytest.mark.parametrize("none", [{}, {"call_id": None}, {"call_id": ""}])
def test_call_without_an_id_gets_the_request_id(call, none):
    assert call({**ADD, **none}).call_id == "made-1"


@pytest.mark.requirement("OTC-025", "OXP-007", "A-38", "S-14")
@pytest.mark.parametrize(
    ("reference", "version"),
    [
        ("Calculator.Add@1.0.0", "1.0.0"),
        ("Calculator.Add@1", "1.0.0"),
        ("Calculator.Add@2", "2.0.0"),
        ("Calculator.Add", "2.0.0"),
        ("Add", "2.0.0"),
        ("Add@1", "1.0.0"),
    ],
)
def test_version_in_a_call_is_exact_or_a_major_or_the_newest(call, reference, version):
    assert call({"tool_id": reference}).tool.version == version


@pytest.mark.requirement("OXP-008", "A-39", "OTC-040")
@pytest.mark.parametrize(
    "reference",
    ["Nope.Nope", "Calculator.Add@3", "Calculator.Add@1.0", "Calculator.Add@v1", "Add@-1", "", "@", "x" * 999],
)
def test_an_unknown_tool_is_400_with_a_sentence(read_refusal, reference):
    status, body = read_refusal({"request": {"tool_id": reference}})
    assert (status, body["error"]) == (400, "unknown_tool")
    assert len(body["message"]) < 500


@pytest.mark.requirement("OTC-022", "A-31")
def test_input_and_inputs_are_synonyms(call, read_refusal):
    for request in (
        {"inputs": {"a": 1}},
        {"input": {"a": 1}, "inputs": {"a": 1}},
        {"input": None, "inputs": {"a": 1}},
        {"input": {"a": 1}, "inputs": None},
    ):
        assert call({"tool_id": "Add", **request}).arguments == {"a": 1}
    for other in (2, True, "1"):
        status, body = read_refusal({"request": {"tool_id": "Add", "input": {"a": 1}, "inputs": {"a": other}}})
        assert status == 400
        assert "different" in body["message"]


def test_a_call_without_input_has_no_arguments(call):
    assert call({"tool_id": "Ring"}).arguments == {}


@pytest.mark.requirement("OTC-020")
def test_a_trace_id_reaches_the_context(call):
    found = call({**ADD, "trace_id": "t-1"})
    assert (found.context.trace_id, found.context.call_id) == ("t-1", "made-1")


@pytest.mark.requirement("OTC-043", "S-4")
def test_unknown_members_of_a_call_are_ignored(call):
    assert call({**ADD, "colour": "red", "toolkit": {}}, more=1).arguments == {"a": 1, "b": 2}


@pytest.mark.requirement("OTC-014")
@pytest.mark.parametrize("more", [{}, {"context": {}}, {"context": None}])
def test_tool_without_requirements_needs_no_context(call, more):
    found = call({**ADD, **more})
    assert isinstance(check_requirements(found), Allow)
    assert (found.context.tokens, found.context.secrets, found.context.user_id) == ({}, {}, None)


@pytest.mark.requirement("OTC-023")
def test_context_that_no_tool_requires_is_accepted(call):
    context = {
        "authorization": [{"id": "google", "token": "t", "expires": 1}],
        "secrets": {"KEY": "s"},
        "user_id": "u",
        "user_info": {"name": "Ann"},
    }
    found = call({**ADD, "context": context}).context
    assert found.tokens == {"google": Secret("t")}
    assert found.secrets == {"KEY": Secret("s")}
    assert (found.user_id, found.user_info) == ("u", {"name": "Ann"})


@pytest.mark.requirement("A-44", "OXP-014")
@pytest.mark.parametrize("secrets", [[{"id": "TWILIO_API_KEY", "value": "s3"}], {"TWILIO_API_KEY": "s3"}])
def test_secrets_are_read_from_a_list_or_a_map_and_never_printed(call, secrets):
    found = call({"tool_id": "SMS.Send", "context": {"secrets": secrets, "user_id": "u"}})
    assert found.context.secrets["TWILIO_API_KEY"].reveal() == "s3"
    assert "s3" not in repr(found)


@pytest.mark.requirement("OXP-011", "OXP-008", "OTC-015")
def test_missing_requirements_are_named_before_the_tool_runs(read_refusal):
    status, body = read_refusal({"request": {"tool_id": "SMS.Send", "context": {"secrets": {"TWILIO_API_KEY": ""}}}})
    assert (status, body["error"]) == (400, "missing_requirements")
    assert body["missing_requirements"] == {"secrets": [{"id": "TWILIO_API_KEY"}], "user_id": True}
    assert "the secret TWILIO_API_KEY, a user_id" in body["message"]


@pytest.mark.requirement("OXP-011")
def test_a_missing_token_comes_with_the_page_to_visit(read_refusal):
    status, body = read_refusal({"request": {"tool_id": "Gmail.GetEmails"}}, "/tools/call")
    assert status == 400
    assert body["missing_requirements"] == {"authorization": [{"id": "google", "url": "https://auth.example/start"}]}


@pytest.mark.requirement("OTC-040", "OXP-008")
@pytest.mark.parametrize(
    "request_",
    [
        7,
        None,
        [],
        {},
        {"tool_id": 7},
        {"tool_id": ["Add"]},
        {"tool_id": "Add", "input": []},
        {"tool_id": "Add", "inputs": "a"},
        {"tool_id": "Add", "call_id": 7},
        {"tool_id": "Add", "call_id": False},
        {"tool_id": "Add", "call_id": "x" * 256},
        {"tool_id": "Add", "trace_id": {}},
        {"tool_id": "Add", "context": []},
        {"tool_id": "Add", "context": {"authorization": "t"}},
        {"tool_id": "Add", "context": {"authorization": ["t"]}},
        {"tool_id": "Add", "context": {"secrets": [{"id": "a"}]}},
        {"tool_id": "Add", "context": {"secrets": {"a": 1}}},
        {"tool_id": "Add", "context": {"user_id": 7}},
        {"tool_id": "Add", "context": {"user_info": "Ann"}},
    ],
)
def test_a_member_of_the_wrong_type_is_400_and_named(read_refusal, request_):
    status, body = read_refusal({"request": request_})
    assert (status, body["error"]) == (400, "malformed")
    assert "must be" in body["message"] or "must name" in body["message"] or "needs" in body["message"]


@pytest.mark.requirement("OTC-039")
def test_call_without_a_schema_is_read_and_answered_as_the_latest_version(ask, call):
    latest = json.loads(ask("/tools").body)["$schema"]
    reading = ask("/call", {"request": ADD})
    named = ask("/call", {"$schema": latest, "request": ADD})
    assert reading.call.tool.id == named.call.tool.id
    assert reading.reply(Value(3), 1.0).body == named.reply(Value(3), 1.0).body


@pytest.mark.requirement("OTC-044", "OXP-013", "A-48")
@pytest.mark.parametrize(
    "name",
    [
        "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json",
        "urn:oxp:1.0",
        "otc://1.0",
    ],
)
def test_answer_and_refusal_repeat_the_schema_of_the_request(ask, read_refusal, name):
    reading = ask("/call", {"$schema": name, "request": ADD})
    assert json.loads(reading.reply(Value(3), 1.0).body)["$schema"] == name
    assert read_refusal({"$schema": name, "request": {"tool_id": "?"}})[1]["$schema"] == name


@pytest.mark.requirement("OXP-013", "A-48")
def test_schema_of_another_minor_version_is_accepted_and_of_another_major_refused(ask, read_refusal):
    for name in ("urn:oxp:1.7", "otc://1.0.3", "https://example.com/my-schema", "", None):
        assert isinstance(ask("/call", {"$schema": name, "request": ADD}), Pending)
    later = "https://github.com/x/y/specification/http/2.0/openapi.json"
    for name in ("urn:oxp:99.0", "otc://2.0", later, "urn:oxp:0.9", 7, ["urn:oxp:1.0"]):
        status, body = read_refusal({"$schema": name, "request": ADD})
        assert (status, body["error"]) == (400, "malformed")


@pytest.mark.requirement("A-48")
@pytest.mark.parametrize("path", ["/call", "/tools/call"])
@pytest.mark.parametrize(
    ("wanted", "family"),
    [
        ("urn:oxp:2.0", "urn:oxp:1.0"),
        ("otc://2.0", "otc://1.0"),
        (
            "https://github.com/x/y/specification/http/2.0/openapi.json",
            "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json",
        ),
    ],
)
def test_unsupported_version_is_refused_with_the_schema_of_its_family(read_refusal, path, wanted, family):
    status, body = read_refusal({"$schema": wanted, "request": ADD}, path)
    assert (status, body["$schema"]) == (400, family)
    assert family in body["message"]


@pytest.mark.requirement("S-10")
def test_universal_tool_client_gets_its_members_beside_those_of_oxp(ask):
    agent = (b"user-agent", b"universal-tool-sdk-py/0.0.2")
    json_ = (b"content-type", b"application/json")
    data = json.loads(ask("/tools/call", {"request": ADD}, (json_, agent)).reply(Value(3), 1.0).body)
    assert (data["value"], data["result"]["value"], data["success"]) == (3, 3, True)
    assert "value" not in json.loads(ask("/tools/call", {"request": ADD}).reply(Value(3), 1.0).body)


@pytest.mark.requirement("S-16", "A-29")
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"null", b'{"request": NaN}', b"\xff", b"[" * 5_000])
def test_a_body_that_is_no_json_object_is_400_with_the_schema(read_refusal, body):
    status, answer = read_refusal(body)
    assert (status, answer["error"]) == (400, "malformed")
    assert answer["$schema"]


@pytest.mark.requirement("A-29")
def test_another_content_type_is_415(read_refusal):
    status, body = read_refusal({"request": ADD}, headers=((b"content-type", b"text/plain"),))
    assert (status, body["error"]) == (415, "unsupported_type")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=300), path=st.sampled_from(PATHS))
def test_any_bytes_are_answered(ask, body, path):
    assert isinstance(ask(path, body), Response | Pending)


names = st.sampled_from(
    [
        "request",
        "tool_id",
        "input",
        "inputs",
        "call_id",
        "trace_id",
        "context",
        "authorization",
        "secrets",
        "id",
        "$schema",
    ]
)
values = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["Add", "SMS.Send", "x"])
)
bodies = st.recursive(
    values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6), max_leaves=20
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=st.dictionaries(names, bodies, max_size=6), schema=bodies, path=st.sampled_from(PATHS))
def test_any_members_are_answered(ask, request, schema, path):
    reading = ask(path, {"$schema": schema, "request": {"tool_id": "Add", **request}})
    assert isinstance(reading, Pending) or reading.status in (400, 422)
