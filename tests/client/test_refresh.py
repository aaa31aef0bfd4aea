"""A connection that is open for long sees what its site takes back, and says what has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.upstreams import connect_without_user
from toolwire import Answer, Kind, Preferences, Problem, Question, Session, Toolkit, Value, asgi, connect, connect_sync
from toolwire.client.discovery.cache import DAY_S, Cache
from toolwire.client.discovery.document_snapshot import DocumentSnapshot, refetch
from toolwire.core.http import Request, Response
from toolwire.core.model import Call, Context
from toolwire.testing.loopback import background

LOOK = ("GET", "/openapi.json")


class Site:
    """A site with notes to write: its document, what it answers to a note, and every request it was sent."""

    def __init__(self) -> None:
        self.policy: dict[str, Any] = {"approval": "per-call", "blanketApprovalAllowed": True}
        self.operation: dict[str, Any] = {"operationId": "note", "summary": "Write a note."}
        self.listing = "List notes."
        self.status = 200
        self.document_status = 200
        self.cache_control = ""
        self.seen: list[tuple[str, str]] = []
        self.revalidated = 0
        self.keys: list[bytes] = []

    @property
    def notes(self) -> int:
        return self.seen.count(("POST", "/notes"))

    @property
    def looks(self) -> int:
        return self.seen.count(LOOK)

    def document(self) -> bytes:
        text = {"required": True, "content": {"application/json": {"schema": {
            "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}}}  # fmt: skip
        operation = {**self.operation, "requestBody": text, "x-llm": self.policy,
                     "responses": {"200": {"description": "written", "content": {"application/json": {}}}}}  # fmt: skip
        listing = {"operationId": "list", "summary": self.listing, "x-llm": {"approval": "auto"},
                   "responses": {"200": {"description": "notes"}}}  # fmt: skip
        paths = {"/notes": {"get": listing, **({"post": operation} if self.operation else {})}}
        info = {"title": "Notes", "version": "1.0.0"}
        return json.dumps({"openapi": "3.1.0", "info": info, "x-llm": {}, "paths": paths}).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        asked = (scope["method"], scope["path"])
        self.seen.append(asked)
        self.keys += [value for name, value in scope["headers"] if name == b"authorization"]
        fields = [(b"content-type", b"application/json")]
        status, body = 404, b'{"detail": "not here"}'
        if asked == LOOK:
            status, body = self.document_status, self.document()
            etag = f'"{sha256(body).hexdigest()[:8]}"'.encode()
            fields.append((b"etag", etag))
            if self.cache_control:
                fields.append((b"cache-control", self.cache_control.encode()))
            if status == 200 and dict(scope["headers"]).get(b"if-none-match") == etag:
                self.revalidated += 1
                status, body = 304, b""
        elif scope["path"] == "/notes":
            status, body = self.status, b'{"ok": true}'
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})


class Yes:
    """A person who allows everything, for good where that is offered, and remembers the questions."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(allowed=True, always=question.always_allowed)


class Driven:
    """A connection whose calls are plain functions, whichever kind it is."""

    def __init__(self, remote: Any, run: Callable[[Any], Any]) -> None:
        self.remote = remote
        self.run = run

    def note(self) -> Any:
        return self.run(self.remote.call("note", {"text": "hello"}))

    def refresh(self) -> Any:
        return self.run(self.remote.refresh())


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def url(site: Site) -> Iterator[str]:
    with background(site) as base:
        yield base


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest.fixture
def yes() -> Yes:
    return Yes()


@pytest.fixture
def session(clock: Clock) -> Session:
    return Session(clock=clock, wall=clock, cache=Cache(clock))


