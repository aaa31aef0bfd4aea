"""Whatever comes over the wire: the server answers, and the client gives a result or one of its exceptions."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Flow, Pending, Site, Streaming
from toolwire.core.http import JSON_HEADERS, Request, Response
from toolwire.opentool import FunctionCall, OpenToolException
from toolwire.opentool.flows import ask_version, call_function, load_document
from toolwire.opentool.object_toolbox import ANY
from toolwire.opentool.serve_object import build_toolbox
from toolwire.opentool.wire import add_stop, build_codec
from toolwire.protocols.opentool import quirks

from .conftest import DOCUMENT, Notes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = (
    "jsonrpc",
    "method",
    "params",
    "id",
    "result",
    "error",
    "code",
    "message",
    "version",
    "functions",
    "opentool",
)
OBJECTS = st.dictionaries(st.sampled_from(MEMBERS), VALUES).map(lambda data: json.dumps(data).encode())
BODIES = st.binary() | VALUES.map(lambda data: json.dumps(data).encode()) | OBJECTS
CALL = json.dumps({"jsonrpc": "2.0", "method": "count", "params": {}, "id": "1"}).encode()

BOX = build_toolbox(Notes(DOCUMENT))
DESCRIBED = build_codec(BOX.document).routes(BOX.catalog(), Site())
OPEN = build_codec(None).routes(Catalog(), Site())


@pytest.mark.parametrize("routes", [DESCRIBED, OPEN], ids=["described", "open"])
@pytest.mark.parametrize("path", ["/opentool/call", "/opentool/streamCall"])
@given(body=BODIES)
@pytest.mark.requirement("S-5", "S-16")
def test_any_body_is_answered_or_is_a_call(routes: Any, path: str, body: bytes) -> None:
    reading = routes["POST", path].read(Request("POST", path, JSON_HEADERS, body, "r1"))
    if isinstance(reading, Response):
        assert reading.status < 500
        assert reading.status != 200 or b"error" in reading.body
    else:
        assert isinstance(reading, Pending | Streaming)


@given(name=st.text(min_size=1), arguments=st.dictionaries(st.text(), VALUES), id_=st.text())
@pytest.mark.requirement("OTRPC-006", "OTRPC-014", "I-06")
def test_any_name_and_arguments_reach_a_tool_without_a_document(name: str, arguments: dict[str, Any], id_: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "method": name, "params": arguments, "id": id_}, ensure_ascii=False)
    try:
        raw = body.encode()
    except UnicodeEncodeError:
        return
    reading = OPEN["POST", "/opentool/call"].read(Request("POST", "/opentool/call", JSON_HEADERS, raw, "r1"))
    assert isinstance(reading, Pending)
    assert reading.call.tool is ANY
    assert reading.call.arguments == {"name": name, "arguments": json.loads(body)["params"]}


@given(st.lists(st.tuples(st.binary(min_size=1), st.binary())))
@pytest.mark.requirement("S-17")
def test_nothing_but_the_admin_key_stops_a_server(fields: list[tuple[bytes, bytes]]) -> None:
    stopped: list[bool] = []
    routes = add_stop(build_codec(None), "the-admin-key", lambda: stopped.append(True)).routes(Catalog(), Site())
    answer = routes["POST", "/opentool/stop"].read(Request("POST", "/opentool/stop", fields, b"", "r1"))
    assert isinstance(answer, Response)
    assert (answer.status, stopped) == (401, [])


def hear(flow: Flow[Any], response: Response) -> Any:
    """Return what ``flow`` makes of ``response``."""
    assert isinstance(flow.send(None), Request)
    try:
        flow.send(response)
    except StopIteration as end:
        return end.value
    raise AssertionError("one request is enough")


@given(status=st.integers(100, 599), body=BODIES)
@pytest.mark.requirement("OTRPC-028", "C-3")
def test_any_response_is_a_result_or_an_sdk_exception(status: int, body: bytes) -> None:
    response = Response(status, JSON_HEADERS, body)
    call = FunctionCall("1", "f", {})
    for flow in (call_function("http://x", call, quirks.ANSWER), ask_version("http://x"), load_document("http://x")):
        with suppress(OpenToolException):
            hear(flow, response)


@given(result=st.dictionaries(st.text(), VALUES).filter(lambda result: set(result) != {"code", "message"}))
@pytest.mark.requirement("OTRPC-009", "OTRPC-019")
def test_result_object_is_returned_unchanged(result: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", "result": result, "error": None, "id": "1"}).encode()
    reply = hear(call_function("http://x", FunctionCall("1", "f"), quirks.ANSWER), Response(200, JSON_HEADERS, body))
    assert reply.result == json.loads(body)["result"]
