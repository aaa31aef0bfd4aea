"""A call whose stream ends before its answer: it is fetched from the last event on, and nothing else is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from toolwire import connect
from toolwire.core.codec import Listen, Pause
from toolwire.core.http import Request, Response, get_header
from toolwire.core.model import Kind, Problem, Value
from toolwire.protocols.mcp import client_stream_resumption
from toolwire.protocols.mcp.post_message import MAX_EVENT_BYTES, McpClientSession
from toolwire.testing.loopback import PlainApp, background

STREAM = ((b"content-type", b"text/event-stream"),)
SESSION = McpClientSession(endpoint="https://desk.example/mcp", version="2025-11-25", id=b"s1")
ANSWER = b'id: 9\ndata: {"jsonrpc":"2.0","id":"c1","result":{"content":[]}}\n\n'
LOST = Problem(kind=Kind.UNREACHABLE, message="It hung up.")


def stream(body: bytes) -> Response:
    return Response(200, STREAM, body)


class Driven:
    """Drives a conversation: each stream that is asked for is the next of ``streams``, or how it could not be had."""

    def __init__(self, first: Response, streams: Iterable[list[bytes] | Response | Problem] = ()) -> None:
        self.waits: list[float] = []
        self.requests: list[Request] = []
        coming = iter(streams)
        flow = client_stream_resumption.complete_stream(SESSION, first, "c1")
        reply: Any = None
        try:
            while True:
                asked = flow.send(reply)
                if isinstance(asked, Pause):
                    self.waits.append(asked.seconds)
                    reply = None
                else:
                    assert isinstance(asked, Listen)
                    self.requests.append(asked.request)
                    reply = feed_stream(asked, next(coming))
        except StopIteration as stop:
            self.ended: Response | Problem = stop.value


def feed_stream(asked: Listen, came: list[bytes] | Response | Problem) -> Response | Problem:
    if not isinstance(came, list):
        return came
    try:
        for piece in came:
            list(asked.read_chunk(piece))
    except ValueError:
        return Problem(kind=Kind.BAD_ANSWER, message="It was stopped.")
    return Response(200, STREAM, b"")


@pytest.mark.parametrize(
    "first",
    [
        stream(ANSWER),
        stream(b'id: 1\ndata: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"No."}}\n\n'),
        stream(b'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'),
        stream(b"id: 1\ndata:\n"),
        stream(b"id: \xc3\xa9\ndata:\n\n"),
        stream(b"id: " + b"x" * (2 << 20) + b"\ndata:\n\n"),
        Response(500, STREAM, b"id: 1\ndata:\n\n"),
        Response(200, ((b"content-type", b"application/json"),), b"id: 1\ndata:\n\n"),
    ],
)
def test_complete_response_or_stream_without_event_ids_is_not_resumed(first: Response) -> None:
    assert Driven(first).ended is first


@pytest.mark.parametrize(
    ("first", "wait_s"),
    [(b"id: 7\ndata:\n\n", 1.0), (b"id: 7\nretry: 250\ndata:\n\n", 0.25), (b"retry: 999999999\nid: 7\n\n", 60.0)],
)
def test_resume_requests_the_stream_after_the_last_event_id_after_the_wait(first: bytes, wait_s: float) -> None:
    driven = Driven(stream(first), [[ANSWER[:20], ANSWER[20:], b"never heard"]])
    assert driven.ended == stream(ANSWER)
    assert driven.waits == [wait_s]
    (request,) = driven.requests
    assert (request.method, request.url, request.body) == ("GET", SESSION.endpoint, b"")
    assert get_header(request.headers, b"last-event-id") == "7"
    assert get_header(request.headers, b"mcp-session-id") == "s1"
    assert get_header(request.headers, b"mcp-protocol-version") == "2025-11-25"


def test_resume_continues_from_the_latest_event_id_over_several_streams() -> None:
    driven = Driven(stream(b"id: 1\ndata:\n\n"), [[b"id: 2\ndata:\n\n"], [b": no event\n\n"], [], [ANSWER]])
    assert driven.ended == stream(ANSWER)
    assert [get_header(one.headers, b"last-event-id") for one in driven.requests] == ["1", "2", "2", "2"]


@pytest.mark.parametrize("came", [LOST, Response(405, (), b""), Response(404, (), b"")])
def test_resume_returns_the_response_of_a_server_that_cannot_resume(came: Response | Problem) -> None:
    assert Driven(stream(b"id: 1\ndata:\n\n"), [came]).ended is came


def test_resume_stops_after_a_limited_number_of_streams() -> None:
    driven = Driven(stream(b"id: 1\ndata:\n\n"), [[b"id: 1\ndata:\n\n"]] * 100)
    assert len(driven.requests) == client_stream_resumption.MAX_STREAMS
    assert driven.ended == stream(b"id: 1\n\n")


def test_resume_goes_on_after_a_stream_of_26_mib_without_an_event() -> None:
    driven = Driven(stream(b"id: 1\ndata:\n\n"), [[b": " + b"x" * 65_536 + b"\n\n"] * 400, [ANSWER]])
    assert driven.ended == stream(ANSWER)


class Polled:
    """A server of 2025-11-25 that answers each call with the stream ``first``, and goes on where that ended."""

    def __init__(self, first: bytes = b"id: e1\nretry: 10\ndata:\n\n") -> None:
        self.first = first
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        fields = dict(scope["headers"])
        data = b""
        while (message := await receive())["type"] == "http.request":
            data += message["body"]
            if not message.get("more_body"):
                break
        if scope["method"] == "GET":
            await self._get(fields, receive, send)
            return
        reply = json.loads(data)
        self.asked.append(("POST", reply["method"]))
        match reply["method"]:
            case "initialize":
                about = {
                    "protocolVersion": "2025-11-25",
                    "serverInfo": {"name": "P", "version": "1"},
                    "capabilities": {},
                }
                await answer(send, 200, b"application/json", message_of(reply["id"], about))
            case "tools/list":
                listed = {"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]}
                await answer(send, 200, b"application/json", message_of(reply["id"], listed))
            case "tools/call":
                self.id = reply["id"]
                await answer(send, 200, b"text/event-stream", self.first)
            case _:
                await answer(send, 202, b"application/json", b"")

    async def _get(self, fields: dict[bytes, bytes], receive: Any, send: Any) -> None:
        last = fields.get(b"last-event-id")
        if last is None:
            await answer(send, 405, b"text/plain", b"", (b"allow", b"POST"))
            return
        self.asked.append(("GET", last.decode()))
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM]})
        reply = message_of(self.id, {"content": [{"type": "text", "text": "late"}]})
        await send({"type": "http.response.body", "body": b"id: e2\ndata: " + reply + b"\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.asked.append(("GET", "left"))


def message_of(id_: Any, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode()


async def answer(send: Any, status: int, media: bytes, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", media), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.requirement("R17")
def test_call_is_answered_by_a_server_that_lets_clients_reconnect() -> None:
    server = Polled()

    async def story(url: str) -> None:
        async with connect(url, approve=lambda _: True) as remote:
            assert await remote.call("slow") == Value("late")

    with background(PlainApp(server)) as url:
        asyncio.run(story(url))
    assert server.asked[-3:] == [("POST", "tools/call"), ("GET", "e1"), ("GET", "left")]


def test_an_event_beyond_the_limit_is_named_as_the_reason() -> None:
    server = Polled(b"data: " + b"x" * (MAX_EVENT_BYTES + 1) + b"\n\n")

    async def story(url: str) -> None:
        async with connect(url, approve=lambda _: True) as remote:
            result = await remote.call("slow")
        assert isinstance(result, Problem)
        assert result.kind is Kind.BAD_ANSWER
        assert "this client accepts at most 16,777,216 bytes in one message of an MCP stream" in result.message

    with background(PlainApp(server)) as url:
        asyncio.run(story(url))
