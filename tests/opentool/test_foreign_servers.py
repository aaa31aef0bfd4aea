"""Our client against servers that answer as the other SDKs' do, and as broken ones do; async and sync alike."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from toolwire.opentool import (
    ErrorNullException,
    FunctionCall,
    OpenTool,
    OpenToolClient,
    OpenToolException,
    OpenToolServerCallException,
    OpenToolServerNoAccessException,
    OpenToolServerUnauthorizedException,
    ResponseNullException,
    SyncOpenToolClient,
    ToolReturn,
    Version,
)
from toolwire.protocols.opentool import quirks

from .foreign_servers import (
    KEY,
    NO_PARSER,
    STACK,
    Asked,
    Said,
    build_fixed_answer,
    dart,
    dotnet8,
    java,
    java_described,
    netfx,
    run_server,
    text,
    typescript,
)

SERVERS: list[Callable[[Asked], Said]] = [typescript, java, dart, dotnet8, netfx]
CREATE = FunctionCall("callId-0", "create", {"text": "héllo"})

Ask = Callable[..., Any]


def ask_blocking(url: str, method: str, *arguments: Any, **options: Any) -> Any:
    with SyncOpenToolClient(url, **options) as client:
        return getattr(client, method)(*arguments)


def ask_async(url: str, method: str, *arguments: Any, **options: Any) -> Any:
    async def asking() -> Any:
        async with OpenToolClient(url, **options) as client:
            return await getattr(client, method)(*arguments)

    return asyncio.run(asking())


@pytest.fixture(params=[ask_blocking, ask_async], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    found: Ask = request.param
    return found


@pytest.fixture(params=SERVERS, ids=lambda server: server.__name__)
def server(request: pytest.FixtureRequest) -> Callable[[Asked], Said]:
    found: Callable[[Asked], Said] = request.param
    return found


@pytest.mark.requirement("OTRPC-015", "OTRPC-016", "OTRPC-017", "C-1", "A-24", "A-25")
def test_client_reads_version_call_and_document_of_every_sdk_server(server: Callable[[Asked], Said], ask: Ask) -> None:
    with run_server(server) as there:
        version = ask(there.url, "version", api_key=KEY)
        assert isinstance(version, Version)
        assert version.version in ("0.0.1", "1.0.0", "N/A")
        assert ask(there.url, "call", CREATE, api_key=KEY) == ToolReturn("callId-0", {"id": 1})
        assert ask(there.url, "load", api_key=KEY) is None


@pytest.mark.requirement("OTRPC-004", "OTRPC-005", "OTRPC-006", "OTRPC-007", "OTRPC-008", "C-1")
def test_call_is_sent_as_specified(ask: Ask) -> None:
    with run_server(typescript) as there:
        ask(there.url, "call", CREATE, api_key=KEY)
    (asked,) = there.asked
    assert (asked.method, asked.path) == ("POST", "/opentool/call")
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    body = {"jsonrpc": "2.0", "method": "create", "params": {"text": "héllo"}, "id": "callId-0"}
    assert json.loads(asked.body) == body


@pytest.mark.parametrize("ending", ["", "/", "/opentool", "/opentool/", "/opentool/call"])
@pytest.mark.requirement("A-08", "C-8")
def test_pasted_url_is_accepted_in_each_form(ending: str) -> None:
    with run_server(netfx) as there:
        assert ask_blocking(there.url + ending, "version", api_key=KEY) == Version("1.0.0")


def test_host_and_port_can_replace_a_url() -> None:
    with run_server(netfx) as there, SyncOpenToolClient(port=int(there.url[-5:].strip(":")), api_key=KEY) as client:
        assert client.version() == Version("1.0.0")
    with pytest.raises(ValueError, match="not both"):
        SyncOpenToolClient("http://127.0.0.1:9627", port=9627)
    with SyncOpenToolClient() as usual:
        assert usual.base_url == "http://127.0.0.1:9627/opentool"
    with SyncOpenToolClient(host="::1", port=1) as six:
        assert six.base_url == "http://[::1]:1/opentool"


@pytest.mark.requirement("OTRPC-026", "C-2", "C-3", "A-26")
def test_tool_exception_is_raised_with_its_message(server: Callable[[Asked], Said], ask: Ask) -> None:
    with run_server(server) as there, pytest.raises(OpenToolServerCallException) as raised:
        ask(there.url, "call", FunctionCall("1", "fail"), api_key=KEY)
    reply = {
        "typescript": "Error: No text found with id: 99",
        "java": "Internal error: boom",
        "dart": "Exception: boom",
        "dotnet8": "System.Exception: boom",
        "netfx": "boom",
    }
    assert raised.value.to_json() == {"message": reply[server.__name__]}
    assert STACK not in raised.value.message


@pytest.mark.requirement("A-23", "C-7")
def test_error_message_with_json_inside_is_unwrapped(ask: Ask) -> None:
    with run_server(typescript) as there, pytest.raises(OpenToolServerCallException) as raised:
        ask(there.url, "call", FunctionCall("1", "break"), api_key=KEY)
    assert raised.value.message == "Error: Fatal error occurred in run()"


@pytest.mark.requirement("A-22", "C-7")
def test_error_sent_as_a_result_is_raised_unless_configured(ask: Ask) -> None:
    call = FunctionCall("1", "nope")
    with run_server(typescript) as there:
        with pytest.raises(OpenToolServerCallException, match=r"^Function Not Supported: nope$"):
            ask(there.url, "call", call, api_key=KEY)
        mended = [row for row in quirks.ANSWER if "result of" not in row.what]
        reply = ask(there.url, "call", call, api_key=KEY, mended=mended)
    assert reply.result == {"code": 405, "message": "Function Not Supported: nope"}


@pytest.mark.requirement("A-20", "OTRPC-011")
def test_result_that_is_no_object_is_wrapped_under_result(ask: Ask) -> None:
    with run_server(typescript) as there:
        assert ask(there.url, "call", FunctionCall("1", "number"), api_key=KEY).result == {"result": 7}


@pytest.mark.requirement("C-4", "OTRPC-017")
def test_document_with_null_members_is_loaded(ask: Ask) -> None:
    with run_server(java_described) as there:
        loaded = ask(there.url, "load", api_key=KEY)
    assert isinstance(loaded, OpenTool)
    assert loaded.info.title == "Weather Example"
    (function,) = loaded.functions
    assert [parameter.name for parameter in function.parameters] == ["q"]


@pytest.mark.parametrize(
    "said",
    [text("{}"), text(" {} \n"), text(""), text(NO_PARSER), text("", 404), text("no", 501)],
    ids=["empty object", "spaces", "empty body", "code 404", "404", "501"],
)
@pytest.mark.requirement("OTRPC-014", "OTRPC-017", "A-21", "C-5")
def test_each_notation_for_no_document_returns_none(said: Said, ask: Ask) -> None:
    with run_server(build_fixed_answer(said)) as there:
        assert ask(there.url, "load") is None


@pytest.mark.parametrize(
    "said", [text("", 500), text("{}", 503), text("", 403), text("null", 500), text(NO_PARSER, 500)]
)
@pytest.mark.requirement("OTRPC-017", "A-26")
def test_server_failure_is_not_read_as_a_missing_document(said: Said, ask: Ask) -> None:
    with run_server(build_fixed_answer(said)) as there, pytest.raises(OpenToolServerCallException):
        ask(there.url, "load")


@pytest.mark.parametrize("body", ["", "null", " \n"])
@pytest.mark.parametrize("method", [("call", CREATE), ("version",)], ids=["call", "version"])
@pytest.mark.requirement("OTRPC-022", "A-26")
def test_empty_response_raises_response_null_with_its_status(body: str, method: tuple[Any, ...], ask: Ask) -> None:
    with run_server(build_fixed_answer(text(body))) as there, pytest.raises(ResponseNullException) as raised:
        ask(there.url, *method)
    assert raised.value.to_json() == {"code": 200, "message": "Response is null"}


@pytest.mark.parametrize("body", ["{}", '{"jsonrpc":"2.0","result":null,"error":null,"id":"1"}', "[]", "7"])
@pytest.mark.requirement("OTRPC-023", "A-26")
def test_response_without_result_or_error_raises_error_null(body: str, ask: Ask) -> None:
    with run_server(build_fixed_answer(text(body))) as there, pytest.raises(ErrorNullException) as raised:
        ask(there.url, "call", CREATE)
    assert raised.value.to_json() == {"code": 200, "message": "Error is null"}


@pytest.mark.parametrize("method", [("call", CREATE), ("version",), ("load",)], ids=lambda method: method[0])
@pytest.mark.requirement("OTRPC-024", "OTRPC-029", "C-2", "A-30")
def test_missing_key_raises_unauthorized_for_every_sdk_server(
    server: Callable[[Asked], Said], method: tuple[Any, ...], ask: Ask
) -> None:
    with run_server(server) as there, pytest.raises(OpenToolServerUnauthorizedException) as raised:
        ask(there.url, *method)
    assert raised.value.to_json() == {"code": 401, "message": "Please check API Key is VALID or NOT"}
    assert "Java" in raised.value.__notes__[0]


@pytest.mark.parametrize("method", [("call", CREATE), ("version",), ("load",)], ids=lambda method: method[0])
@pytest.mark.requirement("OTRPC-025")
def test_closed_port_raises_no_access(method: tuple[Any, ...], ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(OpenToolServerNoAccessException) as raised:
        ask(url, *method)
    assert raised.value.to_json() == {"code": 404, "message": "Please check OpenTool Server is RUNNING or NOT"}


@pytest.mark.parametrize("method", [("call", CREATE), ("version",)], ids=lambda method: method[0])
@pytest.mark.requirement("OTRPC-025", "A-26")
def test_foreign_404_raises_no_access(method: tuple[Any, ...], ask: Ask) -> None:
    page = text("<html>Not here</html>", 404, "text/html")
    with run_server(build_fixed_answer(page)) as there, pytest.raises(OpenToolServerNoAccessException):
        ask(there.url, *method)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (text("<html>oh no</html>", 500, "text/html"), "HTTP 500"),
        (text("", 503), "HTTP 503"),
        (text('{"status":400,"error":"Bad Request"}', 400), "Bad Request"),
        (text('{"jsonrpc":"2.0","result":{"id":1},"id":"1"}', 500), "HTTP 500"),
        (text("{not json"), "Cannot read the server's answer"),
    ],
)
@pytest.mark.requirement("OTRPC-026", "A-26")
def test_unexpected_response_raises_call_exception_with_a_description(said: Said, message: str, ask: Ask) -> None:
    with (
        run_server(build_fixed_answer(said)) as there,
        pytest.raises(OpenToolServerCallException, match=message) as raised,
    ):
        ask(there.url, "call", CREATE)
    assert list(raised.value.to_json()) == ["message"]


@pytest.mark.requirement("C-2", "C-3", "OTRPC-010")
def test_error_is_read_at_any_status_and_id(ask: Ask) -> None:
    body = '{"jsonrpc":"2.0","result":{},"error":{"code":-7,"message":"no"},"id":""}'
    for status in (200, 400, 404, 500):
        reply = text(body, status)
        with run_server(build_fixed_answer(reply)) as there, pytest.raises(OpenToolServerCallException, match=r"^no$"):
            ask(there.url, "call", CREATE)


def test_invalid_document_raises_call_exception(ask: Ask) -> None:
    reply = text('{"opentool":"1.1.0"}')
    with run_server(build_fixed_answer(reply)) as there, pytest.raises(OpenToolServerCallException, match="document"):
        ask(there.url, "load")


def test_forbidden_url_is_refused_without_a_request(ask: Ask) -> None:
    with pytest.raises(OpenToolServerCallException, match="http is only for this machine"):
        ask("http://192.0.2.7:9627", "version")


@pytest.mark.requirement("OTRPC-028")
def test_all_exceptions_share_one_base_class(ask: Ask) -> None:
    for reply in (text(""), text("{}"), text("", 401), text("", 404), text("", 500)):
        with run_server(build_fixed_answer(reply)) as there, pytest.raises(OpenToolException):
            ask(there.url, "call", CREATE)


def test_invalid_key_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="header") as raised:
        SyncOpenToolClient(api_key="K1\r\nx: y")
    assert "K1" not in str(raised.value)