@pytest.fixture(params=["async", "sync"])
def driven_remote(request: pytest.FixtureRequest, url: str, session: Session, yes: Yes) -> Iterator[Driven]:
    if request.param == "sync":
        with connect_sync(url, session=session, approve=yes) as remote:
            yield Driven(remote, lambda result: result)
        return
    with asyncio.Runner() as runner:
        connecting = connect(url, session=session, approve=yes)
        yield Driven(runner.run(connecting.__aenter__()), runner.run)
        runner.run(connecting.__aexit__(None, None, None))


@pytest.mark.requirement("XL-048", "XL-047", "D-04", "XL-016")
def test_blanket_approval_that_a_site_withdraws_is_void_before_the_next_call(
    driven_remote: Driven, site: Site, clock: Clock, yes: Yes, session: Session
) -> None:
    assert [driven_remote.note().ok, driven_remote.note().ok] == [True, True]
    assert len(yes.questions) == 1
    site.policy["blanketApprovalAllowed"] = False
    clock.now += 9
    driven_remote.note()
    assert (len(yes.questions), site.looks) == (1, 1)  # one look in ten seconds, however long the document is fresh
    clock.now += 1
    assert driven_remote.note().ok
    assert (site.looks, site.seen[-1]) == (2, ("POST", "/notes"))
    assert session.grants.list_grants() == []
    asked = yes.questions[1]
    assert not asked.always_allowed
    assert any("changed" in reason for reason in asked.reasons)
    assert any("One answer no longer applies to later calls." in change for change in asked.changes)
    driven_remote.note()
    assert len(yes.questions) == 3


@pytest.mark.requirement("XL-048", "XL-043")
def test_tool_with_a_stricter_policy_is_not_called_after_a_denial(
    site: Site, url: str, clock: Clock, session: Session
) -> None:
    def person(_: Question) -> Answer:
        return Answer(allowed="destructive" not in site.policy, always=True)

    with connect_sync(url, session=session, approve=person) as remote:
        remote.call("note", {"text": "1"})
        site.policy |= {"blanketApprovalAllowed": False, "destructive": True}
        clock.now += 300
        result = remote.call("note", {"text": "2"})
    assert isinstance(result, Problem)
    assert result.kind is Kind.DENIED
    assert site.notes == 1


@pytest.mark.requirement("OQ-4", "XL-016")
@pytest.mark.parametrize("status", [404, 405, 410, 415, 422])
def test_response_that_contradicts_the_document_refreshes_it_once(
    driven_remote: Driven, site: Site, clock: Clock, status: int
) -> None:
    site.status = status
    catalog = driven_remote.remote.catalog()
    first = driven_remote.note()
    assert (site.looks, site.revalidated) == (2, 1)
    assert "changed" not in first.details
    assert driven_remote.remote.catalog() is catalog  # the same document is not read again
    assert driven_remote.note() == first
    assert site.looks == 2
    clock.now += 10
    driven_remote.note()
    assert site.looks == 4  # before the call, because it runs on a grant, and after its answer
    assert site.notes == 3


@pytest.mark.requirement("OQ-4")
@pytest.mark.parametrize("status", [200, 400, 401, 403, 409, 429, 500, 503])
def test_other_response_statuses_do_not_refresh_the_document(
    url: str, site: Site, session: Session, yes: Yes, status: int
) -> None:
    with connect_sync(url, session=session, approve=yes, retries=0) as remote:
        site.status = status
        remote.call("note", {"text": "hello"})
    assert site.looks == 1


@pytest.mark.requirement("OQ-4")
def test_locally_refused_call_does_not_refresh(driven_remote: Driven, site: Site) -> None:
    before = len(site.seen)
    for result in (
        driven_remote.run(driven_remote.remote.call("note", {"text": 1})),
        driven_remote.run(driven_remote.remote.call("none")),
    ):
        assert isinstance(result, Problem)
    assert len(site.seen) == before


