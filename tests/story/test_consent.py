"""Consent: a person can say no, and then nothing is sent; nobody there means no."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import toolwire
from toolwire import Answer, Kind, Preferences, Problem, Question, Toolkit, Value, connect, connect_sync
from toolwire.protocols import BUILTIN
from toolwire.testing.loopback import background

PROTOCOLS = [codec.name for codec in BUILTIN]


class Garden:
    """A toolkit with something to lose, and every request that its server was sent."""

    def __init__(self) -> None:
        self.planted: list[str] = []
        self.requests: list[str] = []
        toolkit = Toolkit("Garden")

        @toolkit.tool(approval="auto", safe=True)
        def look() -> list[str]:
            """Say what grows."""
            return self.planted

        @toolkit.tool(approval="per-call", blanket_allowed=True)
        def plant(name: str, count: int = 1) -> int:
            """Plant something."""
            self.planted += [name] * count
            return len(self.planted)

        @toolkit.tool(approval="auto", safe=False)
        def water(litres: int) -> None:
            """Water everything."""

        @toolkit.tool(destructive=True)
        def mow() -> None:
            """Cut everything down."""
            self.planted.clear()

        self._app = toolwire.asgi(toolkit)

    @property
    def active_calls(self) -> int:
        return self._app.active_calls

    def drain(self) -> None:
        self._app.drain()

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        if scope["type"] == "http":
            self.requests.append(scope["path"])
        return self._app(scope, receive, send)


class Person:
    """Says what it was told to say, and keeps every question."""

    def __init__(self, says: Answer | bool) -> None:
        self.says = says
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer | bool:
        self.asked.append(question)
        return self.says


@pytest.fixture(scope="module")
def served_garden() -> Iterator[tuple[Garden, str]]:
    garden = Garden()
    with background(garden) as url:
        yield garden, url


@pytest.fixture
def garden(served_garden: tuple[Garden, str]) -> Garden:
    garden, _ = served_garden
    garden.planted.clear()
    garden.requests.clear()
    return garden


@pytest.fixture
def site(served_garden: tuple[Garden, str], garden: Garden) -> str:
    return served_garden[1]


@pytest.mark.requirement("XL-043", "XL-052")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_denied_call_sends_nothing(site: str, garden: Garden, protocol: str) -> None:
    person = Person(Answer(False, reason="it is winter"))
    with connect_sync(site, protocol=protocol, approve=person) as remote:
        sent = len(garden.requests)
        result = remote.call("plant", {"name": "rose"})
        assert isinstance(result, Problem)
        assert (result.kind, result.details) == (Kind.DENIED, {"denied": True, "reason": "it is winter"})
        assert "it is winter" in result.message
        assert len(garden.requests) == sent
    assert (garden.planted, len(person.asked)) == ([], 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_approval_covers_one_call(site: str, garden: Garden, protocol: str) -> None:
    person = Person(True)
    with connect_sync(site, protocol=protocol, approve=person) as remote:
        assert remote.call("plant", {"name": "rose"}) == Value(1)
        assert remote.call("plant", {"name": "oak", "count": 2}) == Value(3)
    assert garden.planted == ["rose", "oak", "oak"]
    assert len(person.asked) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_read_only_tool_runs_without_a_question_after_agreement(site: str, protocol: str) -> None:
    person = Person(False)
    with connect_sync(site, protocol=protocol, approve=person, agree=lambda _: True) as remote:
        assert remote.call("look") == Value([])
    assert person.asked == []


@pytest.mark.requirement("XL-049", "D-21")
def test_question_shows_the_target_and_every_argument(site: str) -> None:
    person = Person(False)
    long = "x" * 10_000
    with connect_sync(site, approve=person) as remote:
        remote.call("plant", {"name": long, "count": 7})
    (question,) = person.asked
    assert question.site == site
    assert question.target == f"POST {site}/api/plant"
    assert question.call.arguments == {"name": long, "count": 7}


@pytest.mark.requirement("XL-053")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_call_without_an_approver_is_denied(site: str, garden: Garden, protocol: str) -> None:
    with connect_sync(site, protocol=protocol, agree=lambda _: True) as remote:
        sent = len(garden.requests)
        result = remote.call("plant", {"name": "rose"})
        assert isinstance(result, Problem)
        message = {"denied": True, "reason": "no approver is configured, so no user was asked"}  # FU-53
        assert (result.kind, result.details) == (Kind.DENIED, message)
        assert len(garden.requests) == sent


@pytest.mark.parametrize("said", [None, 1, "yes", "True", object()])
def test_only_true_or_an_answer_is_a_yes(site: str, garden: Garden, said: Any) -> None:
    with connect_sync(site, approve=Person(said)) as remote:
        assert not remote.call("plant", {"name": "rose"}).ok
    assert garden.planted == []


@pytest.mark.requirement("XL-040", "XL-044")
def test_site_cannot_prevent_the_question(site: str) -> None:
    person = Person(False)
    with connect_sync(site, approve=person) as remote:
        assert not remote.call("water", {"litres": 10}).ok
        assert not remote.call("mow").ok
    replies = [question.reasons for question in person.asked]
    assert replies[0] == ("The server would not ask, but this tool changes something.",)
    assert "The server declares that this tool is destructive." in replies[1]


@pytest.mark.requirement("XL-040", "XL-042")
def test_a_user_can_tighten_but_not_loosen(site: str, garden: Garden) -> None:
    person = Person(False)
    lower = Preferences(tools={"plant": toolwire.Approval.AUTO})
    with pytest.raises(toolwire.DefinitionError, match="plant: the site requires at least per-call"):
        connect_sync(site, approve=person, preferences=lower).__enter__()
    wishes = Preferences(tools={"look": toolwire.Approval.PER_CALL})
    with connect_sync(site, approve=person, preferences=wishes) as remote:
        assert not remote.call("look").ok
        assert not remote.call("plant", {"name": "rose"}).ok
    assert [question.call.tool.name for question in person.asked] == ["look", "plant"]
    never = Preferences(everything=toolwire.Approval.DENY)
    with connect_sync(site, approve=Person(True), preferences=never) as remote:
        sent = len(garden.requests)
        assert not remote.call("look").ok
        assert len(garden.requests) == sent


@pytest.mark.requirement("XL-045", "XL-046")
def test_allow_always_covers_later_calls_only_if_the_site_permits_it(site: str) -> None:
    person = Person(Answer(True, always=True))
    with connect_sync(site, approve=person) as remote:
        for name, arguments in (("plant", {"name": "rose"}), ("plant", {"name": "oak"}), ("mow", {}), ("mow", {})):
            assert remote.call(name, arguments).ok
    asked = [(question.call.tool.name, question.always_allowed) for question in person.asked]
    assert asked == [("plant", True), ("mow", False), ("mow", False)]


@pytest.mark.requirement("XL-045")
def test_user_who_requires_each_approval_is_asked_each_time(site: str) -> None:
    person = Person(Answer(True, always=True))
    wishes = Preferences(tools={"plant": toolwire.Approval.PER_CALL})
    with connect_sync(site, approve=person, preferences=wishes) as remote:
        assert [remote.call("plant", {"name": "rose"}).ok for _ in range(2)] == [True, True]
    assert [question.always_allowed for question in person.asked] == [False, False]


def test_coroutine_can_be_an_approver(site: str, garden: Garden) -> None:
    async def approve(question: Question) -> bool:
        await anyio.lowlevel.checkpoint()
        return question.call.arguments["name"] == "rose"

    async def use() -> None:
        async with connect(site, approve=approve) as remote:
            assert (await remote.call("plant", {"name": "rose"})).ok
            assert not (await remote.call("plant", {"name": "nettle"})).ok

    anyio.run(use)
    assert garden.planted == ["rose"]
