"""What a server sees of a call that nobody waits for any more: the end of its connection, at once."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop

from toolwire import connect
from toolwire.client.transport.network import Network, SyncNetwork
from toolwire.core.http import Request, Response
from toolwire.core.model import Kind, Problem
from toolwire.testing.loopback import PlainApp, background

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
PATIENCE_S = 10
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n"

Sends = Callable[[Network, Request], Any]


def at_work(started: threading.Event, *pieces: bytes) -> Callable[[object], Iterator[bytes | None]]:
    """Send ``pieces`` and then never the rest."""

    def answer(_: object) -> Iterator[bytes | None]:
        yield from pieces
        started.set()
        yield None

    return answer


async def listen_to(network: Network, request: Request) -> Response | Problem:
    async def hear(_: bytes) -> None:
        await asyncio.Event().wait()

    return await network.listen(request, hear)


@pytest.mark.requirement("I-02")
@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize(
    ("send", "pieces"),
    [
        (Network.send, ()),
        (Network.send, (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",)),
        (listen_to, (STREAM,)),
    ],
)
def test_cancelled_call_closes_its_connection_while_the_server_works(
    listen: Any, new_loop: Callable[[], asyncio.AbstractEventLoop], send: Sends, pieces: tuple[bytes, ...]
) -> None:
    started = threading.Event()
    listener = listen(at_work(started, *pieces))

    async def cancel() -> bool:
        network = Network()
        task = asyncio.create_task(send(network, Request("GET", listener.origin)))
        assert await asyncio.to_thread(started.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        try:
            return await asyncio.to_thread(listener.deserted.wait, PATIENCE_S)
        finally:
            await network.aclose()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(cancel())


@pytest.mark.parametrize("new_loop", LOOPS)
def test_closing_the_network_ends_running_calls(listen: Any, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    started = threading.Event()
    listener = listen(at_work(started))

    async def leave() -> Response | Problem:
        network = Network()
        task = asyncio.create_task(network.send(Request("GET", listener.origin)))
        assert await asyncio.to_thread(started.wait, PATIENCE_S)
        await network.aclose()
        assert await asyncio.to_thread(listener.deserted.wait, PATIENCE_S)
        return await task

    with asyncio.Runner(loop_factory=new_loop) as runner:
        answer = runner.run(leave())
    assert isinstance(answer, Problem)
    assert (answer.kind, answer.details) == (Kind.CANCELLED, {"reason": "left", "sent": True})


@pytest.mark.parametrize("new_loop", LOOPS)
def test_ending_event_loop_closes_open_connections(
    listen: Any, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    listener = listen()

    async def forget() -> None:
        await Network().send(Request("GET", listener.origin))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(forget())
    assert listener.hung_up.wait(PATIENCE_S)


def test_interrupted_blocking_call_closes_its_connection(listen: Any) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(_: object) -> Iterator[bytes | None]:
        signal.pthread_kill(main, signal.SIGINT)
        yield None

    listener = listen(interrupt)
    network = SyncNetwork()
    with pytest.raises(KeyboardInterrupt):
        network.send(Request("GET", listener.origin))
    assert listener.deserted.wait(PATIENCE_S)
    network.close()


def test_closing_a_blocking_network_ends_the_calls_of_other_threads(listen: Any) -> None:
    started = threading.Event()
    listener, network = listen(at_work(started)), SyncNetwork()
    answers: list[Response | Problem] = []
    thread = threading.Thread(target=lambda: answers.append(network.send(Request("GET", listener.origin))))
    thread.start()
    assert started.wait(PATIENCE_S)
    network.close()
    thread.join(PATIENCE_S)
    assert listener.deserted.wait(PATIENCE_S)
    assert isinstance(answers[0], Problem)


class Patient:
    """An MCP server of one revision whose tool never ends; ``told`` are the messages after the call."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.told: list[Any] = []
        self.called = threading.Event()
        self.deserted = threading.Event()
        self.notified = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await reply(send, 405, b"", (b"allow", b"POST"))
            return
        data = b""
        while (message := await receive()).get("more_body"):
            data += message["body"]
        asked = json.loads(data + message.get("body", b"") or b"{}")
        match asked.get("method"):
            case "initialize":
                about = {
                    "protocolVersion": self.version,
                    "serverInfo": {"name": "P", "version": "1"},
                    "capabilities": {},
                }
                await reply(send, 200, result(asked, about))
            case "tools/list":
                tools = [{"name": "slow", "inputSchema": {"type": "object"}}]
                await reply(send, 200, result(asked, {"tools": tools}))
            case "tools/call":
                self.id = asked["id"]
                self.called.set()
                while (await receive())["type"] != "http.disconnect":
                    pass
                self.deserted.set()
            case "server/discover":
                await reply(send, 404, b"")
            case method:
                if method == "notifications/cancelled":
                    self.told.append(asked["params"]["requestId"])
                    self.notified.set()
                await reply(send, 202, b"")


def result(asked: Any, value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": value}).encode()


async def reply(send: Any, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.requirement("I-02")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_mcp_server_is_notified_of_a_cancelled_call(version: str) -> None:
    server = Patient(version)

    async def cancel(url: str) -> None:
        async with connect(url, protocol="mcp", approve=lambda _: True) as remote:
            call = asyncio.create_task(remote.call("slow"))
            assert await asyncio.to_thread(server.called.wait, PATIENCE_S)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await asyncio.to_thread(server.notified.wait, PATIENCE_S)
            assert await asyncio.to_thread(server.deserted.wait, PATIENCE_S)

    with background(PlainApp(server)) as url:
        asyncio.run(cancel(url))
    assert server.told == [server.id]


def test_call_cancelled_before_sending_causes_no_notification() -> None:
    server = Patient("2025-11-25")

    async def cancel(url: str) -> None:
        asked = asyncio.Event()

        async def think(_: object) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        async with connect(url, protocol="mcp", approve=think) as remote:
            call = asyncio.create_task(remote.call("slow"))
            await asked.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    with background(PlainApp(server)) as url:
        asyncio.run(cancel(url))
    assert server.told == []
    assert not server.called.is_set()


def test_closing_a_connection_ends_its_calls_at_the_server() -> None:
    server = Patient("2025-11-25")

    async def leave(url: str) -> Any:
        async with connect(url, protocol="mcp", approve=lambda _: True) as remote:
            call = asyncio.create_task(remote.call("slow"))
            assert await asyncio.to_thread(server.called.wait, PATIENCE_S)
        assert await asyncio.to_thread(server.deserted.wait, PATIENCE_S)
        return await call

    with background(PlainApp(server)) as url:
        ended = asyncio.run(leave(url))
    assert isinstance(ended, Problem)
    assert ended.kind is Kind.CANCELLED