@pytest.mark.requirement("OQ-4", "D-04")
def test_changed_tool_is_named_in_the_answer_and_asked_about_anew(driven_remote: Driven, site: Site, yes: Yes) -> None:
    driven_remote.note()
    site.operation["summary"] = "Write a note, and publish it."
    site.policy["destructive"] = True
    site.status = 422
    result = driven_remote.note()
    assert isinstance(result, Problem)
    assert "The server has changed note (description, " in result.message
    changed = result.details["changed"]
    assert (changed["what"], changed["direction"]) == ("changed", "wider")
    assert any(change.startswith("description (same)") for change in changed["changes"])
    site.status = 200
    assert driven_remote.note().ok
    assert yes.questions[-1].call.tool.destructive
    assert driven_remote.remote.catalog().find("note") == yes.questions[-1].call.tool


@pytest.mark.requirement("OQ-4")
def test_removed_tool_is_reported(driven_remote: Driven, site: Site) -> None:
    site.operation.clear()
    site.status = 404
    result = driven_remote.note()
    assert "The server no longer offers note." in result.message
    assert result.details["changed"]["what"] == "removed"
    assert [tool.name for tool in driven_remote.remote.tools] == ["list"]
    assert driven_remote.note().kind is Kind.UNKNOWN_TOOL
    assert site.notes == 1


@pytest.mark.requirement("OQ-4", "XL-016")
def test_explicit_refresh_reports_changes_of_a_fresh_document(driven_remote: Driven, site: Site) -> None:
    assert driven_remote.refresh() == ()
    site.policy["approval"] = "auto"
    (difference,) = driven_remote.refresh()
    assert difference.tool.endswith("note@1.0.0")
    assert ("approval", "wider") in [(change.part, change.direction) for change in difference.changes]
    assert driven_remote.refresh() == ()
    assert site.looks == 4


@pytest.mark.requirement("XL-016", "OQ-4")
def test_stale_document_is_used_for_a_day_while_the_server_fails(
    driven_remote: Driven, site: Site, clock: Clock
) -> None:
    site.document_status = 503
    clock.now += 300
    assert driven_remote.note().ok
    assert driven_remote.remote.source.stale
    clock.now += DAY_S - 1
    assert driven_remote.note().ok
    clock.now += 10
    result = driven_remote.note()
    assert isinstance(result, Problem)
    assert "again: the server answered with status 503." in result.message
    assert site.notes == 2
    site.document_status = 200
    clock.now += 10
    assert driven_remote.note().ok
    assert not driven_remote.remote.source.stale


@pytest.mark.requirement("XL-016")
def test_must_revalidate_document_is_not_used_when_stale(
    site: Site, url: str, clock: Clock, session: Session, yes: Yes
) -> None:
    site.cache_control = "max-age=60, must-revalidate"
    with connect_sync(url, session=session, approve=yes) as remote:
        site.document_status = 503
        clock.now += 60
        assert not remote.call("note", {"text": "hello"}).ok
    assert site.notes == 0


@pytest.mark.requirement("XL-048", "XL-016")
@pytest.mark.parametrize("cache_control", ["no-store", "no-cache", "max-age=0"])
def test_uncacheable_document_is_refreshed_at_most_every_ten_seconds_where_the_user_is_asked(
    site: Site, url: str, clock: Clock, session: Session, yes: Yes, cache_control: str
) -> None:
    site.cache_control, site.policy = cache_control, {"approval": "per-call"}
    with connect_sync(url, session=session, approve=yes) as remote:
        for _ in range(3):
            remote.call("note", {"text": "hello"})
        assert site.looks == 1
        for _ in range(2):
            clock.now += 10
            remote.call("note", {"text": "hello"})
            remote.call("note", {"text": "hello"})
    assert site.looks == 3


@pytest.mark.requirement("XL-048", "OQ-4")
def test_no_call_is_sent_while_the_site_has_withdrawn_its_document(
    driven_remote: Driven, site: Site, clock: Clock
) -> None:
    site.document_status = 410
    clock.now += 300
    results = [driven_remote.note(), driven_remote.note(), driven_remote.refresh()]
    assert {one.kind for one in results} == {Kind.NOT_FOUND}
    assert "no longer offers its tools" in results[0].message
    assert results[0].details == {"reason": "withdrawn", "sent": False}
    assert site.notes == 0
    site.document_status = 200
    assert not driven_remote.note().ok
    clock.now += 10
    assert driven_remote.note().ok


