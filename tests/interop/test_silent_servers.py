"""A server that does not use x-llm leaves it to its user to allow later calls, but only within bounds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

from tests.support.silent_bank import POLICY, SilentBank
from toolwire import Answer, Question, Selection, Session, connect, connect_sync
from toolwire.cli import main
from toolwire.consent import ClientRules, Preferences
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Approval
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.server.options import ServerOptions
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.open import open_grants
from toolwire.testing import background

pytestmark = pytest.mark.requirement("QF-03")
SMALL = GrantBounds(conditions=[("/to", "in", ["Ada", "Bob"]), ("/amount", "le", 50)])
SUM = GrantBounds(conditions=[("/amount", "sum", 100)])
WEAK = (
    None,
    GrantBounds(uses=3),
    GrantBounds(until=4e9),
    GrantBounds(conditions=[("/to", "present", True)]),
    GrantBounds(conditions=[("/to", "ne", "Eve")]),
    GrantBounds(conditions=[("/amount", "ge", 0)]),
    GrantBounds(conditions=[]),
)
NEEDED = "a permission needs a condition that limits an argument, or a sum"


class Person:
    """Who is asked: allows each call, and later ones within ``bounds``."""

    def __init__(self, bounds: GrantBounds | None, *, always: bool = True) -> None:
        self.bounds, self.always = bounds, always
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(allowed=True, always=self.always, bounds=self.bounds)


@pytest.fixture
def bank() -> SilentBank:
    return SilentBank()


@pytest.fixture
def site(bank: SilentBank) -> Iterator[str]:
    with background(bank) as url:
        yield url


PROTOCOLS = {"/mcp": "mcp", "/openapi.json": "openapi"}


def connect_bank(site: str, path: str, person: Any, session: Session, **options: Any) -> Any:
    given = {"approve": person, "session": session, "selection": Selection(include="all"), **options}
    return connect_sync(f"{site}{path}", protocol=PROTOCOLS[path], **given)


PATHS = pytest.mark.parametrize("path", ["/mcp", "/openapi.json"])


@PATHS
def test_user_allows_later_calls_within_bounds_and_no_others(path: str, site: str, bank: SilentBank) -> None:
    person, session = Person(SMALL), Session()
    with connect_bank(site, path, person, session) as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 20}).ok
        assert person.asked[0].always_allowed is None
        assert remote.call("pay", {"to": "Bob", "amount": 50}).ok
        assert len(person.asked) == 1
        assert remote.call("pay", {"to": "Eve", "amount": 1}).ok
        assert remote.call("pay", {"to": "Ada", "amount": 51}).ok
        assert len(person.asked) == 3
    stored = session.grants.list_grants()
    assert all(0 < one.expires_at - one.given_at <= 30 * 86_400 for one in stored)


@PATHS
def test_sum_is_used_up_and_then_the_user_is_asked(path: str, site: str) -> None:
    person, session = Person(SUM), Session()

    async def story() -> None:
        given: Any = {"approve": person, "session": session, "selection": Selection(include="all")}
        given["protocol"] = PROTOCOLS[path]
        async with connect(f"{site}{path}", **given) as remote:
            for amount in (70, 60, 40):
                assert (await remote.call("pay", {"to": "Ada", "amount": amount})).ok
            assert len(person.asked) == 1
            person.always = False
            assert (await remote.call("pay", {"to": "Ada", "amount": 1})).ok

    anyio.run(story)
    assert len(person.asked) == 2


@PATHS
@pytest.mark.parametrize("bounds", WEAK)
def test_always_without_bounds_covers_no_later_call_and_the_program_is_told(
    path: str, bounds: GrantBounds | None, site: str
) -> None:
    person, session = Person(bounds), Session()
    with connect_bank(site, path, person, session) as remote:
        result = remote.call("pay", {"to": "Ada", "amount": 1})
        assert result.ok
        assert NEEDED in str(result.notes["always_not_kept"])
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
    assert len(person.asked) == 2
    assert session.grants.list_grants() == []


@PATHS
def test_yes_in_advance_is_none_for_it(path: str, site: str, bank: SilentBank) -> None:
    words = [
        "call",
        f"{site}{path}",
        "pay",
        "to=Ada",
        "amount=1",
        "--include",
        "all",
        "--yes",
        "--protocol",
        PROTOCOLS[path],
    ]
    assert main(words) != 0


def _mark_mcp(bank: SilentBank, **policy: Any) -> None:
    bank.entry["_meta"] = {POLICY: {"enabled": True, **policy}}


def _mark_other(bank: SilentBank) -> None:
    bank.policy = {"enabled": True}


FLIPS: dict[str, tuple[str, Callable[[SilentBank], object]]] = {
    "x-llm by MCP": ("/mcp", _mark_mcp),
    "x-llm": ("/openapi.json", _mark_other),
    "consequential": ("/openapi.json", lambda bank: setattr(bank, "policy", {"enabled": True, "approval": "per-call"})),
    "destructive": ("/mcp", lambda bank: bank.entry.update(annotations={"destructiveHint": True})),
    "description": ("/mcp", lambda bank: bank.entry.update(description="Pay somebody, and tell everybody.")),
    "argument": ("/openapi.json", lambda bank: bank.schema["properties"].update(note={"type": "string"})),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("flip", FLIPS)
def test_permission_ends_when_the_server_declares_more_or_changes_the_tool(
    flip: str, site: str, bank: SilentBank
) -> None:
    path, change = FLIPS[flip]
    person, session = Person(SMALL), Session()
    with connect_bank(site, path, person, session) as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 20}).ok
    before = dict(bank.entry), bank.policy
    change(bank)
    person.always = False
    with connect_bank(site, path, person, session) as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 20}).ok
    assert len(person.asked) == 2
    if flip.startswith("x-llm"):
        assert person.asked[1].always_allowed is False
        # A server that takes its word back does not revive the permission.
        bank.entry, bank.policy = before
        with connect_bank(site, path, person, session) as remote:
            assert remote.call("pay", {"to": "Ada", "amount": 20}).ok
        assert len(person.asked) == 3


RISKS: dict[str, Callable[[SilentBank], object]] = {
    "/mcp": lambda bank: bank.entry.update(annotations={"destructiveHint": True}),
    "/openapi.json": lambda bank: setattr(bank, "method", "delete"),
}
LAX = ClientRules(always_destructive=True, always_costly=True, always_elsewhere=True)


@PATHS
def test_no_setting_offers_it_for_a_call_that_destroys(path: str, site: str, bank: SilentBank) -> None:
    RISKS[path](bank)
    person, session = Person(SMALL), Session(rules=LAX)
    with connect_bank(site, path, person, session) as remote:
        remote.call("pay", {"to": "Ada", "amount": 20})
    assert person.asked[0].always_allowed is False
    assert session.grants.list_grants() == []


def test_no_setting_offers_it_for_a_call_to_another_origin(site: str, bank: SilentBank) -> None:
    other = SilentBank()
    with background(other) as elsewhere:
        bank.server = elsewhere
        person, session = Person(SMALL), Session(rules=LAX)
        with connect_bank(site, "/openapi.json", person, session, allow_origins=[elsewhere]) as remote:
            assert remote.call("pay", {"to": "Ada", "amount": 20}).ok
    assert person.asked[0].always_allowed is False
    assert len(other.paid) == 1


@PATHS
def test_user_who_wants_to_be_asked_each_time_is_offered_nothing(path: str, site: str) -> None:
    person, session = Person(SMALL), Session()
    wish = Preferences(writes=Approval.PER_CALL)
    with connect_bank(site, path, person, session, preferences=wish) as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 20}).ok
    assert person.asked[0].always_allowed is False


@PATHS
def test_store_keeps_no_always_without_bounds_whoever_answers(path: str, site: str, tmp_path: Path) -> None:
    approvals, session = Approvals(tmp_path), Session()
    seen: list[Question] = []

    def ask(question: Question) -> Answer:
        seen.append(question)
        return Answer(allowed=False)

    with connect_bank(site, path, ask, session) as remote:
        remote.call("pay", {"to": "Ada", "amount": 20})
    id_ = approvals.ask(seen[0])
    assert [one.always_allowed for one in approvals.list_pending()] == [None]
    for bounds in WEAK:
        with pytest.raises(DefinitionError, match=NEEDED):
            approvals.answer(id_, Answer(allowed=True, always=True, bounds=bounds))
    assert approvals.list_pending(), "a refused answer is none"
    assert approvals.answer(id_, Answer(allowed=True, always=True, bounds=SMALL))
    answer = approvals.take(id_, seen[0].binding)
    assert answer is not None
    assert (answer.allowed, answer.always, answer.bounds) == (True, True, SMALL)


def test_row_that_an_earlier_version_answered_covers_this_call_alone(site: str, tmp_path: Path) -> None:
    approvals, seen = Approvals(tmp_path), list[Question]()
    with connect_bank(site, "/mcp", lambda one: seen.append(one) or Answer(allowed=False), Session()) as remote:
        remote.call("pay", {"to": "Ada", "amount": 20})
    for statement in (
        "UPDATE questions SET allowed = 1, always = 1",
        "UPDATE questions SET allowed = 1, always = 1, always_allowed = 0",
    ):
        id_ = approvals.ask(seen[0])
        with closing(sqlite3.connect(tmp_path / "approvals.sqlite3")) as older:
            older.execute(f"{statement} WHERE id = ?", (id_,))
            older.commit()
        answer = approvals.take(id_, seen[0].binding)
        assert answer is not None
        assert (answer.allowed, answer.always) == (True, False)


KEY = "ann-key-000000000000000000000000"
SAME = "do not ask about the same call again for 30 days"


@pytest.fixture
def gateway(site: str, bank: SilentBank, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a gateway to the bank by MCP, whose callers decide."""
    bank.has_document = False
    server = ServerOptions(state=str(tmp_path))
    settings = ServeSettings(targets=[f"{site}/mcp"], api_keys=[f"{KEY} ann"], consent="inbox", server=server)
    with background(build_app(settings, open_toolboxes(settings))) as url:
        yield url


