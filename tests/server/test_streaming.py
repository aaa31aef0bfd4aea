"""A call whose progress is sent while it runs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable

import pytest

from tests.support.wire import HERE, run_app
from toolwire import ServerLimits, Toolkit, asgi
from toolwire.core.http import Request, Response
from toolwire.framing.sse import Decoder
from toolwire.server import App

Send = Callable[[App, Request], Response]
JSON = ((b"content-type", b"application/json"),)


def request(method: str, **params: object) -> Request:
    body = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
    return Request("POST", f"{HERE}/opentool/streamCall", JSON, json.dumps(body).encode())


def events(body: bytes) -> list[str]:
    return [event.name for event in Decoder().feed(body)]


@pytest.fixture
def record() -> list[str]:
    return []


@pytest.fixture
def tools(record: list[str]) -> Toolkit:
    kit = Toolkit("Stream")

    @kit.tool(approval="auto")
    async def drops(most: int) -> AsyncGenerator[int, None]:
        """Send drops, then wait for ever where there are none."""
        for number in range(most):
            yield number
        try:
            if most == 1:
                await asyncio.Event().wait()
        finally:
            record.append("ended")

    return kit


@pytest.mark.requirement("A-28")
def test_progress_is_sent_between_start_and_done_events(send: Send, tools: Toolkit) -> None:
    response = send(asgi(tools), request("drops", most=3))
    assert response.status == 200
    assert dict(response.headers)[b"content-type"] == b"text/event-stream"
    assert events(response.body) == ["start", "data", "data", "data", "done"]


def test_stream_without_progress_has_start_and_done_events(send: Send, tools: Toolkit) -> None:
    assert events(send(asgi(tools), request("drops", most=0)).body) == ["start", "done"]


def test_progress_is_sent_live_and_a_disconnect_ends_the_tool(tools: Toolkit, record: list[str]) -> None:
    async def leave() -> tuple[bytes, int]:
        app = asgi(tools)
        async with asyncio.timeout(10), run_app(app, request("drops", most=1)) as answer:
            assert (await answer.read_start()).status == 200
            received = b""
            while b'"result"' not in received:
                received += await answer.read_chunk() or b""
            assert record == []
            assert app.active_calls == 1
            answer.disconnect()
            rest = await answer.read_rest()
        return rest, app.active_calls

    assert asyncio.run(leave()) == (b"", 0)
    assert record == ["ended"]


@pytest.mark.requirement("D-34")
def test_stream_above_the_time_limit_ends_with_an_error(send: Send, tools: Toolkit, record: list[str]) -> None:
    response = send(asgi(tools, limits=ServerLimits(tool_s=0.05)), request("drops", most=1))
    assert events(response.body) == ["start", "data", "error"]
    assert b"longer than 0.05 seconds" in response.body
    assert record == ["ended"]


@pytest.mark.requirement("R1")
def test_stream_above_the_concurrency_limit_is_503(send: Send, tools: Toolkit) -> None:
    response = send(asgi(tools, limits=ServerLimits(running=0)), request("drops", most=0))
    assert response.status == 503
    assert dict(response.headers)[b"retry-after"] == b"1"


def test_invalid_arguments_are_reported_before_the_stream_starts(send: Send, tools: Toolkit) -> None:
    response = send(asgi(tools), request("drops", most="many"))
    assert events(response.body) == ["error"]
    assert b"most" in response.body


def test_extra_request_message_does_not_end_a_stream(drip: Callable[..., Response], tools: Toolkit) -> None:
    body = {"type": "http.request", "body": request("drops", most=2).body}
    more = {"type": "http.request", "body": b""}
    response = drip(asgi(tools), request("drops", most=2), [body, more])
    assert events(response.body) == ["start", "data", "data", "done"]
