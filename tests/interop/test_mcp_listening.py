"""Our client in sessions of 2025-11-25: it listens to what a server asks and tells outside of the streams of calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from mcp.server.mcpserver import Context as SdkContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, EmptyResult, PingRequest

from tests.interop.mcp_revisions import of_2025
from tests.interop.talking_kit import KIT
from tests.support.waiting import wait_until_async
from toolwire import Context, InputRequest, Progress, Result, Toolkit, Value, asgi, connect, connect_sync
from toolwire.cli import main
from toolwire.testing import background

from .conftest import run_app

WAIT_S = 20
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


class Tailor:
    """A server of the SDK that asks on the stream of a GET, once a client listens there."""

    def __init__(self) -> None:
        self.listening = threading.Event()
        self.waiting = threading.Barrier(2)
        server = MCPServer("Tailor")

        @server.tool()
        async def measure(context: SdkContext[Any]) -> str:
            """Ask without saying to which call that belongs."""
            await self.wait_until_listening(context)
            params = ElicitRequestFormParams(message="How large?", requested_schema=SCHEMA)
            answer = await context.session.send_request(ElicitRequest(params=params), ElicitResult)
            return f"{answer.action} {answer.content}"

        # Two tools: the same call twice is made once if it comes while its user is asked.
        @server.tool(name="measure_sleeves")
        @server.tool(name="measure_legs")
        async def measure_both(context: SdkContext[Any]) -> str:
            """Ask while another call runs."""
            await asyncio.to_thread(self.waiting.wait, WAIT_S)
            answer = await measure(context)
            await asyncio.to_thread(self.waiting.wait, WAIT_S)
            return answer

        @server.tool()
        async def grow(context: SdkContext[Any]) -> str:
            """Add a tool."""
            await self.wait_until_listening(context)
            server.add_tool(lambda: "new", name="new")
            await context.session.send_tool_list_changed()
            return "grown"

        inner = of_2025(server.streamable_http_app())

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["method"] != "GET" or not is_listening(scope):
                await inner(scope, receive, send)
                return

            async def tell(message: Any) -> None:
                await send(message)
                if message["type"] == "http.response.start" and message["status"] == 200:
                    self.listening.set()

            await inner(scope, receive, tell)

        self.app = app

    async def wait_until_listening(self, context: SdkContext[Any]) -> None:
        """Return when the client answers a ping: the SDK drops what it sends before its stream is there.

        It sends the head of the stream's response first.
        """
        await asyncio.to_thread(self.listening.wait, WAIT_S)
        for _ in range(WAIT_S):
            with suppress(MCPError):
                await context.session.send_request(PingRequest(), EmptyResult, request_read_timeout_seconds=1)
                return
        raise TimeoutError("the client answers no ping")


def is_listening(scope: Any) -> bool:
    return b"text/event-stream" in dict(scope["headers"]).get(b"accept", b"")


@pytest.fixture
def tailor() -> Tailor:
    return Tailor()


@pytest.fixture
def url(tailor: Tailor) -> Iterator[str]:
    with run_app(tailor.app) as base:
        yield base


class Person:
    """Says that it is four large, and remembers each question."""

    def __init__(self) -> None:
        self.shown: list[InputRequest] = []

    def __call__(self, asked: InputRequest) -> dict[str, Any]:
        self.shown.append(asked)
        return {"size": 4}


def call_blocking(url: str, person: Person, *names: str) -> list[Result]:
    results: list[Any] = [None] * len(names)
    with connect_sync(url, approve=lambda _: True, provide_input=person, protocol="mcp", timeout_s=WAIT_S) as remote:

        def call(number: int, name: str) -> None:
            results[number] = remote.call(name)

        threads = [threading.Thread(target=call, args=one) for one in enumerate(names)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def call_async(url: str, person: Person, *names: str) -> list[Result]:
    async def calling() -> list[Result]:
        async with connect(
            url, approve=lambda _: True, provide_input=person, protocol="mcp", timeout_s=WAIT_S
        ) as remote:
            return list(await asyncio.gather(*(remote.call(name) for name in names)))

    return asyncio.run(calling())


both = pytest.mark.parametrize("call", [call_blocking, call_async])


@pytest.mark.requirement("MC-06", "MC-09")
@both
def test_a_question_outside_of_a_stream_reaches_the_user_of_the_running_call(
    call: Callable[..., list[Result]], url: str
) -> None:
    person = Person()
    assert call(url, person, "measure") == [Value("accept {'size': 4}")]
    (asked,) = person.shown
    assert (asked.message, asked.tool) == ("How large?", "measure")


@pytest.mark.requirement("MC-09")
@both
def test_a_question_that_could_belong_to_two_calls_is_declined(call: Callable[..., list[Result]], url: str) -> None:
    person = Person()
    assert call(url, person, "measure_sleeves", "measure_legs") == [Value("decline None")] * 2
    assert person.shown == []


@pytest.mark.requirement("MC-06")
def test_a_blocking_connection_hears_of_a_change(url: str) -> None:
    with connect_sync(url, approve=lambda _: True, protocol="mcp") as remote:
        remote.begin()
        assert remote.call("grow") == Value("grown")
        deadline = monotonic() + WAIT_S
        while "new" not in {tool.name for tool in remote.tools}:
            assert monotonic() < deadline
        remote.end()


@pytest.mark.requirement("MC-06")
def test_an_asynchronous_connection_hears_of_a_change_in_a_session(url: str) -> None:
    async def story() -> None:
        async with connect(url, approve=lambda _: True, protocol="mcp") as remote, asyncio.timeout(WAIT_S):
            await remote.begin()
            assert await remote.call("grow") == Value("grown")
            await wait_until_async(lambda: "new" in {tool.name for tool in remote.tools})

    asyncio.run(story())


def build_kit() -> Toolkit:
    kit = Toolkit("Talking")

    @kit.tool(approval="auto", blanket_allowed=True)
    async def talk(context: Context) -> str:
        """Say something at three levels."""
        await context.log("looking", level="debug")
        await context.log({"found": 3}, logger="search")
        await context.log("gone", level="error")
        return "done"

    @kit.tool(approval="auto", inline=True)
    def grow() -> str:
        """Add a tool."""
        kit.add(lambda: "new", name="new", description="New.", approval="auto")
        return "grown"

    return kit


@pytest.mark.requirement("MC-06")
def test_a_blocking_connection_hears_of_a_change_by_the_newest_revision() -> None:
    inner, listening = asgi(build_kit()), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def tell(message: Any) -> None:
            await send(message)
            if dict(scope["headers"]).get(b"mcp-method") == b"subscriptions/listen":
                listening.set()

        await inner(scope, receive, tell)

    with run_app(app) as url, connect_sync(url, approve=lambda _: True, protocol="mcp") as remote:
        remote.begin()
        assert listening.wait(WAIT_S)
        assert remote.call("grow") == Value("grown")
        deadline = monotonic() + WAIT_S
        while "new" not in {tool.name for tool in remote.tools}:
            assert monotonic() < deadline


TOLD = [{"level": "info", "logger": "search", "data": {"found": 3}}, {"level": "error", "data": "gone"}]


@pytest.mark.requirement("MC-06", "MC-10")
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_our_client_gets_the_log_of_our_server(revision: str) -> None:
    app: Any = asgi(build_kit(), sessions="all")
    received: list[Progress] = []
    with (
        background(app if revision == "2026-07-28" else of_2025(app)) as url,
        connect_sync(url, protocol="mcp", approve=lambda _: True) as remote,
    ):
        assert remote.call("talk", notify=received.append) == Value("done")
        assert [(one.event, one.value) for one in received] == [("log", message) for message in TOLD]
        received.clear()
        assert remote.call("talk", notify=received.append, context=Context(log_level="error")) == Value("done")
        assert [one.value for one in received] == TOLD[1:]
        assert remote.call("talk") == Value("done")


@pytest.mark.requirement("MC-06")
def test_the_command_line_prints_the_log(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with background(asgi(build_kit())) as url:
        assert main(["call", url, "talk", "--protocol", "mcp", "--yes"]) == 0
    (tmp_path / "talking.py").write_text(KIT)
    assert main(["call", str(tmp_path / "talking.py"), "talk_from_a_thread"]) == 0
    out, err = capfd.readouterr()
    assert out.split() == ["done", "done"]
    assert 'info: search: {"found":3}' in err.replace('": 3', '":3')
    assert "error: gone" in err
    assert "info: here" in err


@pytest.mark.requirement("MC-06")
def test_a_gateway_passes_the_log_on_at_the_level_of_its_caller() -> None:
    from mcp import Client
    from mcp.types import LoggingMessageNotificationParams

    from tests.support.upstreams import connect_without_user
    from toolwire import Session, merge_toolboxes
    from toolwire.server.run.function_toolbox import FunctionToolbox

    texts: list[tuple[str, Any]] = []

    async def hear(params: LoggingMessageNotificationParams) -> None:
        texts.append((params.level, params.data))

    async def story(url: str) -> None:
        async with Client(f"{url}/mcp", logging_callback=hear, log_level="debug") as client:
            await client.call_tool("talk", {})
        async with Client(f"{url}/mcp", logging_callback=hear) as client:
            await client.call_tool("talk", {})

    with background(asgi(build_kit())) as upstream_url:
        upstream = connect_without_user(f"{upstream_url}/mcp", Session(), protocol="mcp", agree=lambda _: True)
        with background(asgi(merge_toolboxes([upstream, FunctionToolbox(Toolkit("Own"))]))) as url:
            asyncio.run(story(url))
    assert texts == [("debug", "looking"), ("info", {"found": 3}), ("error", "gone")]