def send(gateway: str, later: str | None, *amounts: float) -> tuple[list[Any], list[bool]]:
    """Call the tool with each of ``amounts`` by the SDK of MCP. Return the forms that its user saw, and what ran.

    Without ``later``, the host shows no forms.
    """
    forms: list[Any] = []
    ran: list[bool] = []

    async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
        forms.append(params.requested_schema)  # type: ignore[union-attr]
        return ElicitResult(action="accept", content={"allow": True, "later": later})

    async def story() -> None:
        async with httpx2.AsyncClient(headers={"x-api-key": KEY}) as web:
            transport = streamable_http_client(f"{gateway}/mcp", http_client=web)
            async with Client(transport, elicitation_callback=answer if later else None) as client:
                for amount in amounts:
                    result = await client.call_tool("pay", {"to": "Ada", "amount": amount})
                    ran.append(not result.is_error)

    anyio.run(story)
    return forms, ran


def test_form_offers_the_same_call_alone_and_takes_nothing_else(gateway: str, tmp_path: Path) -> None:
    (form, again), ran = send(gateway, "do not ask about pay again for 30 days", 20, 20)
    assert form["properties"]["later"]["enum"] == ["ask me each time", SAME]
    assert (again, ran) == (form, [True, True])
    assert open_grants(tmp_path).list_grants() == []
    assert len(send(gateway, SAME, 20, 20, 20)[0]) == 1
    assert len(send(gateway, SAME, 20, 21)[0]) == 1


