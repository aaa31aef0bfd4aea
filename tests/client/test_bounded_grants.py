"""A user says "always" within bounds: what is inside goes without a question, and everything else is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.refusing_server import RefusingServer
from toolwire import (
    Answer,
    ClientRateLimits,
    GrantBounds,
    Preferences,
    Question,
    RateLimit,
    ToolError,
    Toolkit,
    asgi,
    connect,
    connect_sync,
)
from toolwire.client import Session, open_stored_session
from toolwire.core.model import Approval
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_app
from toolwire.hosting.serve_settings import ServeSettings
from toolwire.testing import background

SMALL = GrantBounds(conditions=[("/to", "in", ["Ada", "Bob"]), ("/amount", "le", 50)], uses=3)


class Bank:
    """A bank that pays, and what it paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, float]] = []
        self.kit = kit = Toolkit("Bank")
        self.is_down = False

        @kit.tool(approval="per-call", blanket_allowed=True)
        def pay(to: str, amount: float = 5) -> str:
            """Pay somebody."""
            if self.is_down:
                raise ToolError("The bank is down.")
            self.paid.append((to, amount))
            return "paid"

        @kit.tool(approval="per-call")
        def close(to: str) -> str:
            """Close an account."""
            self.paid.append((to, 0))
            return "closed"

        @kit.tool(approval="per-call", blanket_allowed=True, ask_when=[("/amount", "gt", 20)])
        def give(to: str, amount: float) -> str:
            """Give something."""
            self.paid.append((to, amount))
            return "given"

        @kit.tool(approval="per-call", blanket_allowed=True, destructive=True)
        def delete(to: str) -> str:
            """Delete an account."""
            self.paid.append((to, 0))
            return "deleted"


class Person:
    """Who is asked: the answer to each question, and the questions."""

    def __init__(self, bounds: GrantBounds | None = SMALL, *, allows: bool = True) -> None:
        self.bounds, self.allows = bounds, allows
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(allowed=self.allows, always=self.bounds is not None, bounds=self.bounds)


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def url(bank: Bank) -> Iterator[str]:
    with background(asgi(bank.kit)) as served:
        yield served


PAYMENTS = GrantBounds(
    conditions=[("/to", "in", ["Ada", "Bob"]), ("/amount", "le", 50), ("/amount", "ge", 0), ("/amount", "sum", 100)]
)


@pytest.mark.requirement("QF-03")
def test_payments_to_these_people_never_add_up_to_more_than_the_user_allowed(url: str, bank: Bank) -> None:
    person = Person(PAYMENTS)

    async def story() -> None:
        async with connect(url, approve=person, protocol="openapi") as remote:
            assert (await remote.call("pay", {"to": "Ada", "amount": 70})).ok
            person.bounds, person.allows = None, False
            results: list[bool] = []

            async def pay() -> None:
                results.append((await remote.call("pay", {"to": "Ada", "amount": 30})).ok)

            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(pay)
            assert sorted(results) == [False] * 3 + [True] * 3
            assert not (await remote.call("pay", {"to": "Eve", "amount": 1})).ok
            assert not (await remote.call("pay", {"to": "Bob", "amount": 10.5})).ok
            assert (await remote.call("pay", {"to": "Bob", "amount": 10})).ok

    anyio.run(story)
    assert sum(amount for _, amount in bank.paid[1:]) == 100


@pytest.mark.requirement("QF-03")
@pytest.mark.parametrize("status", [401, 403, 404, 422, 429, 503])
def test_server_that_pays_and_denies_it_cannot_make_payments_exceed_the_sum(bank: Bank, status: int) -> None:
    person, session = Person(PAYMENTS), Session()
    server = RefusingServer(asgi(bank.kit))
    with (
        background(server) as url,
        connect_sync(url, approve=person, protocol="openapi", session=session) as remote,
    ):
        assert remote.call("pay", {"to": "Ada", "amount": 70}).ok
        person.bounds, person.allows = None, False
        server.status = status
        for _ in range(4):
            assert not remote.call("pay", {"to": "Ada", "amount": 40}).ok
    assert bank.paid[1:] == [("Ada", 40), ("Ada", 40)]
    assert [(one.covered, one.total) for one in session.grants.list_grants()] == [(2, 80)]


