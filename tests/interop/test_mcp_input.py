"""Servers of the official SDK that ask the user while a call runs: a form, a page, and several rounds of questions."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

from tests.interop.mcp_revisions import of_2025
from toolwire import InputRequest, Kind, Problem, Result, Session, Value, connect, connect_sync
from toolwire.core.user_input import InputAction, InputResponse

from .conftest import run_app

SIZE = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "title": "Size", "minimum": 1, "maximum": 9},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
    },
    "required": ["size"],
}


class Answer(BaseModel):
    size: int


def ask_form(message: str, schema: dict[str, Any] = SIZE) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def build_server() -> MCPServer:
    server = MCPServer("Tailor")

    @server.tool()
    async def measure(cloth: str, context: Context[Any]) -> str | InputRequiredResult:
        """Ask for a size, by the answer itself."""
        given = context.input_responses or {}
        if "size" not in given:
            return InputRequiredResult(input_requests={"size": ask_form(f"How large, in {cloth}?")}, request_state="s")
        answer: Any = given["size"]
        return f"{answer.action} {answer.content} {context.request_state}"

    @server.tool()
    async def twice(context: Context[Any]) -> str | InputRequiredResult:
        """Ask two questions, one after the other."""
        given = context.input_responses or {}
        first: Any = given.get("first")
        second: Any = given.get("second")
        if second is not None:
            return f"{context.request_state} then {second.content['size']}"
        if first is None:
            return InputRequiredResult(input_requests={"first": ask_form("The first?")})
        state = f"first {first.content['size']}"
        return InputRequiredResult(input_requests={"second": ask_form("The second?")}, request_state=state)

    @server.tool()
    async def endless(context: Context[Any]) -> str | InputRequiredResult:
        """Ask without end."""
        return InputRequiredResult(input_requests={"more": ask_form("More?")}, request_state="again")

    @server.tool()
    async def visit(context: Context[Any]) -> str | InputRequiredResult:
        """Ask to open a page."""
        given: Any = (context.input_responses or {}).get("page")
        if given is None:
            page = ElicitRequestURLParams(message="Pay here.", url="https://pay.example/7?a=1")
            return InputRequiredResult(input_requests={"page": ElicitRequest(params=page)})
        return str(given.action)

    add_tools_that_ask_as_before(server)
    return server


def add_tools_that_ask_as_before(server: MCPServer) -> None:
    """Add tools that ask in the stream of their call, which 2026-07-28 has no more."""
    runs: list[str] = []

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    async def count_runs() -> list[str]:
        """Return the tools that ran."""
        return runs

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    async def look(context: Context[Any]) -> str:
        """Change nothing, and ask in the stream of the call."""
        runs.append("look")
        answer = await context.elicit("How close?", Answer)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    @server.tool()
    async def elicit(context: Context[Any]) -> str:
        """Ask in the stream of the call, as servers did before."""
        runs.append("elicit")
        answer = await context.elicit("How large?", Answer)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    @server.tool()
    async def cut(context: Context[Any]) -> str:
        """Ask in the stream of the call, too."""
        runs.append("cut")
        answer = await context.elicit("How deep?", Answer)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    async def sample(context: Context[Any]) -> str:
        """Ask for what no version of this client gives."""
        runs.append("sample")
        message = SamplingMessage(role="user", content=TextContent(type="text", text="Hello"))
        return str(await context.session.create_message([message], max_tokens=9))


class Person:
    """The user: what they enter, and what they were shown."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.shown: list[InputRequest] = []

    def __call__(self, asked: InputRequest) -> Any:
        self.shown.append(asked)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def call_blocking(target: str, name: str, person: Person | None, **arguments: Any) -> Result:
    with connect_sync(
        target, approve=lambda _: True, provide_input=person, approve_command=lambda _: True, protocol="mcp"
    ) as remote:
        return remote.call(name, arguments)


def call_async(target: str, name: str, person: Person | None, **arguments: Any) -> Result:
    async def answer(asked: InputRequest) -> Any:
        await asyncio.sleep(0)
        assert person is not None
        return person(asked)

    async def calling() -> Result:
        given = None if person is None else answer
        async with connect(
            target, approve=lambda _: True, provide_input=given, approve_command=lambda _: True, protocol="mcp"
        ) as remote:
            return await remote.call(name, arguments)

    return asyncio.run(calling())


Caller = Callable[..., Result]
both = pytest.mark.parametrize("call", [call_blocking, call_async])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_app(build_server().streamable_http_app()) as base:
        yield base


@pytest.fixture(scope="module")
def older() -> Iterator[str]:
    with run_app(of_2025(build_server().streamable_http_app())) as base:
        yield base


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "tailor.py"
    root = Path(__file__).parents[2]
    file.write_text(
        f"import sys; sys.path.insert(0, {str(root)!r})\n"
        "from tests.interop.test_mcp_input import build_server\nbuild_server().run('stdio')\n"
    )
    return f"stdio:{shlex.join([sys.executable, str(file)])}"


@pytest.mark.requirement("MC-09")
@both
@pytest.mark.parametrize("target", ["url", "program"])
def test_input_form_reaches_the_user_and_the_answer_reaches_the_call(
    call: Caller, target: str, request: pytest.FixtureRequest
) -> None:
    person = Person({"size": 4, "color": "green"})
    result = call(request.getfixturevalue(target), "measure", person, cloth="wool")
    assert result == Value("accept {'size': 4, 'color': 'green'} s")
    (asked,) = person.shown
    assert (asked.message, asked.tool) == ("How large, in wool?", "measure")
    assert ("http://127.0.0.1:" if target == "url" else ".stdio.invalid") in asked.site
    assert [(one.name, one.kind.value, one.is_required, one.default) for one in asked.fields] == [
        ("size", "integer", True, None),
        ("color", "choice", False, "red"),
    ]