@pytest.mark.requirement("XL-048")
def test_refresh_keeps_grants_of_unchanged_tools(driven_remote: Driven, site: Site, yes: Yes) -> None:
    driven_remote.note()
    site.listing = "List every note."
    assert [one.what for one in driven_remote.refresh()] == ["changed"]
    driven_remote.note()
    assert len(yes.questions) == 1


@pytest.mark.requirement("XL-062", "XL-063")
def test_rate_limits_keep_counting_after_a_refresh(
    site: Site, url: str, clock: Clock, session: Session, yes: Yes
) -> None:
    site.policy["rateLimit"] = {"max": 2, "window": "1m"}
    with connect_sync(url, session=session, approve=yes) as remote:
        remote.call("note", {"text": "1"})
        site.operation["summary"] = "Write it down."
        assert remote.refresh() != ()
        assert remote.call("note", {"text": "2"}).ok
        result = remote.call("note", {"text": "3"})
    assert isinstance(result, Problem)
    assert result.kind is Kind.RATE_LIMITED


@pytest.mark.requirement("XL-042", "XL-040")
def test_stricter_site_policy_after_a_refresh_overrides_the_preference(
    site: Site, url: str, session: Session, yes: Yes
) -> None:
    site.policy = {"approval": "auto"}
    wishes = Preferences(tools={"note": "auto"})  # type: ignore[dict-item]  # as a person writes it
    with connect_sync(url, session=session, approve=yes, preferences=wishes, agree=lambda _: True) as remote:
        remote.call("note", {"text": "1"})
        assert yes.questions == []
        site.policy = {"approval": "per-call"}
        remote.refresh()
        remote.call("note", {"text": "2"})
    assert len(yes.questions) == 1


@pytest.mark.requirement("XL-044")
def test_agreement_at_connect_covers_only_the_displayed_definitions(
    site: Site, url: str, session: Session, yes: Yes
) -> None:
    site.policy = {"approval": "auto"}
    with connect_sync(url, session=session, approve=yes, agree=lambda _: True) as remote:
        site.listing = "List every note."
        remote.refresh()
        remote.call("note", {"text": "1"})
        assert yes.questions == []
        site.operation["summary"] = "Write a note for everybody."
        remote.refresh()
        remote.call("note", {"text": "2"})
    assert len(yes.questions) == 1


@pytest.mark.requirement("D-20", "XL-050")
def test_tool_that_changes_during_the_question_is_not_called(site: Site, url: str, session: Session) -> None:
    async def told() -> tuple[Any, Any]:
        async def approve(_: Question) -> bool:
            site.policy["destructive"] = True
            await remote.refresh()
            return True

        async with connect(url, session=session, approve=approve) as remote:
            return await remote.call("note", {"text": "1"}), remote.catalog()

    result, catalog = asyncio.run(told())
    assert (result.kind, result.details) == (Kind.CONFLICT, {"reason": "changed"})
    assert catalog.find("note").destructive
    assert site.notes == 0


@pytest.mark.requirement("OQ-4")
def test_concurrent_calls_share_one_refresh(site: Site, url: str, clock: Clock, session: Session, yes: Yes) -> None:
    async def many() -> list[Any]:
        async with connect(url, session=session, approve=yes) as remote:
            await remote.call("note", {"text": "0"})
            clock.now += 300
            site.operation["summary"] = "Write it down."
            return await asyncio.gather(*(remote.call("note", {"text": str(n)}) for n in range(5)))

    assert all(result.ok for result in asyncio.run(many()))
    assert site.looks == 2