@pytest.mark.requirement("CC-03")
def test_three_calls_within_the_bounds_are_not_asked_about_and_the_fourth_is(url: str, bank: Bank) -> None:
    person = Person()
    with connect_sync(url, approve=person, protocol="openapi") as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 70}).ok  # asked, and answered with bounds for later calls
        person.bounds = None
        assert remote.call("pay", {"to": "Ada", "amount": 51}).ok
        assert remote.call("pay", {"to": "Eve", "amount": 1}).ok
        assert remote.call("pay", {"to": "Ada"}).ok  # no amount: the default of the site is its word
        assert len(person.asked) == 4
        person.allows = False
        for to in ("Ada", "Bob", "Ada"):
            assert remote.call("pay", {"to": to, "amount": 50}).ok
        assert len(person.asked) == 4
        assert not remote.call("pay", {"to": "Ada", "amount": 50}).ok
    assert len(person.asked) == 5
    assert bank.paid[4:] == [("Ada", 50), ("Bob", 50), ("Ada", 50)]


@pytest.mark.requirement("CC-03")
def test_concurrent_asynchronous_calls_do_not_exceed_the_grant(url: str, bank: Bank) -> None:
    person = Person()

    async def story() -> None:
        async with connect(url, approve=person, protocol="openapi") as remote:
            assert (await remote.call("pay", {"to": "Ada", "amount": 70})).ok
            person.allows, person.bounds = False, None
            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(lambda: remote.call("pay", {"to": "Bob", "amount": 1}))

    anyio.run(story)
    assert bank.paid == [("Ada", 70), ("Bob", 1), ("Bob", 1), ("Bob", 1)]


@pytest.mark.requirement("CC-03")
def test_bounded_grant_survives_a_restart_and_needs_no_approver(url: str, bank: Bank, tmp_path: Path) -> None:
    with connect_sync(url, approve=Person(), session=open_stored_session(tmp_path), protocol="openapi") as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 70}).ok
    session = open_stored_session(tmp_path)
    with connect_sync(url, session=session, protocol="openapi") as remote:
        assert [remote.call("pay", {"to": "Ada", "amount": 1}).ok for _ in range(4)] == [True, True, True, False]
    assert len(bank.paid) == 4
    decisions = [(one.record.decision, one.record.channel) for one in session.audit.entries()]
    (grant,) = {channel for _, channel in decisions[1:4]}
    assert decisions[1:] == [("allowed", grant)] * 3 + [("unasked", "")]
    assert grant.startswith("grant "), "the log names the permission"


@pytest.mark.requirement("CC-03", "XL-042", "XL-045", "XL-046")
@pytest.mark.parametrize("tool", ["close", "delete", "give"])
def test_bounds_cannot_allow_a_tool_that_forbids_allow_always(url: str, bank: Bank, tool: str) -> None:
    person = Person(GrantBounds(uses=100))
    arguments = {"to": "Ada", **({"amount": 21} if tool == "give" else {})}
    with connect_sync(url, approve=person, protocol="openapi") as remote:
        for _ in range(3):
            assert remote.call(tool, arguments).ok
    assert len(person.asked) == 3


@pytest.mark.requirement("CC-03", "XL-042")
def test_stricter_preference_asks_despite_a_grant(url: str, bank: Bank) -> None:
    session, person = Session(), Person(GrantBounds(uses=100))
    with connect_sync(url, approve=person, session=session, protocol="openapi", name="bank") as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
    assert len(person.asked) == 1
    strict = Preferences(tools={"pay": Approval.PER_CALL})
    with connect_sync(
        url, approve=person, session=session, protocol="openapi", name="bank", preferences=strict
    ) as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
    assert len(person.asked) == 2


