"""Servers of the official SDK that keep sessions, or show themselves by POST alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tests.interop.mcp_revisions import of_2025
from toolwire import Answer, ConnectError, Question, Result, Value, connect, connect_sync
from toolwire.cli import main
from toolwire.testing.loopback import background

from .conftest import run_app

Between = Callable[[], None]


class Restarting:
    """A server of the official SDK with sessions; ``restart`` forgets all of them, as a new process would.

    ``asked`` holds the method and the session of each request, in order.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.ran: list[str] = []
        self.forgotten: set[str] = set()
        self.refused: set[str] = set()
        server = MCPServer("Notes")

        @server.tool()
        def write(text: str) -> str:
            self.ran.append(text)
            return text

        self._app = of_2025(server.streamable_http_app())

    @property
    def sessions(self) -> set[str]:
        return {session for _, session in self.asked if session}

    def restart(self) -> None:
        self.forgotten |= self.sessions

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        if scope["path"] == "/mcp":
            self.asked.append((scope["method"], session))
        if scope["method"] in self.refused:
            await send({"type": "http.response.start", "status": 405, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
            return
        if session in self.forgotten:  # as the SDK says it: it knows no such session
            headers = [(key, b"unknown" if key == b"mcp-session-id" else value) for key, value in scope["headers"]]
            scope = {**scope, "headers": headers}
        await self._app(scope, receive, send)


class Person:
    """Says yes once to each question, and remembers them."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(allowed=True)


def call_blocking(url: str, person: Person, between: Between) -> list[Result]:
    with connect_sync(url, approve=person) as remote:
        first = remote.call("write", {"text": "one"})
        between()
        return [first, remote.call("write", {"text": "two"}), remote.call("write", {"text": "three"})]


def call_async(url: str, person: Person, between: Between) -> list[Result]:
    async def calling() -> list[Result]:
        async with connect(url, approve=person) as remote:
            first = await remote.call("write", {"text": "one"})
            between()
            return [first, await remote.call("write", {"text": "two"}), await remote.call("write", {"text": "three"})]

    return asyncio.run(calling())


@pytest.fixture
def server() -> Restarting:
    return Restarting()


@pytest.fixture
def url(server: Restarting) -> Iterator[str]:
    with run_app(server) as base:
        yield base


@pytest.mark.requirement("I-09")
@pytest.mark.parametrize("call", [call_blocking, call_async])
def test_a_call_goes_on_in_a_new_session_with_one_question(call: Any, server: Restarting, url: str) -> None:
    person = Person()
    assert call(url, person, server.restart) == [Value("one"), Value("two"), Value("three")]
    assert server.ran == ["one", "two", "three"]
    assert [question.call.arguments["text"] for question in person.questions] == ["one", "two", "three"]
    assert len(server.sessions) == 2


@pytest.mark.requirement("I-09")
@pytest.mark.parametrize("call", [call_blocking, call_async])
def test_closing_the_connection_deletes_the_session(call: Any, server: Restarting, url: str) -> None:
    call(url, Person(), lambda: None)
    (session,) = server.sessions
    assert server.asked[-1] == ("DELETE", session)


@pytest.mark.requirement("I-09")
@pytest.mark.parametrize("call", [call_blocking, call_async])
def test_a_server_that_answers_get_with_405_is_found_by_post(call: Any, server: Restarting, url: str) -> None:
    server.refused = {"GET"}
    assert call(url, Person(), lambda: None) == [Value("one"), Value("two"), Value("three")]
    methods = [method for method, _ in server.asked]
    assert methods[0] == "GET"
    assert set(methods[1:-1]) == {"POST"}


def test_explain_lists_post_probes_and_deletes_its_session(
    server: Restarting, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refused = {"GET"}
    assert main(["explain", url, "--json"]) == 0
    assert '"meaning": "speaks MCP 2025-11-25"' in capsys.readouterr().out
    assert server.asked[-1][0] == "DELETE"


@pytest.mark.requirement("I-09")
def test_failed_discovery_explains_how_to_name_an_mcp_server() -> None:
    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body"})

    with (
        background(nothing) as url,
        pytest.raises(ConnectError, match="--protocol mcp"),
        connect_sync(url),
    ):
        pass
