"""Two ways to be told otherwise: strict JSON-RPC, and what else only the log hears of a failure."""

import json
from typing import Any

import pytest

from tests.support.conformance import build_kit
from tests.support.conformance.kit import SECRET
from tests.support.wire import CannedTransport, SyncAppTransport
from toolwire import Toolkit, asgi, connect_sync
from toolwire.core.codec import Codec
from toolwire.core.http import Request
from toolwire.core.model import Call, Problem, Value
from toolwire.opentool.serve_object import build_app, build_toolbox
from toolwire.protocols.opentool import CODEC
from toolwire.server import App
from toolwire.server.options import ServerOptions
from toolwire.testing.loopback import background


class Adder:
    """A tool as a class, as OpenTool's SDK has it."""

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name != "add":
            raise ValueError(name)
        return {"sum": arguments["a"] + arguments["b"]}

    def load(self) -> dict[str, Any]:
        whole = {"type": "integer"}
        parameters = [{"name": name, "schema": whole, "required": True} for name in "ab"]
        functions = [{"name": "add", "description": "Add.", "parameters": parameters}]
        return {"opentool": "1.1.0", "info": {"title": "Adder", "version": "1.0.0"}, "functions": functions}


def calculator() -> Toolkit:
    tools = Toolkit("Adder")

    @tools.tool(approval="auto")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return tools


def post_and_read(app: App, body: bytes, *, path: str = "call", key: str = "") -> dict[str, Any]:
    transport = SyncAppTransport(app)
    fields = [(b"host", b"127.0.0.1:9627"), (b"content-type", b"application/json")]
    if key:
        fields.append((b"authorization", key.encode()))
    try:
        reply = transport.send(Request("POST", f"http://127.0.0.1:9627/opentool/{path}", tuple(fields), body)).body
    finally:
        transport.close()
    data: dict[str, Any] = json.loads(reply.partition(b"data:")[2] if path == "streamCall" else reply)
    return data


def build_call_body(method: str, **arguments: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": arguments, "id": 1}).encode()


ADD = build_call_body("add", a=1, b=2)
WRONG = (build_call_body("add", a="x"), build_call_body("sub"), b'{"jsonrpc":"2.0"}', b"{")


@pytest.mark.requirement("A-12")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("made", ["kit", "class"])
def test_strict_json_rpc_has_a_result_or_an_error_and_never_both(made: str, strict: bool) -> None:
    app = (
        asgi(calculator(), strict_jsonrpc=strict)
        if made == "kit"
        else build_app(build_toolbox(Adder()), ServerOptions(strict_jsonrpc=strict))
    )
    assert ("error" in post_and_read(app, ADD)) is not strict
    assert post_and_read(app, ADD)["result"]
    for body in WRONG:
        reply = post_and_read(app, body)
        assert reply["error"]["code"]
        assert ("result" in reply) is not strict
    assert ("result" in post_and_read(app, build_call_body("sub"), path="streamCall")) is not strict


@pytest.mark.requirement("A-12")
def test_refusal_before_reading_is_strict_json_rpc() -> None:
    app = asgi(calculator(), strict_jsonrpc=True, api_keys=["k"])
    assert "result" not in post_and_read(app, ADD)
    assert post_and_read(app, ADD, key="k")["result"] == {"result": 3}


@pytest.mark.requirement("A-12", "C-3")
@pytest.mark.parametrize("beside", [{}, {"error": None}])
@pytest.mark.parametrize("nothing", [{}, {"result": None}, {"result": {}}])
def test_client_reads_strict_and_lenient_responses(beside: dict[str, Any], nothing: dict[str, Any]) -> None:
    with (
        background(asgi(calculator(), strict_jsonrpc=True)) as url,
        connect_sync(url, protocol="opentool", agree=lambda _: True) as remote,
    ):
        assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
        peer = remote._connection.peer
    call = Call(peer.catalog.names["add"], {"a": 1, "b": 2})
    assert send_answer_members(peer, call, {"result": {"result": 3}, **beside}) == Value(3)
    problem = send_answer_members(peer, call, {"error": {"code": 500, "message": "No."}, **nothing})
    assert isinstance(problem, Problem)
    assert problem.message == "No."


def send_answer_members(peer: Any, call: Call, members: dict[str, Any]) -> Any:
    from toolwire.client.transport.drivers import run
    from toolwire.core.http import JSON_HEADERS, Response

    def answer(request: Request) -> Response:
        id_ = json.loads(request.body)["id"]
        return Response(200, JSON_HEADERS, json.dumps({"jsonrpc": "2.0", "id": id_, **members}).encode())

    return run(CODEC.send(peer, call), CannedTransport(answer))


@pytest.mark.requirement("A-53", "OTC-029")
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("name", ["refuse", "crash"])
def test_debug_server_reveals_the_developer_message(codec: Codec, name: str, debug: bool) -> None:
    with (
        background(asgi(build_kit(), debug=debug)) as url,
        connect_sync(url, protocol=codec.name, approve=yes, retries=0) as remote,
    ):
        result = remote.call(name)
    assert isinstance(result, Problem)
    assert (SECRET in repr(result)) is debug
    assert "Traceback" not in repr(result)


def yes(question: Any) -> bool:
    return True