@pytest.mark.requirement("OQ-4", "XL-048")
def test_old_tool_object_is_called_by_its_current_definition(site: Site, url: str, session: Session, yes: Yes) -> None:
    async def held() -> list[Any]:
        async with connect(url, session=session, approve=yes) as remote:
            tool: Any = remote.catalog().find("note")
            await remote.run(Call(tool, {"text": "1"}, "a", Context()))
            site.policy = {"approval": "per-call"}
            await remote.refresh()
            again = await remote.run(Call(tool, {"text": "2"}, "b", Context()))
            site.operation.clear()
            await remote.refresh()
            return [again, await remote.run(Call(tool, {"text": "3"}, "c", Context()))]

    second, third = asyncio.run(held())
    assert isinstance(second, Value)
    assert third.kind is Kind.UNKNOWN_TOOL
    assert len(yes.questions) == 2
    assert site.notes == 2


class Switched:
    """An application that becomes another one."""

    def __init__(self, app: Any) -> None:
        self.app = app

    @property
    def active_calls(self) -> int:
        return int(self.app.active_calls)

    def drain(self) -> None:
        self.app.drain()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


def kit(name: str) -> Any:
    tools = Toolkit("Desk")

    def act() -> str:
        """Do something."""
        return name

    tools.add(act, name=name, approval="auto", safe=True)
    return asgi(tools)


@pytest.mark.requirement("OQ-4")
@pytest.mark.parametrize("protocol", ["otc", "opentool", "mcp"])
def test_unknown_tool_response_refreshes_in_every_protocol(protocol: str) -> None:
    app, person = Switched(kit("first")), Yes()
    with background(app) as url, connect_sync(url, protocol=protocol, agree=lambda _: True, approve=person) as remote:
        assert remote.call("first") == Value("first")
        app.app = kit("second")
        result: Any = remote.call("first")
        assert "The server no longer offers first." in result.message
        assert person.questions == []
        assert remote.call("second") == Value("second")
        assert [question.call.tool.name for question in person.questions] == ["second"]  # agreed to was the first alone
        assert [tool.name for tool in remote.tools] == ["second"]


@pytest.mark.requirement("OQ-4", "XL-048")
def test_gateway_sees_upstream_changes_without_user_credentials(
    site: Site, url: str, clock: Clock, session: Session
) -> None:
    async def served() -> list[Any]:
        remote = connect_without_user(url, session)  # inside a running loop, as an app may be made
        before = remote.catalog()
        denied = await remote.call("note", {"text": "1"})
        site.listing = "List every note."
        clock.now += 300
        listed = await remote.call("list")
        remote.close()
        return [denied.kind, listed.ok, before is remote.catalog(), remote.catalog().find("list").description]

    assert asyncio.run(served()) == [Kind.DENIED, True, False, "List every note."]
    assert not site.keys


@pytest.mark.requirement("OQ-4")
def test_closed_connection_does_not_refresh(driven_remote: Driven, site: Site) -> None:
    driven_remote.remote.close()
    before = len(site.seen)
    assert driven_remote.refresh().kind is Kind.UNREACHABLE
    assert driven_remote.note().kind is Kind.UNREACHABLE
    assert len(site.seen) == before


@pytest.mark.requirement("OQ-4")
def test_documents_are_compared_in_order_up_to_the_first_difference() -> None:
    first, second = Request("GET", "https://site.test/llm.json"), Request("GET", "https://site.test/openapi.json")
    basis = DocumentSnapshot(digests={first: sha256(b"1").digest(), second: sha256(b"2").digest()})

    def found() -> Any:
        return "found"
        yield  # a conversation that asks nothing

    def ended(*answers: Any) -> tuple[Any, int]:
        flow, reply = refetch(basis, found()), iter(answers)
        asked = 0
        try:
            flow.send(None)
            while True:
                asked += 1
                flow.send(next(reply))
        except StopIteration as stop:
            return stop.value, asked

    assert ended(Response(200, (), b"1"), Response(200, (), b"2")) == (None, 2)
    assert ended(Response(200, (), b"other")) == ("found", 1)
    assert ended(Response(200, (), b"1"), Response(404, (), b"2")) == ("found", 2)
    for failure in (Response(500), Response(429), Problem(kind=Kind.UNREACHABLE, message="down")):
        result, asked = ended(failure)
        assert (result.kind, asked) == (Kind.UNREACHABLE, 1)


