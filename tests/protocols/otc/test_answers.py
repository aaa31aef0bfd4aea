"""How calls end on the wire: three shapes of one outcome, and refusals."""

import json

import pytest

from toolwire.core.http import get_header
from toolwire.core.model import AFTER_START, Kind, Problem, Value
from toolwire.protocols.otc import CODEC

ADD = {"request": {"tool_id": "Calculator.Add@1.0.0", "call_id": "c1", "input": {"a": 1, "b": 2}}}
FAILURE = Problem(
    kind=Kind.TOOL_FAILED,
    message="The line is busy.",
    developer_message="SECRET TRACE",
    can_retry=True,
    retry_after_ms=250,
    additional_prompt_content="Ask for another number.",
    details={"line": 4},
)


@pytest.mark.requirement("S-11", "OTC-026", "OTC-038", "OTC-036")
def test_the_rfc_puts_the_value_under_output(answer):
    status, body = answer("/call", ADD, Value(3))
    schema = body.pop("$schema")
    assert (status, body) == (200, {"call_id": "c1", "success": True, "duration": 2, "output": {"value": 3}})
    assert schema.startswith("https://github.com/")


@pytest.mark.requirement("S-10", "OXP-002")
def test_oxp_puts_everything_under_result(answer):
    assert answer("/tools/call", ADD, Value(3)) == (
        200,
        {"$schema": "urn:oxp:1.0", "result": {"call_id": "c1", "success": True, "duration": 2, "value": 3}},
    )


@pytest.mark.requirement("S-10")
@pytest.mark.parametrize("name", ["otc://1.0", "urn:oxp:1.0"])
def test_shared_path_answers_oxp_and_universal_tool_in_one_body(answer, name):
    _, body = answer("/tools/call", {"$schema": name, **ADD}, Value(3))
    outcome = {"call_id": "c1", "success": True, "duration": 2, "value": 3}
    assert body == {"$schema": name, **outcome, "result": outcome}


@pytest.mark.requirement("S-13", "A-33")
def test_universal_tool_answer_is_flat(answer):
    _, body = answer("/uts/tools/call", ADD, Value(3))
    assert body == {"$schema": "otc://1.0", "call_id": "c1", "success": True, "duration": 2, "value": 3}


@pytest.mark.requirement("A-43", "S-12")
def test_missing_output_is_written_as_null(answer):
    _, body = answer("/call", ADD, Value(None))
    assert body["output"] == {"value": None}


@pytest.mark.requirement("OTC-027", "OTC-026")
@pytest.mark.parametrize("value", [{}, {"a": [1]}, [], [1], "é\u2028", 0, -1.5, True, False, 2**70])
def test_any_json_value_is_answered_with_whole_milliseconds(answer, value):
    _, body = answer("/call", ADD, Value(value), 7.6)
    assert body["output"]["value"] == value
    assert type(body["output"]["value"]) is type(value)
    assert (body["duration"], type(body["duration"])) == (8, int)


@pytest.mark.requirement("OTC-041", "OTC-028", "OTC-030", "OTC-031", "OTC-032", "S-12")
@pytest.mark.parametrize("path", ["/call", "/tools/call", "/uts/tools/call"])
def test_a_tool_that_failed_is_200_with_success_false(answer, path):
    status, body = answer(path, ADD, FAILURE)
    outcome = body.get("result", body)
    assert (status, outcome["success"]) == (200, False)
    assert "value" not in outcome
    assert body.get("output", outcome)["error"] == {
        "message": "The line is busy.",
        "can_retry": True,
        "retry_after_ms": 250,
        "additional_prompt_content": "Ask for another number.",
        "details": {"line": 4},
    }


@pytest.mark.requirement("OTC-029", "A-53")
@pytest.mark.parametrize("kind", list(Kind))
def test_the_developer_message_is_never_sent(answer, ask, kind):
    problem = Problem(kind=kind, message="No.", developer_message="SECRET TRACE")
    for response in (CODEC.refuse(problem), ask("/call", ADD).reply(problem, 0.0)):
        assert b"SECRET" not in response.body


