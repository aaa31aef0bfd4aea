"""What a client sends and gets, to JSON and back, in both spellings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.errors import ToolwireError
from toolwire.opentool import (
    ErrorNullException,
    FunctionCall,
    FunctionNotSupportedException,
    InvalidArgumentsException,
    OpenToolException,
    OpenToolServerCallException,
    OpenToolServerNoAccessException,
    OpenToolServerUnauthorizedException,
    ResponseNullException,
    ToolBreakException,
    ToolReturn,
    Version,
)

OBJECTS = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()))


@given(st.text(), st.text(), OBJECTS)
@pytest.mark.requirement("OTRPC-018")
def test_function_call_survives_a_json_round_trip(id_: str, name: str, arguments: dict[str, Any]) -> None:
    call = FunctionCall(id_, name, arguments)
    data = json.loads(json.dumps(call.to_json()))
    assert data == {"id": id_, "name": name, "arguments": arguments} == call.toJson()
    assert FunctionCall.from_json(data) == call == FunctionCall.fromJson(data)


@given(st.text(), OBJECTS)
@pytest.mark.requirement("OTRPC-019")
def test_tool_return_survives_a_json_round_trip(id_: str, result: dict[str, Any]) -> None:
    reply = ToolReturn(id_, result)
    data = json.loads(json.dumps(reply.to_json()))
    assert data == {"id": id_, "result": result} == reply.toJson()
    assert ToolReturn.from_json(data) == reply == ToolReturn.fromJson(data)


@pytest.mark.requirement("OTRPC-015")
def test_version_survives_a_json_round_trip_and_prints_as_text() -> None:
    assert Version.fromJson({"version": "1.0.0"}) == Version.from_json(Version("1.0.0").toJson())
    assert str(Version("1.0.0")) == "1.0.0"


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (FunctionCall, {"id": 7, "name": "f", "arguments": {}}, "'id' must be a string, not a number"),
        (FunctionCall, {"id": "1", "arguments": {}}, "'name' must be a string, not null"),
        (FunctionCall, {"id": "1", "name": "f", "arguments": []}, "'arguments' must be an object, not an array"),
        (ToolReturn, {"id": "1", "result": "x"}, "'result' must be an object, not a string"),
        (Version, {}, "'version' must be a string, not null"),
    ],
)
def test_invalid_message_data_is_refused_by_member_name(kind: Any, data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind.from_json(data)


SPECIFIED = [
    (ResponseNullException(200), {"code": 200, "message": "Response is null"}),
    (ResponseNullException(), {"code": 500, "message": "Response is null"}),
    (ErrorNullException(200), {"code": 200, "message": "Error is null"}),
    (ErrorNullException(), {"code": 500, "message": "Error is null"}),
    (
        OpenToolServerUnauthorizedException(),
        {"code": 401, "message": "Please check API Key is VALID or NOT"},
    ),
    (
        OpenToolServerNoAccessException(),
        {"code": 404, "message": "Please check OpenTool Server is RUNNING or NOT"},
    ),
    (OpenToolServerCallException("no"), {"message": "no"}),
    (FunctionNotSupportedException("f"), {"code": 405, "message": "Function Not Supported: f"}),
    (InvalidArgumentsException({"a": "é"}), {"code": 400, "message": 'Invalid Arguments: {"a":"é"}'}),
    (InvalidArgumentsException(), {"code": 400, "message": "Invalid Arguments: null"}),
    (InvalidArgumentsException("b is missing"), {"code": 400, "message": "b is missing"}),
    (ToolBreakException("stop"), {"code": 500, "message": "stop"}),
    (ToolBreakException(), {"code": 500, "message": "Tool break exception"}),
]


@pytest.mark.parametrize(("error", "data"), SPECIFIED, ids=lambda value: type(value).__name__)
@pytest.mark.requirement(
    "OTRPC-022", "OTRPC-023", "OTRPC-024", "OTRPC-025", "OTRPC-026", "OTRPC-027", "OTRPC-028", "A-26"
)
def test_each_exception_is_written_exactly_as_specified(error: OpenToolException, data: dict[str, Any]) -> None:
    assert error.to_json() == data == error.toJson()
    assert list(json.loads(json.dumps(error.to_json()))) == list(data)
    assert str(error) == data["message"]
    assert isinstance(error, OpenToolException)
    assert isinstance(error, ToolwireError)


def test_unserializable_arguments_are_not_shown() -> None:
    assert InvalidArgumentsException({"a": object()}).message == "Invalid Arguments: they are not JSON data"