@pytest.mark.requirement("FU-61", "XL-048")
@pytest.mark.parametrize(
    ("cache_control", "later_s"), [("max-age=1", 3), ("no-store", 8), ("no-cache", 0), ("max-age=0", 1)]
)
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_tool_that_was_tightened_is_asked_about_before_the_next_call_without_a_question(
    site: Site, url: str, session: Session, clock: Clock, yes: Yes, cache_control: str, later_s: float, kind: str
) -> None:
    site.policy, site.cache_control = {"approval": "auto"}, cache_control

    async def call_both() -> None:
        async with connect(url, session=session, approve=yes, agree=lambda _: True) as remote:
            assert (await remote.call("note", {"text": "a"})).ok
            tighten()
            assert (await remote.call("note", {"text": "b"})).ok

    def tighten() -> None:
        assert yes.questions == []
        site.policy = {"approval": "per-call"}
        clock.now += later_s

    if kind == "async":
        asyncio.run(call_both())
    else:
        with connect_sync(url, session=session, approve=yes, agree=lambda _: True) as remote:
            assert remote.call("note", {"text": "a"}).ok
            tighten()
            assert remote.call("note", {"text": "b"}).ok
    assert [question.call.arguments for question in yes.questions] == [{"text": "b"}]
    assert site.notes == 2


@pytest.mark.requirement("FU-61")
def test_a_grant_is_checked_as_often_as_the_site_says(
    site: Site, url: str, session: Session, clock: Clock, yes: Yes
) -> None:
    site.cache_control = "max-age=2"
    with connect_sync(url, session=session, approve=yes) as remote:
        assert remote.call("note", {"text": "a"}).ok
        clock.now += 1
        assert remote.call("note", {"text": "b"}).ok
        assert (len(yes.questions), site.looks) == (1, 1)
        site.policy = {"approval": "per-call"}
        clock.now += 2
        assert remote.call("note", {"text": "c"}).ok
        assert len(yes.questions) == 2


@pytest.mark.requirement("FU-61")
def test_a_fresh_document_a_failed_fetch_and_a_call_with_a_question_cause_no_further_fetch(
    site: Site, url: str, session: Session, clock: Clock, yes: Yes
) -> None:
    site.cache_control = "max-age=2"
    with connect_sync(url, session=session, approve=yes) as remote:
        clock.now += 1
        assert remote.call("list").ok
        assert site.looks == 1
        site.document_status, clock.now = 500, clock.now + 2
        for _ in range(3):
            assert remote.call("list").ok
        assert site.looks == 2
        site.document_status, clock.now = 200, clock.now + 10
        assert remote.call("list").ok
        assert site.looks == 3
    site.policy, site.cache_control = {"approval": "per-call", "blanketApprovalAllowed": False}, "no-store"
    with connect_sync(url, approve=yes) as remote:
        looks = site.looks
        assert remote.call("note", {"text": "a"}).ok
        assert site.looks == looks


@pytest.mark.requirement("FU-61")
def test_calls_at_the_same_time_share_a_check(site: Site, url: str, session: Session, yes: Yes) -> None:
    site.cache_control = "no-store"

    async def call_many() -> list[Any]:
        async with connect(url, session=session, approve=yes) as remote:
            return await asyncio.gather(*(remote.call("list") for _ in range(20)))

    assert all(one.ok for one in asyncio.run(call_many()))
    assert site.looks == 2