@pytest.mark.requirement("CC-03")
def test_unsent_call_uses_no_grant_and_a_failed_call_uses_one(url: str, bank: Bank) -> None:
    session = Session(limits=ClientRateLimits(tool=RateLimit(max=3, window="1h"), connection=None))
    with connect_sync(url, approve=Person(), session=session, protocol="openapi") as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 70}).ok
        assert not remote.call("pay", {"to": "Ada", "amount": "many"}).ok  # it does not fit
        [grant] = session.grants.list_grants()
        assert grant.uses_left == 3
        bank.is_down = True
        assert not remote.call("pay", {"to": "Ada", "amount": 1}).ok
        [grant] = session.grants.list_grants()
        assert grant.uses_left == 2
        bank.is_down = False
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
        assert not remote.call("pay", {"to": "Ada", "amount": 1}).ok  # the limit of the user
        [grant] = session.grants.list_grants()
        assert grant.uses_left == 1


@pytest.mark.requirement("CC-03", "XL-056")
def test_grant_does_not_answer_a_server_confirmation(bank: Bank) -> None:
    person = Person()
    app = asgi(bank.kit, require_confirmation=lambda call: "Really?" if call.arguments["amount"] == 2 else "")
    with background(app) as served, connect_sync(served, approve=person, protocol="openapi") as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 70}).ok
        person.allows, person.bounds = False, None
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
        assert not remote.call("pay", {"to": "Ada", "amount": 2}).ok
    assert len(person.asked) == 2
    assert bank.paid == [("Ada", 70), ("Ada", 1)]


@pytest.mark.requirement("CC-03", "XL-053")
def test_a_gateway_that_wants_consent_is_answered_by_the_user_and_not_by_a_grant(url: str, bank: Bank) -> None:
    settings, person = ServeSettings(targets=[url]), Person()
    with (
        background(build_app(settings, open_toolboxes(settings))) as front,
        connect_sync(front, approve=person, protocol="openapi") as remote,
    ):
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
        assert len(person.asked) == 1  # the gateway asked for the same consent, which the user had just given
        person.allows, person.bounds = False, None
        assert not remote.call("pay", {"to": "Ada", "amount": 1}).ok
    assert len(person.asked) == 2
    assert bank.paid == [("Ada", 1)]


@pytest.mark.requirement("CC-03")
@pytest.mark.parametrize("bounds", ["ten times", {"uses": 10}, 5])
def test_an_answer_with_bounds_of_another_type_grants_nothing(url: str, bank: Bank, bounds: Any) -> None:
    person = Person(bounds)
    with connect_sync(url, approve=person, protocol="openapi") as remote:
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
        assert remote.call("pay", {"to": "Ada", "amount": 1}).ok
    assert len(person.asked) == 2


@pytest.mark.requirement("AT-49")
@pytest.mark.parametrize(
    ("bounds", "covered"),
    [
        (GrantBounds(conditions=[("/to", "eq", "Ada")], uses=5), [True, False]),
        (GrantBounds(uses=5), [True, False]),
        (GrantBounds(conditions=[("/to", "eq", "Ada"), ("/bcc", "eq", "Eve")], uses=5), [False, True]),
        (GrantBounds(conditions=[("/to", "eq", "Ada")], uses=5, unseen=True), [True, True]),
    ],
)
@pytest.mark.parametrize("protocol", ["openapi", "mcp"])
@pytest.mark.parametrize("stored", [True, False])
def test_an_argument_that_was_absent_stays_absent(
    bounds: GrantBounds, covered: list[bool], protocol: str, stored: bool, tmp_path: Path
) -> None:
    kit = Toolkit("Mail")

    @kit.tool(approval="per-call", blanket_allowed=True)
    def send(to: str, text: str, bcc: str = "") -> str:
        """Send a mail."""
        return to + text + bcc

    person = Person(bounds)
    session = open_stored_session(tmp_path) if stored else Session()
    with (
        background(asgi(kit)) as url,
        connect_sync(url, approve=person, protocol=protocol, session=session) as remote,
    ):
        assert remote.call("send", {"to": "Ada", "text": "hello"}).ok
        person.allows, person.bounds = False, None
        for more, goes in zip(({"text": "other"}, {"text": "a", "bcc": "Eve"}), covered, strict=True):
            assert remote.call("send", {"to": "Ada", **more}).ok is goes