def test_inbox_of_a_gateway_needs_bounds_and_a_stricter_server_ends_them(
    gateway: str, site: str, bank: SilentBank, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert send(gateway, None, 20) == ([], [False])
    (asked,) = Approvals(tmp_path).list_pending()
    allow = ["approvals", "allow", asked.id, "--path", str(tmp_path)]
    for words in (["--always"], ["--times", "3"], ["--bound", "amount >= 0"]):
        assert main([*allow, *words]) != 0
        error = capsys.readouterr().err
        assert NEEDED in error
        assert len(error.strip().splitlines()) == 1
    assert main([*allow, "--bound", "amount <= 50", "--times", "3"]) == 0
    assert send(gateway, None, 20, 30, 51) == ([], [True, True, False])
    _mark_mcp(bank)
    server = ServerOptions(state=str(tmp_path))
    settings = ServeSettings(targets=[f"{site}/mcp"], api_keys=[f"{KEY} ann"], consent="inbox", server=server)
    with background(build_app(settings, open_toolboxes(settings))) as stricter:
        assert send(stricter, None, 30) == ([], [False])
    assert [one.always_allowed for one in Approvals(tmp_path).list_pending()] == [None, False]
    assert main(["approvals", "allow", Approvals(tmp_path).list_pending()[1].id, "--path", str(tmp_path), "--always"])
    assert "one call at a time" in capsys.readouterr().err
