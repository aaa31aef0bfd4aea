"""What real OpenTool implementations do differently is mended before it is read."""

from typing import Any

import pytest

from toolwire.protocols.opentool import quirks


def answer(data: Any) -> Any:
    return quirks.mend(data, quirks.ANSWER)


def mend_document(data: Any) -> Any:
    return quirks.mend(data, quirks.DOCUMENT)


@pytest.mark.requirement("C-6", "A-24")
def test_version_number_is_read_as_version() -> None:
    assert quirks.mend({"versionNumber": "0.1"}, quirks.VERSION) == {"version": "0.1"}
    assert quirks.mend({"version": "N/A"}, quirks.VERSION) == {"version": "N/A"}


@pytest.mark.requirement("C-5", "A-21")
@pytest.mark.parametrize("none", [None, {}, {"code": 404, "message": "Json Parser NOT implement"}])
def test_each_notation_for_no_description_is_read(none: Any) -> None:
    assert mend_document(none) == {}


@pytest.mark.requirement("C-4")
def test_null_members_are_treated_as_absent() -> None:
    parameter = {"name": "q", "schema": {"type": "string", "enum": None}, "x-json-schema": {"default": None}}
    assert mend_document({"functions": [parameter], "schemas": None}) == {
        "functions": [{"name": "q", "schema": {"type": "string"}, "x-json-schema": {"default": None}}]
    }


@pytest.mark.requirement("C-3", "A-12", "OTRPC-009", "OTRPC-010")
def test_error_beside_a_result_wins_and_null_is_ignored() -> None:
    assert answer({"result": {"a": 1}, "error": None}) == {"result": {"a": 1}}
    assert answer({"result": {}, "error": {"code": 1}}) == {"error": {"code": 1}}
    assert answer({"result": None, "error": {"code": 1}}) == {"error": {"code": 1}}


@pytest.mark.requirement("C-7", "A-22")
def test_result_in_the_form_of_an_error_is_an_error() -> None:
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
def test_result_that_only_resembles_an_error_stays_a_result(data: Any) -> None:
    assert "result" in answer(data)


@pytest.mark.requirement("C-7", "A-23")
def test_error_message_with_json_inside_is_unwrapped_once() -> None:
    held = '{"code":500,"message":"Error: Fatal"}'
    assert answer({"error": {"code": 500, "message": held}}) == {"error": {"code": 500, "message": "Error: Fatal"}}
    for stored in ("{not json", '{"other": 1}', '["message"]'):
        assert answer({"error": {"message": stored}})["error"]["message"] == stored


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
def test_stack_trace_is_removed_from_the_error_message(stack: str) -> None:
    assert answer({"error": {"message": stack}})["error"]["message"] == "boom"


def test_error_message_that_is_only_a_stack_trace_is_kept() -> None:
    assert answer({"error": {"message": "\n   at X"}})["error"]["message"] == "\n   at X"


def test_error_that_is_a_text_becomes_its_message() -> None:
    assert answer({"error": "Invalid API key"}) == {"error": {"message": "Invalid API key"}}


@pytest.mark.parametrize("data", [None, 7, "x", [], {}, {"error": 7}, {"result": None}, {"error": {"message": 7}}])
def test_data_without_a_known_quirk_is_unchanged(data: Any) -> None:
    assert answer(data) == data


@pytest.mark.parametrize("quirk", [*quirks.VERSION, *quirks.DOCUMENT, *quirks.ANSWER])
def test_each_quirk_states_where_it_was_observed(quirk: quirks.Quirk) -> None:
    assert quirk.seen_in
    assert quirk.what
