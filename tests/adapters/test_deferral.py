"""A question that is left to the framework of an agent is answered there, for one call and for what was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolwire import Answer, GrantBounds, Question, Session, Toolkit, asgi, connect, connect_sync
from toolwire.adapters import pydantic_ai
from toolwire.adapters.conversation import ModelResult
from toolwire.adapters.deferral import (
    MAX_QUESTIONS,
    Deferral,
    ModelCalls,
    ModelToolCall,
    approve,
    deny,
    describe_question,
    identify_question,
    read_answer,
)
from toolwire.adapters.dialects import Provider
from toolwire.core.model import Secret
from toolwire.core.toolbox import complete
from toolwire.testing import background

pytestmark = [pytest.mark.requirement("FU-22"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ERASE = ModelToolCall("erase", {"name": "old"}, "1")


class Desk:
    """Tools of each level, and what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.url = ""
        self.kit = kit = Toolkit("Desk")

        @kit.tool(approval="per-call", destructive=True)
        def erase(name: str) -> str:
            """Erase something."""
            self.done.append(name)
            return f"erased {name}"

        @kit.tool(approval="per-call", blanket_allowed=True)
        def write(name: str) -> str:
            """Write something."""
            self.done.append(name)
            return f"wrote {name}"


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    with background(asgi(desk.kit)) as desk.url:
        yield desk


def run_sync(remote: Any, call: ModelToolCall, deferral: Deferral, *approved: Question) -> Any:
    return complete(ModelCalls(remote, Provider.OPENAI, deferral, is_blocking=True).run(call, approved))


@pytest.mark.requirement("XL-050")
def test_an_approval_is_for_what_was_shown_and_for_one_run(desk: Desk) -> None:
    deferral = Deferral()
    with connect_sync(desk.url, approve=deferral) as remote:
        asked = run_sync(remote, ERASE, deferral)
        assert isinstance(asked, Question)
        assert asked.call.arguments == {"name": "old"}
        other = run_sync(remote, ModelToolCall("erase", {"name": "all"}), deferral, asked)
        assert isinstance(other, Question)
        assert identify_question(other) != identify_question(asked)
        assert desk.done == []
        assert isinstance(run_sync(remote, ERASE, deferral, asked), ModelResult)
        assert isinstance(run_sync(remote, ERASE, deferral), Question)
    assert desk.done == ["old"]


@pytest.mark.requirement("XL-050")
def test_a_question_outside_an_adapter_or_of_another_deferral_is_denied(desk: Desk) -> None:
    deferral, other = Deferral(), Deferral()
    with connect_sync(desk.url, approve=deferral) as remote:
        asked = run_sync(remote, ERASE, deferral)
        outside = remote.call("erase", {"name": "old"})
        assert (outside.ok, getattr(outside, "details", None)) == (
            False,
            {"denied": True, "reason": "no user to ask"},
        )
        denied = run_sync(remote, ERASE, other, asked)
        assert isinstance(denied, ModelResult)
        assert "denied" in denied.text
    assert desk.done == []


def test_an_approval_for_all_calls_covers_only_what_the_site_lets_be_allowed_for_later(desk: Desk) -> None:
    deferral = Deferral()

    async def run(name: str) -> Any:
        async with connect(desk.url, approve=deferral) as remote:
            call = ModelToolCall(name, {"name": "new"})
            return await ModelCalls(remote, Provider.OPENAI, deferral).run(call, is_standing=True)

    assert isinstance(asyncio.run(run("erase")), Question)
    assert isinstance(asyncio.run(run("write")), ModelResult)
    assert desk.done == ["new"]


def test_calls_that_wait_are_bounded_and_forgotten_ones_are_asked_about_again(desk: Desk) -> None:
    deferral = Deferral()
    with connect_sync(desk.url, approve=deferral) as remote:
        asked = run_sync(remote, ERASE, deferral)
        for number in range(1_001):
            deferral.defer(str(number), (asked,))
        assert deferral.find_question("0") is None
        assert deferral.find_question("1000") is asked
        assert deferral.take("1000") == (asked,)
        assert deferral.take("1000") == ()
        calls = ModelCalls(remote, Provider.OPENAI, deferral, is_blocking=True)
        forgotten = complete(calls.run_waiting(ERASE._replace(id="0"), is_approved=True))
    assert isinstance(forgotten, Question)
    assert desk.done == []


def test_one_answer_is_claimed_by_one_call() -> None:
    deferral = Deferral()
    first = deferral.find_unclaimed("q")
    assert deferral.find_unclaimed("q") == first
    assert deferral.claim(first)
    assert not deferral.claim(first)
    assert deferral.find_unclaimed("q") != first
    deferral.release([first])
    assert deferral.claim(first)


def test_only_the_answer_of_approve_for_this_question_is_a_yes(desk: Desk) -> None:
    deferral = Deferral()
    with connect_sync(desk.url, approve=deferral) as remote:
        described = describe_question(run_sync(remote, ERASE, deferral))
    id_ = str(described["id"])
    assert read_answer(approve(described), id_) is None
    for answer in (True, "yes", None, {}, {"allowed": True}, {"allowed": 1, "id": id_}, approve({"id": "other"})):
        assert read_answer(answer, id_) is not None
    refused = read_answer(deny(described, "not today"), id_)
    assert refused is not None
    assert refused.text == '{"denied":true,"reason":"not today"}'


