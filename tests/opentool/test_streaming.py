"""Streamed calls of the two clients: every piece, in order, whoever sends it and however the bytes are cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.client.transport.drivers import PieceHandler, Pieces
from toolwire.client.transport.failures import bad_response
from toolwire.core.http import Request, Response
from toolwire.core.model import Problem
from toolwire.opentool import (
    FunctionCall,
    OpenToolClient,
    OpenToolException,
    OpenToolServer,
    OpenToolServerCallException,
    OpenToolServerNoAccessException,
    OpenToolServerUnauthorizedException,
    SyncOpenToolClient,
    ToolBreakException,
    ToolReturn,
)
from toolwire.opentool.streaming import astream, stream
from toolwire.protocols.opentool import quirks
from toolwire.server.http.deadlines import Deadlines

from .foreign_servers import run_server, text

CALL = FunctionCall("c1", "follow", {"n": 3})
QUICK = Deadlines(drain_s=0.05, grace_s=5)
EVENTS = "text/event-stream"

START = 'event:start\ndata:{"start":"follow"}\n\n'
DATA = 'event:data\ndata:{"jsonrpc":"2.0","result":{"text":"h\u00e9"},"id":"c1"}\n\n'
MORE = 'event:data\ndata:{"jsonrpc":"2.0","result":{"n":2,"m":[1]},"id":"c1"}\n\n'
DONE = 'event:done\ndata:{"done":"follow"}\n\n'
FAILED = 'event:error\ndata:{"jsonrpc":"2.0","result":{},"error":{"code":500,"message":"it broke"},"id":"c1"}\n\n'
THROWN = 'event:error\ndata:{"code":500,"message":"it broke","id":"c1"}\n\n'
TWO = [ToolReturn("c1", {"text": "h\u00e9"}), ToolReturn("c1", {"n": 2, "m": [1]})]

LOST = bad_response("It was lost.", "closed")

Ask = Callable[[str], list[ToolReturn]]


def stream_blocking(url: str, key: str | None = None) -> list[ToolReturn]:
    """Return the pieces that the blocking client gives."""
    with SyncOpenToolClient(url, api_key=key) as client:
        return list(client.stream_call(CALL))


def stream_async(url: str, key: str | None = None) -> list[ToolReturn]:
    """Return the pieces that the asynchronous client gives."""

    async def ask() -> list[ToolReturn]:
        async with OpenToolClient(url, api_key=key) as client:
            return [piece async for piece in client.streamCall(CALL)]

    return asyncio.run(ask())


both = pytest.mark.parametrize("ask", [stream_blocking, stream_async])


class Feed:
    """Streams numbers, and knows how its last call ended."""

    def __init__(self, numbers: int = 3) -> None:
        self.numbers = numbers
        self.closed = threading.Event()

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {}

    def load(self) -> None:
        return None

    async def stream_call(self, name: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        try:
            for number in range(self.numbers):
                yield {"name": name, "number": number, "n": arguments["n"]}
                await asyncio.sleep(0)
            if self.numbers == 2:
                raise ToolBreakException("no third")
        finally:
            self.closed.set()


@both
@pytest.mark.requirement("A-11", "A-28")
def test_client_receives_every_item_of_our_server_in_order(ask: Ask) -> None:
    with OpenToolServer(Feed(), port=0, deadlines=QUICK) as server:
        assert ask(server.url) == [ToolReturn("c1", {"name": "follow", "number": i, "n": 3}) for i in range(3)]


@both
def test_exception_after_stream_items_is_raised(ask: Ask) -> None:
    with (
        OpenToolServer(Feed(2), port=0, deadlines=QUICK) as server,
        pytest.raises(OpenToolServerCallException, match="no third"),
    ):
        ask(server.url)


@both
@pytest.mark.requirement("A-28")
def test_the_frames_of_the_dart_server_are_read(ask: Ask) -> None:
    with run_server(lambda _: text(START + DATA + MORE + DONE, media=EVENTS)) as server:
        assert ask(server.url) == TWO


@both
@pytest.mark.requirement("A-28")
@pytest.mark.parametrize("frame", [FAILED, THROWN])
def test_error_frame_of_the_dart_server_is_raised_with_or_without_envelope(frame: str, ask: Ask) -> None:
    with (
        run_server(lambda _: text(START + DATA + frame, media=EVENTS)) as server,
        pytest.raises(OpenToolServerCallException, match=r"^it broke$"),
    ):
        ask(server.url)


@both
@pytest.mark.parametrize("cut", [START, START + DATA, START + DATA + MORE[:-1]])
def test_interrupted_stream_is_raised(cut: str, ask: Ask) -> None:
    with (
        run_server(lambda _: text(cut, media=EVENTS)) as server,
        pytest.raises(
            OpenToolServerCallException, match="events, before the call was complete\\. Its result is unknown"
        ),
    ):
        ask(server.url)


@both
def test_immediate_answer_is_one_item(ask: Ask) -> None:
    with run_server(lambda _: text('{"jsonrpc":"2.0","result":{"n":1},"id":"c1"}')) as server:
        assert ask(server.url) == [ToolReturn("c1", {"n": 1})]


@both
@pytest.mark.parametrize(
    ("status", "body", "raised"),
    [
        (200, '{"jsonrpc":"2.0","error":{"code":405,"message":"no"},"id":"c1"}', OpenToolServerCallException),
        (401, "{}", OpenToolServerUnauthorizedException),
        (404, "Not Found", OpenToolServerNoAccessException),
        (503, "", OpenToolServerCallException),
    ],
)
def test_response_that_is_no_stream_raises_like_a_call(
    status: int, body: str, raised: type[OpenToolException], ask: Ask
) -> None:
    with run_server(lambda _: text(body, status)) as server, pytest.raises(raised):
        ask(server.url)


def test_leaving_the_blocking_iterator_cancels_the_call() -> None:
    feed = Feed(10_000_000)
    with OpenToolServer(feed, port=0, deadlines=QUICK) as server, SyncOpenToolClient(server.url) as client:
        for piece in client.stream_call(CALL):
            assert piece.result["number"] == 0
            break
        assert feed.closed.wait(20)


def test_closing_the_asynchronous_iterator_cancels_the_call() -> None:
    feed = Feed(10_000_000)

    async def ask(url: str) -> None:
        async with OpenToolClient(url) as client, aclosing(client.stream_call(CALL)) as pieces:
            async for piece in pieces:
                assert piece.result["number"] == 0
                break

    with OpenToolServer(feed, port=0, deadlines=QUICK) as server:
        asyncio.run(ask(server.url))
        assert feed.closed.wait(20)


class Source:
    """A network that gives these pieces, and counts how many were taken."""

    def __init__(self, pieces: Sequence[bytes], end: Response | Problem = Response(200)) -> None:  # noqa: B008 - a value
        self.given = pieces
        self.end = end
        self.taken = 0
        self.closed = False

    def send(self, request: Request) -> Response | Problem:
        raise AssertionError(f"nothing but a stream is asked for, not {request.url}")

    def pieces(self, request: Request) -> Pieces:
        try:
            for piece in self.given:
                self.taken += 1
                problem = yield piece
                if problem is not None:
                    return problem
        finally:
            self.closed = True
        return self.end


class AsyncSource(Source):
    """The same, asynchronous."""

    async def send(self, request: Request) -> Response | Problem:  # type: ignore[override]  # async
        raise AssertionError(f"nothing but a stream is asked for, not {request.url}")

    async def listen(self, request: Request, hear: PieceHandler, *, brief: bool = False) -> Response | Problem:
        try:
            for piece in self.given:
                self.taken += 1
                problem = await hear(piece)
                if problem is not None:
                    return problem
        finally:
            self.closed = True
        return self.end

    async def aclose(self) -> None:
        """Close nothing."""


@pytest.mark.requirement("A-28")
@given(cuts=st.lists(st.integers(0, len((START + DATA + MORE + DONE).encode()))))
def test_chunk_boundaries_do_not_change_the_items(cuts: list[int]) -> None:
    body = (START + DATA + MORE + DONE).encode()
    edges = [0, *sorted(cuts), len(body)]
    source = Source([body[one:two] for one, two in pairwise(edges)])
    assert list(stream("http://x/opentool", CALL, quirks.ANSWER, source)) == TWO


@given(body=st.binary() | st.text().map(lambda text: (DATA + "event:data\ndata:" + text + "\n\n").encode()))
def test_any_invalid_stream_bytes_raise_an_sdk_exception(body: bytes) -> None:
    with pytest.raises(OpenToolServerCallException):
        list(stream("http://x/opentool", CALL, quirks.ANSWER, Source([body])))


def test_blocking_iterator_reads_only_what_is_requested() -> None:
    source = Source([START.encode(), *[DATA.encode()] * 100, DONE.encode()])
    pieces = stream("http://x/opentool", CALL, quirks.ANSWER, source)
    assert source.taken == 0
    next(pieces)
    assert source.taken == 2
    pieces.close()
    assert source.closed
    assert source.taken == 2


def test_asynchronous_iterator_reads_at_most_one_item_ahead() -> None:
    source = AsyncSource([START.encode(), *[DATA.encode()] * 100, DONE.encode()])

    async def ask() -> None:
        pieces = astream("http://x/opentool", CALL, quirks.ANSWER, source)
        assert source.taken == 0
        await anext(pieces)
        for _ in range(50):
            await asyncio.sleep(0)
        assert source.taken <= 3
        await pieces.aclose()
        assert source.closed

    asyncio.run(ask())


def test_a_connection_that_is_lost_after_the_end_is_no_failure() -> None:
    source = Source([(START + DATA + DONE).encode()], LOST)
    assert list(stream("http://x/opentool", CALL, quirks.ANSWER, source)) == TWO[:1]


def test_connection_lost_before_the_end_is_raised_after_its_items() -> None:
    source = Source([(START + DATA).encode()], LOST)
    pieces = stream("http://x/opentool", CALL, quirks.ANSWER, source)
    assert next(pieces) == TWO[0]
    with pytest.raises(OpenToolServerCallException, match="It was lost"):
        next(pieces)
