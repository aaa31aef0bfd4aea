"""A server that asks before it destroys, and does not take its client's word for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolwire import Answer, Kind, Problem, Question, Toolkit, Value, asgi, connect_sync
from toolwire.core.check import ALLOW, Deny
from toolwire.core.codec import Codec
from toolwire.core.http import Request, get_header
from toolwire.core.model import Call, Context, Tool
from toolwire.server import App
from toolwire.server.run.confirmation import CONFIRMATION, VALID_S, ask_about_destructive, build_confirmation_check
from toolwire.testing.loopback import background
from toolwire.testing.wire import HERE, SyncAppTransport

ERASE = Tool(name="erase", toolkit="Disk", destructive=True)


class Clock:
    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


def disk() -> tuple[App, list[str]]:
    kit, ran = Toolkit("Disk"), []

    @kit.tool(approval="auto", destructive=True)
    def erase(what: str) -> str:
        """Erase something."""
        ran.append(what)
        return f"{what} is gone"

    @kit.tool(approval="auto")
    def look() -> str:
        """Look."""
        return "fine"

    return asgi(kit, require_confirmation=ask_about_destructive), ran


@pytest.mark.requirement("XL-056")
def test_a_challenge_is_428_and_the_same_call_with_its_word_runs_once() -> None:
    app, ran = disk()
    door = SyncAppTransport(app)

    def post(what: str, word: str = "") -> Any:
        fields = [(b"host", b"127.0.0.1:9627"), (b"content-type", b"application/json")]
        fields += [(CONFIRMATION, word.encode())] if word else []
        return door.send(Request("POST", f"{HERE}/api/erase", tuple(fields), b'{"what":"%s"}' % what.encode()))

    try:
        asked = post("a")
        assert (asked.status, get_header(asked.headers, b"content-type"), ran) == (428, "application/problem+json", [])
        from json import loads

        challenge = loads(asked.body)["details"]["confirmation"]
        assert challenge["question"] == "erase cannot be undone. Do it?"
        assert (challenge["header"], challenge["valid_s"]) == ("toolwire-confirmation", 300)
        assert post("a", challenge["word"]).status == 200
        assert ran == ["a"]
        assert post("a", challenge["word"]).status == 428
        assert post("a", "made up").status == 428
        other = loads(post("b").body)["details"]["confirmation"]["word"]
        assert post("a", other).status == 428
        assert ran == ["a"]
    finally:
        door.close()


@pytest.mark.requirement("XL-056")
def test_a_word_is_bound_to_caller_tool_and_arguments_and_ends() -> None:
    clock = Clock()
    check = build_confirmation_check(ask_about_destructive, clock=clock)

    def word(call: Call) -> str:
        verdict = check(call)
        assert isinstance(verdict, Deny)
        return str(verdict.problem.details["confirmation"]["word"])

    def said(call: Call, word: str) -> Call:
        return call._replace(context=Context(principal=call.context.principal, confirmation=word))

    ada = Call(ERASE, {"what": "a"}, "1", Context(principal="ada"))
    for other in (
        ada._replace(context=Context(principal="bob")),
        ada._replace(arguments={"what": "b"}),
        ada._replace(tool=Tool(name="wipe", toolkit="Disk", destructive=True)),
    ):
        assert check(said(other, word(ada))) is not ALLOW
    late = word(ada)
    clock.now += VALID_S
    assert check(said(ada, late)) is not ALLOW
    assert check(said(ada._replace(call_id="2"), word(ada))) is ALLOW
    assert check(Call(Tool(name="look"), {})) is ALLOW


@pytest.mark.requirement("XL-056")
def test_of_very_many_open_questions_the_oldest_are_forgotten() -> None:
    check = build_confirmation_check(ask_about_destructive, clock=Clock())
    calls = [Call(ERASE, {"what": str(number)}) for number in range(10_001)]
    words = []
    for call in calls:
        verdict = check(call)
        assert isinstance(verdict, Deny)
        words.append(str(verdict.problem.details["confirmation"]["word"]))
    said = [call._replace(context=Context(confirmation=word)) for call, word in zip(calls, words, strict=True)]
    assert check(said[-1]) is ALLOW
    assert check(said[1]) is ALLOW
    assert check(said[0]) is not ALLOW


def answering(*answers: bool | Answer) -> tuple[Callable[[Question], bool | Answer], list[Question]]:
    asked: list[Question] = []

    def approve(question: Question) -> bool | Answer:
        asked.append(question)
        return answers[len(asked) - 1]

    return approve, asked


@pytest.mark.requirement("XL-056")
def test_our_client_makes_the_challenge_a_question_on_every_wire(codec: Codec) -> None:
    app, ran = disk()
    approve, asked = answering(True, True)
    with background(app) as url, connect_sync(url, protocol=codec.name, approve=approve) as remote:
        assert remote.call("erase", {"what": "a"}) == Value("a is gone")
    assert ran == ["a"]
    assert "erase cannot be undone. Do it?" in asked[-1].reasons[0]
    assert (asked[-1].always_allowed, asked[-1].call.arguments, asked[-1].target != "") == (False, {"what": "a"}, True)


@pytest.mark.requirement("XL-056", "XL-053")
@pytest.mark.parametrize("answers", [(True, False), (True, Answer(allowed=True, arguments={"what": "b"}))])
def test_nothing_runs_that_the_person_did_not_confirm(codec: Codec, answers: Any) -> None:
    app, ran = disk()
    approve, asked = answering(*answers)
    with background(app) as url, connect_sync(url, protocol=codec.name, approve=approve) as remote:
        result = remote.call("erase", {"what": "a"})
    assert isinstance(result, Problem)
    assert (result.kind, result.details.get("denied")) == (Kind.DENIED, True)
    assert (len(asked), ran) == (2, [])