@pytest.mark.requirement("OTC-041", "A-41")
@pytest.mark.parametrize("kind", sorted(AFTER_START))
def test_problem_of_a_started_tool_is_answered_with_200(answer, kind):
    status, body = answer("/call", ADD, Problem(kind=kind, message=""))
    assert status == 200
    assert body["output"]["error"] == {"message": "The tool failed.", "can_retry": False}


@pytest.mark.requirement("OXP-009", "OTC-040")
def test_invalid_arguments_are_422_with_each_one_named(answer):
    problem = Problem(kind=Kind.INVALID_ARGUMENTS, message="a: no.", parameter_errors={"a": "must be a number"})
    status, body = answer("/tools/call", ADD, problem)
    assert status == 422
    assert (body["$schema"], body["message"]) == ("urn:oxp:1.0", "a: no.")
    assert body["parameter_errors"] == {"a": "must be a number"}


@pytest.mark.requirement("A-41", "S-12")
@pytest.mark.parametrize(
    ("kind", "status", "wait_ms", "seconds"),
    [
        (Kind.RATE_LIMITED, 429, 1500, "2"),
        (Kind.OVERLOADED, 503, None, "1"),
        (Kind.OVERLOADED, 503, 2000, "2"),
        (Kind.OVERLOADED, 503, 0, "0"),
    ],
)
def test_retryable_refusal_states_when_to_retry(kind, status, wait_ms, seconds):
    response = CODEC.refuse(Problem(kind=kind, message="Later.", retry_after_ms=wait_ms, can_retry=True))
    assert response.status == status
    assert get_header(response.headers, b"retry-after") == seconds
    assert get_header(response.headers, b"x-should-retry") == ""
    assert json.loads(response.body)["can_retry"] is True


@pytest.mark.requirement("S-12", "A-41")
@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.RATE_LIMITED, Kind.OVERLOADED}))
def test_other_errors_ask_not_to_be_retried(ask, kind):
    for response in (
        CODEC.refuse(Problem(kind=kind, message="No.")),
        ask("/call", ADD).reply(Problem(kind=kind, message="No."), 0.0),
    ):
        assert get_header(response.headers, b"x-should-retry") == "false"


@pytest.mark.requirement("SE-04", "S-12")
@pytest.mark.parametrize("kind", sorted(set(Kind)))
def test_no_answer_says_both_that_a_retry_helps_and_that_it_does_not(ask, kind):
    problem = Problem(kind=kind, message="Later.", can_retry=True)
    for response in (CODEC.refuse(problem), *(ask(path, ADD).reply(problem, 0.0) for path in ("/call", "/tools/call"))):
        assert b'"can_retry":true' in response.body
        assert get_header(response.headers, b"x-should-retry") != "false"


@pytest.mark.requirement("SE-04", "OTC-044")
def test_each_answer_states_the_version_of_the_standard(ask):
    answers = [ask("/health"), ask("/tools"), CODEC.refuse(Problem(kind=Kind.NOT_FOUND, message="No."))]
    for path in ("/call", "/tools/call"):
        answers += [ask(path, ADD).reply(Value(3), 0.0), ask(path, {"request": 1}), ask(path, b"{")]
    assert all(isinstance(json.loads(answer.body)["$schema"], str) for answer in answers)


@pytest.mark.requirement("S-7", "OXP-010", "A-40", "OTC-042")
def test_a_missing_key_is_401_with_a_challenge():
    response = CODEC.refuse(Problem(kind=Kind.UNAUTHORIZED, message="Send a key."))
    assert response.status == 401
    assert get_header(response.headers, b"www-authenticate") == "Bearer"
    body = json.loads(response.body)
    assert (body["error"], body["message"]) == ("unauthorized", "Send a key.")
    assert body["$schema"]


@pytest.mark.requirement("OTC-040")
@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_problem_has_a_refusal(kind):
    response = CODEC.refuse(Problem(kind=kind, message="No."))
    assert 400 <= response.status <= 503
    assert get_header(response.headers, b"content-type") == "application/json"
    assert json.loads(response.body)["message"] == "No."
