"""What real OpenTool implementations do differently is mended before it is read."""

from typing import Any

import pytest

from toolwire.protocols.opentool import quirks


def answer(data: Any) -> Any:
    return quirks.mend(data, quirks.ANSWER)


def described(data: Any) -> Any:
    return quirks.mend(data, quirks.DOCUMENT)


@pytest.mark.requirement("C-6", "A-24")
def test_a_version_may_be_called_version_number() -> None:
    assert quirks.mend({"versionNumber": "0.1"}, quirks.VERSION) == {"version": "0.1"}
    assert quirks.mend({"version": "N/A"}, quirks.VERSION) == {"version": "N/A"}


@pytest.mark.requirement("C-5", "A-21")
@pytest.mark.parametrize("none", [None, {}, {"code": 404, "message": "Json Parser NOT implement"}])
def test_no_description_is_said_in_three_ways(none: Any) -> None:
    assert described(none) == {}


@pytest.mark.requirement("C-4")
def test_members_that_are_null_are_as_if_they_were_not_there() -> None:
    parameter = {"name": "q", "schema": {"type": "string", "enum": None}, "x-json-schema": {"default": None}}
    assert described({"functions": [parameter], "schemas": None}) == {
        "functions": [{"name": "q", "schema": {"type": "string"}, "x-json-schema": {"default": None}}]
    }


@pytest.mark.requirement("C-3", "A-12", "OTRPC-009", "OTRPC-010")
def test_an_error_may_stand_beside_a_result_and_null_beside_either() -> None:
    assert answer({"result": {"a": 1}, "error": None}) == {"result": {"a": 1}}
    assert answer({"result": {}, "error": {"code": 1}}) == {"error": {"code": 1}}
    assert answer({"result": None, "error": {"code": 1}}) == {"error": {"code": 1}}


@pytest.mark.requirement("C-7", "A-22")
def test_a_result_that_is_an_error_is_one() -> None:
    result = {"code": 405, "message": "Function Not Supported: nope"}
    assert answer({"result": result}) == {"error": result}


@pytest.mark.requirement("A-22")
@pytest.mark.parametrize(
    "data",
    [
        {"result": {"code": 405, "message": "m"}, "error": None},
        {"result": {"code": 200, "message": "m"}},
        {"result": {"code": 405, "message": "m", "more": 1}},
        {"result": {"code": "405", "message": "m"}},
    ],
)
def test_a_result_that_only_looks_a_little_like_an_error_is_a_result(data: Any) -> None:
    assert "result" in answer(data)


@pytest.mark.requirement("C-7", "A-23")
def test_a_message_that_holds_json_is_unwrapped_once() -> None:
    held = '{"code":500,"message":"Error: Fatal"}'
    assert answer({"error": {"code": 500, "message": held}}) == {"error": {"code": 500, "message": "Error: Fatal"}}
    for kept in ("{not json", '{"other": 1}', '["message"]'):
        assert answer({"error": {"message": kept}})["error"]["message"] == kept


@pytest.mark.requirement("C-7")
@pytest.mark.parametrize(
    "stack",
    [
        "boom\r\n   at Mock.Call(String name)\r\n   at Server.Handle()",
        "boom\n    at Object.<anonymous> (tool.js:1:7)",
        "boom\n\tat org.example.Tool.run(Tool.java:7)",
        "boom\nTraceback (most recent call last):\n  File ...",
    ],
)
def test_a_stack_trace_does_not_reach_the_model(stack: str) -> None:
    assert answer({"error": {"message": stack}})["error"]["message"] == "boom"


def test_a_message_that_is_nothing_but_a_stack_is_kept() -> None:
    assert answer({"error": {"message": "\n   at X"}})["error"]["message"] == "\n   at X"


def test_an_error_that_is_a_text_is_its_message() -> None:
    assert answer({"error": "Invalid API key"}) == {"error": {"message": "Invalid API key"}}


@pytest.mark.parametrize("data", [None, 7, "x", [], {}, {"error": 7}, {"result": None}, {"error": {"message": 7}}])
def test_what_no_quirk_knows_stays_as_it_is(data: Any) -> None:
    assert answer(data) == data


@pytest.mark.parametrize("quirk", [*quirks.VERSION, *quirks.DOCUMENT, *quirks.ANSWER])
def test_each_row_says_where_it_was_seen(quirk: quirks.Quirk) -> None:
    assert quirk.seen_in
    assert quirk.what