class CarefulPerson(Person):
    """A user who enters a size, and decides whether a tool runs again."""

    runs_again: Any = True

    def __call__(self, asked: InputRequest) -> Any:
        given = super().__call__(asked)
        return given if asked.fields else self.runs_again


@pytest.mark.requirement("MC-09")
@pytest.mark.parametrize("answer", [False, InputResponse(InputAction.CANCEL)])
@pytest.mark.parametrize("target", ["url", "program"])
def test_a_tool_that_asks_as_before_is_called_in_a_session(
    target: str, answer: Any, request: pytest.FixtureRequest
) -> None:
    person = CarefulPerson({"size": 3})
    with connect_sync(
        request.getfixturevalue(target),
        approve=lambda _: True,
        agree=lambda _: True,
        approve_command=lambda _: True,
        provide_input=person,
        protocol="mcp",
    ) as remote:
        before = remote.call("count_runs").unwrap()
        assert remote.call("look") == Value("accept size=3"), "it changes nothing, so it may run twice"
        person.runs_again = answer
        refused = remote.call("elicit")
        assert isinstance(refused, Problem)
        assert (refused.kind, refused.can_retry, refused.details) == (Kind.DENIED, False, {"denied": True})
        assert refused.message == (
            "elicit was not run again, because the user did not allow it. Some of its work may be done already."
        )
        remote.refresh()
        assert remote.call("elicit") == Value("accept size=3"), "what was found out outlives a new list of tools"
        person.runs_again = True
        assert remote.call("cut") == Value("accept size=3"), "the user decided that it may run twice"
        assert remote.call("measure", {"cloth": "wool"}) == Value("accept {'size': 3} s"), "it asks by its answer"
        assert isinstance(remote.call("sample"), Problem)
        ran = remote.call("count_runs").unwrap()[len(before) :]
    shown = [asked.message for asked in person.shown]
    again = "{} tried to ask you something before this connection allowed that, so it ended early. "
    again += "Some of its work may be done already. Run it again?"
    assert shown == [
        *("How close?", again.format("elicit"), "How large?", again.format("cut"), "How deep?", "How large, in wool?")
    ]
    if target == "url":  # a program has a process for each version
        assert ran == ["look", "look", "elicit", "elicit", "cut", "cut", "sample"]


@pytest.mark.requirement("MC-09")
def test_a_tool_that_asks_as_before_can_be_called_again_if_no_question_is_shown(url: str) -> None:
    session, person = Session(), Person(False)
    refused: list[Any] = []
    for _ in range(4):  # after three refusals, a tool asks no more
        with connect_sync(url, session=session, approve=lambda _: True, provide_input=person, protocol="mcp") as remote:
            refused.append(remote.call("elicit"))
    assert [(one.kind, one.can_retry) for one in refused] == [*[(Kind.DENIED, False)] * 3, (Kind.BAD_ANSWER, True)]
    assert "Call it again" in refused[3].message
    assert len(person.shown) == 3


@pytest.mark.requirement("MC-09")
def test_a_tool_that_asks_as_before_ends_with_its_server_s_sentence_if_nobody_can_be_asked(url: str) -> None:
    result = call_blocking(url, "elicit", None)
    assert isinstance(result, Problem)
    assert "elicitation/create" in result.message


@pytest.mark.requirement("MC-09")
@both
def test_a_server_of_2025_asks_in_the_stream_of_the_call(call: Caller, older: str) -> None:
    assert call(older, "elicit", Person({"size": 3})) == Value("accept size=3")
    assert call(older, "elicit", Person(None)) == Value("decline None")
    assert str(call(older, "elicit", None)).count("elicit") >= 1  # not declared, so the SDK itself refuses


@pytest.mark.requirement("MC-09")
@both
def test_declined_form_is_sent_as_decline(call: Caller, url: str) -> None:
    assert call(url, "measure", Person(None), cloth="wool") == Value("decline None s")


@pytest.mark.requirement("MC-09")
@both
def test_invalid_form_answer_is_asked_for_again_and_then_cancelled(call: Caller, url: str) -> None:
    person = Person({"size": 40}, {"size": "x"}, {"size": 4})
    assert call(url, "measure", person, cloth="wool") == Value("accept {'size': 4} s")
    assert [dict(asked.faults) for asked in person.shown] == [
        {},
        {"size": "must be at most 9"},
        {"size": "must be a whole number"},
    ]
    stubborn = Person({"size": 40})
    assert call(url, "measure", stubborn, cloth="wool") == Value("cancel None s")
    assert len(stubborn.shown) == 3


@pytest.mark.requirement("MC-09")
@both
def test_repeated_input_rounds_keep_the_request_state_and_are_limited(call: Caller, url: str) -> None:
    assert call(url, "twice", Person({"size": 1}, {"size": 2})) == Value("first 1 then 2")
    person = Person({"size": 1})
    result = call(url, "endless", person)
    assert isinstance(result, Problem)
    assert "asked 10 times" in result.message
    assert len(person.shown) == 10


@pytest.mark.requirement("MC-09")
@both
def test_requested_page_is_shown_with_its_host_and_not_opened(call: Caller, url: str) -> None:
    person = Person(True)
    assert call(url, "visit", person) == Value("accept")
    (asked,) = person.shown
    assert (asked.url, asked.host, asked.fields) == ("https://pay.example/7?a=1", "pay.example", ())
    assert call(url, "visit", Person(False)) == Value("decline")


@pytest.mark.requirement("MC-09")
@both
def test_client_without_a_user_does_not_declare_elicitation(call: Caller, url: str) -> None:
    result = call(url, "measure", None, cloth="wool")
    assert not result.ok
