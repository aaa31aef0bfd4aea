"""A call whose progress is sent while it runs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable

import pytest

from toolwire import ServerLimits, Toolkit, asgi
from toolwire.core.http import Request, Response
from toolwire.framing.sse import Decoder
from toolwire.server import App
from toolwire.testing.wire import HERE, run_app

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
def test_progress_comes_between_the_opening_and_the_closing(send: Send, tools: Toolkit) -> None:
    response = send(asgi(tools), request("drops", most=3))
    assert response.status == 200
    assert dict(response.headers)[b"content-type"] == b"text/event-stream"
    assert events(response.body) == ["start", "data", "data", "data", "done"]


def test_a_stream_without_progress_has_both_ends(send: Send, tools: Toolkit) -> None:
    assert events(send(asgi(tools), request("drops", most=0)).body) == ["start", "done"]


def test_progress_is_sent_while_the_tool_runs_and_the_tool_ends_when_the_client_goes(
    tools: Toolkit, record: list[str]
) -> None:
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
def test_a_stream_that_takes_too_long_ends_with_the_reason(send: Send, tools: Toolkit, record: list[str]) -> None:
    response = send(asgi(tools, limits=ServerLimits(tool_s=0.05)), request("drops", most=1))
    assert events(response.body) == ["start", "data", "error"]
    assert b"longer than 0.05 seconds" in response.body
    assert record == ["ended"]


@pytest.mark.requirement("R1")
def test_a_stream_above_the_limit_does_not_begin(send: Send, tools: Toolkit) -> None:
    response = send(asgi(tools, limits=ServerLimits(running=0)), request("drops", most=0))
    assert response.status == 503
    assert dict(response.headers)[b"retry-after"] == b"1"


def test_arguments_that_do_not_fit_are_said_before_anything_is_streamed(send: Send, tools: Toolkit) -> None:
    response = send(asgi(tools), request("drops", most="many"))
    assert events(response.body) == ["error"]
    assert b"most" in response.body


def test_only_a_client_that_goes_ends_a_stream(drip: Callable[..., Response], tools: Toolkit) -> None:
    body = {"type": "http.request", "body": request("drops", most=2).body}
    more = {"type": "http.request", "body": b""}
    response = drip(asgi(tools), request("drops", most=2), [body, more])
    assert events(response.body) == ["start", "data", "data", "done"]