def test_what_is_shown_hides_secrets_and_names_the_site(desk: Desk) -> None:
    deferral = Deferral()
    secret = "k-4711-of-ann"
    with connect_sync(desk.url, approve=deferral) as remote:
        asked = run_sync(remote, ModelToolCall("erase", {"name": secret}), deferral)
    from dataclasses import replace

    hidden = replace(asked, secrets=frozenset({"name"}))
    described = describe_question(hidden)
    assert secret not in str(described)
    assert f"site: {desk.url}" in str(described["text"])
    assert described["destructive"] is True
    assert Secret(secret)  # the canary of this test


def test_a_call_with_too_many_questions_is_denied(desk: Desk) -> None:
    deferral, asked = Deferral(), list[Question]()

    class Restless:
        """A connection whose question is another one each time."""

        url = ""

        def __init__(self, remote: Any) -> None:
            self._remote = remote

        def catalog(self) -> Any:
            return self._remote.catalog()

        def call(self, name: str, arguments: Any, /) -> Any:
            return self._remote.call(name, {"name": f"{len(asked)}"})

    async def ask(question: Question) -> None:
        asked.append(question)

    with connect_sync(desk.url, approve=deferral) as remote:
        calls = ModelCalls(Restless(remote), Provider.OPENAI, deferral, is_blocking=True)
        result = complete(calls.run_asking(ERASE, ask))
    assert result.text == '{"denied":true,"reason":"too many questions"}'
    assert len(asked) == MAX_QUESTIONS
    assert desk.done == []


def test_a_question_is_found_before_a_call_without_asking_or_spending(desk: Desk) -> None:
    asked: list[Question] = []
    session = Session()

    def allow(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True, always=True, bounds=GrantBounds(uses=1))

    with connect_sync(desk.url, approve=allow, session=session) as remote:
        found = remote.find_question("erase", {"name": "old"})
        assert found is not None
        assert (found.call.arguments, found.site) == ({"name": "old"}, desk.url)
        assert remote.find_question("erase", {"name": 7}) is None  # it would be refused without a question
        assert remote.find_question("no such tool", {}) is None
        assert remote.find_question("write", {"name": "new"}) is not None
        assert (asked, desk.done, list(session.audit.entries())) == ([], [], [])
        assert remote.call("write", {"name": "first"}).ok
        for _ in range(3):
            assert remote.find_question("write", {"name": "second"}) is None  # a grant may cover it
        assert remote.call("write", {"name": "second"}).ok
        assert len(asked) == 1
        assert remote.find_question("write", {"name": "third"}) is not None
    assert remote.find_question("erase", {"name": "old"}) is None  # closed


def answer_by(*turns: list[ToolCallPart] | str) -> FunctionModel:
    left = list(turns)

    def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = left.pop(0)
        return ModelResponse(parts=[TextPart(turn)] if isinstance(turn, str) else turn)

    return FunctionModel(play)


def read_returns(messages: list[ModelMessage]) -> list[str]:
    return [str(part.content) for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]


@pytest.mark.parametrize("blocking", [False, True])
def test_pydantic_ai_defers_calls_and_runs_those_that_its_user_approves(desk: Desk, blocking: bool) -> None:
    calls = [ToolCallPart("erase", {"name": name}, name) for name in ("yes", "no", "edited")]

    async def talk(tools: Any) -> list[str]:
        agent = Agent(answer_by(calls, "done"), tools=tools, output_type=[str, DeferredToolRequests])
        first = await agent.run("Erase them.")
        requests = first.output
        assert isinstance(requests, DeferredToolRequests)
        assert [one.tool_call_id for one in requests.approvals] == ["yes", "no", "edited"]
        assert "tool: erase" in requests.metadata["yes"]["text"]
        assert desk.done == []
        results = DeferredToolResults()
        results.approvals = {
            "yes": True,
            "no": ToolDenied("not today"),
            "edited": ToolApproved(override_args={"name": "everything"}),
        }
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert desk.done == ["yes"]
        waiting = second.output  # the user has not seen these arguments in a question
        assert isinstance(waiting, DeferredToolRequests)
        assert '"everything"' in waiting.metadata["edited"]["text"]
        results = DeferredToolResults(approvals={"edited": ToolApproved(override_args={"name": "everything"})})
        third = await agent.run(message_history=second.all_messages(), deferred_tool_results=results)
        assert third.output == "done"
        return read_returns(third.all_messages())

    async def run() -> list[str]:
        deferral = Deferral()
        if blocking:
            with connect_sync(desk.url, approve=deferral) as remote:
                return await talk(pydantic_ai.build_tools_sync(remote, deferral=deferral))
        async with connect(desk.url, approve=deferral) as remote:
            return await talk(pydantic_ai.build_tools(remote, deferral=deferral))

    read = asyncio.run(run())
    assert any("erased yes" in one for one in read)
    assert any("not today" in one for one in read)
    assert desk.done == ["yes", "everything"]
