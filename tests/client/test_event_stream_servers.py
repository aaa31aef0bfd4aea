"""Servers of the HTTP+SSE transport of MCP 2024-11-05: what they may do, and what a hostile one cannot do."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.upstreams import connect_without_user
from toolwire import Kind, Problem, Secret, Value, asgi, connect, connect_sync
from toolwire.cli import main
from toolwire.client.calls.session import Session
from toolwire.core.codec import ConnectError
from toolwire.testing.loopback import background

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL = {"name": "echo", "description": "Repeat.", "inputSchema": SCHEMA}
OPENED = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
WAIT_S = 10.0


class StreamServer:
    """A server of the old transport, in threads. ``on_call`` returns whether it has dealt with a call."""

    def __init__(self) -> None:
        self.endpoint: Callable[[str, int], str] = lambda name, _: f"/messages?session={name}"
        self.on_call: Callable[[StreamServer, queue.SimpleQueue[bytes], dict[str, Any]], bool] = lambda *_: False
        self.key = ""
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []
        self.streams: dict[str, queue.SimpleQueue[bytes]] = {}
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"owner": self}))
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/sse"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def methods(self) -> list[str]:
        return [data.get("method", "") for method, _, _, data in self.seen if method == "POST"]

    def end_streams(self) -> None:
        for stream in list(self.streams.values()):
            stream.put(b"")
        self.streams.clear()

    def close(self) -> None:
        self.end_streams()
        self.http.shutdown()
        self.http.server_close()

    def say(self, stream: queue.SimpleQueue[bytes], message: Any) -> None:
        stream.put(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")

    def answer(self, stream: queue.SimpleQueue[bytes], message: dict[str, Any]) -> None:
        method, id_ = message.get("method"), message.get("id")
        if method == "initialize":
            result: Any = OPENED
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            if self.on_call(self, stream, message):
                return
            result = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
        else:
            return
        self.say(stream, {"jsonrpc": "2.0", "id": id_, "result": result})


class Handler(BaseHTTPRequestHandler):
    """Speaks for the server that owns it."""

    protocol_version = "HTTP/1.1"
    owner: StreamServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        pass

    def refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def is_allowed(self) -> bool:
        return not self.owner.key or self.headers.get("authorization") == f"Bearer {self.owner.key}"

    def do_GET(self) -> None:
        owner = self.owner
        owner.seen.append(("GET", self.path, dict(self.headers), {}))
        if not self.is_allowed() or urlsplit(self.path).path not in ("/sse", "/events"):
            return self.refuse(404 if self.is_allowed() else 401)
        stream, name = queue.SimpleQueue[bytes](), str(len(owner.seen))
        owner.streams[name] = stream
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(f": hello\n\nevent: endpoint\ndata: {owner.endpoint(name, owner.port)}\n\n".encode())
        self.close_connection = True
        with suppress(OSError):
            while piece := stream.get():
                self.wfile.write(piece)
        return None

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.owner.seen.append(("POST", self.path, dict(self.headers), message))
        stream = self.owner.streams.get(self.path.partition("session=")[2])
        if not self.is_allowed() or stream is None:
            return self.refuse(404 if self.is_allowed() else 401)
        self.refuse(202)
        return self.owner.answer(stream, message)


@pytest.fixture
def server() -> Iterator[StreamServer]:
    running = StreamServer()
    yield running
    running.close()


def open_blocking(url: str, **options: Any) -> Any:
    return connect_sync(url, approve=lambda _: True, **options)


@pytest.mark.requirement("MC-13")
def test_a_pasted_sse_url_gives_the_tools_of_its_server(server: StreamServer) -> None:
    with open_blocking(server.url) as remote:
        assert (remote.protocol, remote.url) == ("mcp", server.url)
        assert remote.call("echo", {"text": "one"}) == Value("one")
        assert remote.call("echo", {"text": "two"}) == Value("two")
    # One session for all calls, and nothing that an old server does not know.
    assert server.methods() == ["initialize", "notifications/initialized", "tools/list", "tools/call", "tools/call"]

    async def call() -> Any:
        async with connect(server.url, approve=lambda _: True) as remote:
            return await asyncio.gather(*(remote.call("echo", {"text": str(n)}) for n in range(8)))

    assert asyncio.run(call()) == [Value(str(n)) for n in range(8)]


@pytest.mark.requirement("MC-13")
def test_a_gateway_serves_the_tools_of_an_old_server_to_new_clients(server: StreamServer) -> None:
    upstream = connect_without_user(server.url, Session(), approve=lambda _: True)
    with background(asgi(upstream)) as url, open_blocking(url, protocol="mcp") as remote:
        assert remote.call("echo", {"text": "one"}) == Value("one")


@pytest.mark.requirement("MC-13")
def test_explain_shows_a_server_of_the_old_transport(server: StreamServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", server.url]) == 0
    assert f"1 tool at {server.url}" in capsys.readouterr().out


@pytest.mark.requirement("MC-13")
def test_a_stream_at_any_path_is_found_where_the_user_says_that_it_is_mcp(server: StreamServer) -> None:
    with open_blocking(f"http://127.0.0.1:{server.port}/events", protocol="mcp") as remote:
        assert remote.call("echo", {"text": "one"}) == Value("one")


@pytest.mark.requirement("MC-13")
def test_a_key_is_sent_once_the_server_asks_and_the_user_sees_where_it_goes(server: StreamServer) -> None:
    server.key = "k-4711"
    with pytest.raises(ConnectError, match="requires a key"), open_blocking(server.url):
        pass
    with open_blocking(server.url, api_key=Secret("k-4711")) as remote:
        assert remote.call("echo", {"text": "one"}) == Value("one")
    first = server.seen[0]
    assert "Authorization" not in first[2]


@pytest.mark.requirement("MC-13")
@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.example/messages",
        "//evil.example/messages",
        "http://127.0.0.1:1/messages",
        "https://127.0.0.1:{port}/messages",
        "http://127.0.0.1:{port}@evil.example/messages",
        "file:///etc/passwd",
        "/\\evil.example/x",
        "/messages?" + "x" * 5000,
    ],
)
def test_an_endpoint_of_another_origin_gets_nothing(server: StreamServer, endpoint: str) -> None:
    server.endpoint = lambda _, port: endpoint.replace("{port}", str(port))
    with (
        pytest.raises(ConnectError, match="names an endpoint on another origin, so nothing was sent to it"),
        open_blocking(server.url),
    ):
        pass
    assert server.methods() == []


@pytest.mark.requirement("MC-13")
def test_a_later_endpoint_changes_nothing(server: StreamServer) -> None:
    def move(_: StreamServer, stream: queue.SimpleQueue[bytes], message: dict[str, Any]) -> bool:
        stream.put(b"event: endpoint\ndata: /elsewhere?session=9\n\n")
        return False

    server.on_call = move
    with open_blocking(server.url) as remote:
        assert remote.call("echo", {"text": "one"}) == Value("one")
        assert remote.call("echo", {"text": "two"}) == Value("two")
    assert {path.partition("?")[0] for method, path, _, _ in server.seen if method == "POST"} == {"/messages"}


@pytest.mark.requirement("MC-13")
def test_a_call_after_the_stream_ended_begins_a_new_session(server: StreamServer) -> None:
    with open_blocking(server.url) as remote:
        assert remote.call("echo", {"text": "one"}) == Value("one")
        server.end_streams()
        assert remote.call("echo", {"text": "two"}) == Value("two")
    # The client may learn of the end by the refusal of the call, which is then sent again.
    assert server.methods().count("tools/call") in (2, 3)
    assert server.methods().count("initialize") == 2


@pytest.mark.requirement("MC-13")
def test_a_call_whose_stream_ends_before_its_answer_is_a_problem_and_not_repeated(server: StreamServer) -> None:
    def end(owner: StreamServer, stream: queue.SimpleQueue[bytes], _: dict[str, Any]) -> bool:
        owner.end_streams()
        return True

    server.on_call = end
    with open_blocking(server.url) as remote:
        problem = remote.call("echo", {"text": "one"})
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.UNREACHABLE
    assert "closed its stream before it answered" in problem.message
    assert server.methods().count("tools/call") == 1


@pytest.mark.requirement("MC-13")
def test_answers_to_other_ids_and_what_is_no_message_are_passed_over(server: StreamServer) -> None:
    def confuse(owner: StreamServer, stream: queue.SimpleQueue[bytes], message: dict[str, Any]) -> bool:
        for id_ in (True, "3", 99, None, {}):
            owner.say(
                stream, {"jsonrpc": "2.0", "id": id_, "result": {"content": [{"type": "text", "text": "forged"}]}}
            )
        for data in (b"{", b"null", b"[1, 2]"):
            stream.put(b"data: " + data + b"\n\n")
        owner.say(stream, {"jsonrpc": "2.0", "id": 5, "method": "ping"})
        owner.say(stream, {"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {}})
        return False

    server.on_call = confuse
    with open_blocking(server.url) as remote:
        assert remote.call("echo", {"text": "one"}) == Value("one")
    replies = [data for method, _, _, data in server.seen if method == "POST" and "method" not in data]
    assert {"jsonrpc": "2.0", "id": 5, "result": {}} in replies
    assert any(reply["id"] == "s" and reply["error"]["code"] == -32601 for reply in replies)


@pytest.mark.requirement("MC-13")
def test_an_event_beyond_the_limit_ends_the_stream_with_a_problem(server: StreamServer) -> None:
    def flood(_: StreamServer, stream: queue.SimpleQueue[bytes], message: dict[str, Any]) -> bool:
        stream.put(b"data: ")
        for _piece in range(17):
            stream.put(b"x" * 1024 * 1024)
        return True

    server.on_call = flood
    with open_blocking(server.url) as remote:
        problem = remote.call("echo", {"text": "one"})
    assert isinstance(problem, Problem)
    assert "sent an event larger than 16,777,216 bytes" in problem.message


@pytest.mark.requirement("MC-13")
def test_a_server_told_of_a_cancelled_call_gets_the_id_it_was_sent(server: StreamServer) -> None:
    begun, message = threading.Event(), threading.Event()

    def hang(*_: Any) -> bool:
        begun.set()
        return True

    server.on_call = hang

    async def leave() -> None:
        async with connect(server.url, approve=lambda _: True) as remote:
            task = asyncio.create_task(remote.call("echo", {"text": "one"}))
            await asyncio.to_thread(begun.wait, WAIT_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while "notifications/cancelled" not in server.methods():
                await asyncio.to_thread(message.wait, 0.02)

    asyncio.run(asyncio.wait_for(leave(), WAIT_S))
    messages = {data.get("method"): data for method, _, _, data in server.seen if method == "POST"}
    assert messages["notifications/cancelled"]["params"]["requestId"] == messages["tools/call"]["id"]
