"""Progress over real sockets: in order, with back-pressure, cancelled and cut off."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

import toolwire
from toolwire import Kind, Problem, Progress, ToolError, Toolkit, Value, connect, connect_sync
from toolwire.testing.loopback import background


@pytest.fixture
def was_closed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def url(was_closed: threading.Event) -> Iterator[str]:
    kit = Toolkit("Streams")

    @kit.tool(approval="auto")
    async def count(n: int) -> AsyncIterator[int]:
        """Count to n."""
        for number in range(n):
            yield number

    @kit.tool(approval="auto")
    def words(text: str) -> Iterator[dict[str, str]]:
        """Give the words of a text, then fail."""
        for word in text.split():
            yield {"word": word}
        raise ToolError("out of words")

    @kit.tool(approval="auto")
    async def forever() -> AsyncIterator[str]:
        """Give texts until somebody leaves."""
        try:
            while True:
                yield "x" * 1_000
                await asyncio.sleep(0)
        finally:
            was_closed.set()

    with background(toolwire.asgi(kit)) as base:
        yield base


@pytest.mark.requirement("A-11")
def test_blocking_client_receives_each_item_in_order(url: str) -> None:
    got: list[object] = []
    with connect_sync(url, protocol="opentool", agree=lambda _: True) as remote:
        result = remote.call("count", {"n": 50}, notify=lambda progress: got.append(progress.value))
    assert result == Value(list(range(50)))
    assert got == list(range(50))


def test_stream_without_a_listener_returns_its_items(url: str) -> None:
    with connect_sync(url, protocol="opentool", agree=lambda _: True) as remote:
        assert remote.call("count", {"n": 3}) == Value([0, 1, 2])


def test_items_before_a_stream_failure_are_reported(url: str) -> None:
    got: list[object] = []
    with connect_sync(url, protocol="opentool", agree=lambda _: True) as remote:
        result = remote.call("words", {"text": "ä b"}, notify=lambda progress: got.append(progress.value))
    assert got == [{"word": "ä"}, {"word": "b"}]
    assert isinstance(result, Problem)
    assert (result.kind, result.message) == (Kind.TOOL_FAILED, "out of words")


def test_slow_async_client_holds_the_server_back_and_a_break_ends_the_tool(
    url: str, was_closed: threading.Event
) -> None:
    received = asyncio.run(_leave_after_twenty(url))
    assert received == 20
    assert was_closed.wait(20)


async def _leave_after_twenty(url: str) -> int:
    heard = 0
    enough = asyncio.Event()

    async def slowly(progress: Progress) -> None:
        nonlocal heard
        heard += 1
        if heard == 20:
            enough.set()
            await asyncio.Event().wait()

    async with connect(url, protocol="opentool", agree=lambda _: True) as remote:
        call = asyncio.create_task(remote.call("forever", notify=slowly))
        await enough.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    return heard


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'event:data\ndata:{"result":{"result":1}}\n\n', "ended after 1 events"),
        (b"event:data\ndata:nope\n\n", "Cannot read the server's stream: an event is not JSON"),
    ],
)
def test_a_stream_that_is_cut_off_or_unreadable_is_a_problem(
    body: bytes, said: str, serve_stream: Callable[[bytes], str]
) -> None:
    with connect_sync(serve_stream(body), protocol="opentool", agree=lambda _: True) as remote:
        result = remote.call("count")
    assert isinstance(result, Problem)
    assert said in result.message
    assert ".)" not in result.message
    assert not result.message.endswith("..")


@pytest.fixture
def serve_stream() -> Iterator[Callable[[bytes], str]]:
    """Serve an OpenTool document with one tool that streams, and ``body`` as its stream."""
    document = (
        b'{"opentool":"1.1.0","info":{"title":"S","version":"1.0.0"},"functions":[{"name":"count","description":"c",'
        b'"parameters":[],"stream":{"data":{"name":"result","schema":{"type":"integer"}}},'
        b'"x-llm":{"enabled":true,"approval":"auto","readOnly":true}}]}'
    )
    stack: list[object] = []

    def serve(body: bytes) -> str:
        answers = {
            "/opentool/version": (b"application/json", b'{"version":"1.0.0"}'),
            "/opentool/load": (b"application/json", document),
            "/opentool/streamCall": (b"text/event-stream", body),
        }

        class App:
            active_calls = 0

            def drain(self) -> None:
                pass

            async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]  # ASGI
                if scope["type"] == "lifespan":
                    while (message := await receive())["type"] != "lifespan.shutdown":
                        await send({"type": f"{message['type']}.complete"})
                    await send({"type": "lifespan.shutdown.complete"})
                    return
                media, content = answers[scope["path"]]
                headers = [(b"content-type", media)]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": content})

        serving = background(App())
        stack.append(serving)
        return serving.__enter__()

    yield serve
    for serving in stack:
        serving.__exit__(None, None, None)  # type: ignore[attr-defined]  # a context manager
