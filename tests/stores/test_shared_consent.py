# ruff: noqa: F811 - fixtures are imported
"""Questions, grants, decisions, levels and used words in PostgreSQL: what machines share, and what a fault costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

import pytest

from tests.postgres import Postgres, postgres, psycopg, shared_postgres, wait_until_answering  # noqa: F401
from toolwire import Problem, Session, Toolkit, Value, asgi, connect_sync
from toolwire.consent import Preferences
from toolwire.consent.decision_record import Decision, find_chain_fault
from toolwire.consent.grant import GrantKey
from toolwire.core.check import Answer, Question
from toolwire.core.errors import DefinitionError
from toolwire.core.grant_bounds import GrantBounds
from toolwire.core.model import Approval, Call, Kind, Tool
from toolwire.server.asking.confirmation import ConfirmationTokens
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.grants import StoredGrants
from toolwire.stores.consent.open import open_approvals, open_decisions, open_grants, open_levels
from toolwire.stores.consent.postgres import PostgresAudit, PostgresPreferences, PostgresUsedNonces
from toolwire.stores.consent.tables import CONSENT
from toolwire.stores.postgres_rows import PostgresRows
from toolwire.testing import background

T = TypeVar("T")
KEY = GrantKey("ada", "shop", "https://a.example", "order", "d1")
RECORD = Decision(at=1.0, principal="ada", connection="a", tool="note", binding="b1", decision="allowed")
QUESTION = Question(
    Call(Tool(name="note"), {"text": "tea"}), "https://a.example", "POST /note", Approval.PER_CALL, binding="b1"
)


@pytest.fixture
def url(shared_postgres: Postgres) -> str:
    return shared_postgres.create_database()


@pytest.fixture
def machines(url: str) -> Iterator[list[PostgresRows]]:
    """Three connections of their own, as three machines have them."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(PostgresRows(url, CONSENT))) for _ in range(3)]


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """Return what ``work`` returns in ``count`` threads that begin at the same time."""
    gate, found = threading.Barrier(count), [None] * count

    def run(number: int) -> None:
        gate.wait()
        found[number] = work(number)  # type: ignore[call-overload]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found  # type: ignore[return-value]


@pytest.mark.requirement("ST-01", "XL-050")
def test_a_question_of_one_machine_is_answered_on_another_and_taken_once(machines: list[PostgresRows]) -> None:
    asker, answerer, other = (Approvals(rows, clock=rows.clock) for rows in machines)
    question = replace(QUESTION, always_allowed=None)
    id_ = asker.ask(question)
    assert other.ask(question) == id_
    (waiting,) = answerer.list_pending()
    assert (waiting.id, waiting.rows[1].text, waiting.always_allowed) == (id_, "https://a.example", None)
    with pytest.raises(DefinitionError, match="a permission needs a condition"):
        answerer.answer(id_, Answer(allowed=True, always=True))
    bounds = GrantBounds(conditions=[("/text", "eq", "tea")], uses=2)
    assert answerer.answer(id_, Answer(allowed=True, always=True, bounds=bounds, reason="it is mine"))
    assert not other.answer(id_, Answer(allowed=False))
    taken = together(6, lambda number: (asker, other)[number % 2].take(id_, "b1"))
    allowed = [one for one in taken if one is not None and one.allowed]
    assert allowed == [Answer(allowed=True, always=True, bounds=bounds, reason="it is mine", channel="store")]
    assert list(answerer.list_pending()) == []


@pytest.mark.requirement("ST-01", "CC-03")
def test_a_grant_of_three_machines_is_spent_exactly_as_often_as_it_says(machines: list[PostgresRows]) -> None:
    stores = [StoredGrants(rows, clock=rows.clock) for rows in machines]
    stores[0].add(KEY, GrantBounds(uses=20))
    stores[1].add(KEY, GrantBounds(uses=5))
    spent = together(6, lambda number: sum(bool(stores[number % 3].spend(KEY, {})) for _ in range(12)))
    assert sum(spent) == 25
    assert [store.has_bounded_grant(KEY) for store in stores] == [False] * 3


@pytest.mark.requirement("ST-01", "QF-03")
def test_calls_on_three_machines_never_add_up_to_more_than_the_sum_of_a_grant(machines: list[PostgresRows]) -> None:
    stores = [StoredGrants(rows, clock=rows.clock) for rows in machines]
    stores[0].add(KEY, GrantBounds(conditions=[("/amount", "sum", 10)]))
    call = {"amount": 0.7}

    def spend(number: int) -> int:
        return sum(bool(stores[number % 3].spend(KEY, call)) for _ in range(5))

    assert sum(together(6, spend)) == 14
    assert [(one.covered, one.total) for one in stores[0].list_grants()] == [(14, Decimal("9.8"))]


@pytest.mark.requirement("ST-01", "XL-048")
def test_a_grant_is_found_and_revoked_on_every_machine(machines: list[PostgresRows]) -> None:
    here, there, _ = (StoredGrants(rows, clock=rows.clock) for rows in machines)
    here.add(KEY)
    here.add(KEY)
    here.pin_definition(KEY, {"name": "order"})
    here.pin_definition(KEY, {"name": "order", "more": 1})
    assert there.has_grant(KEY)
    assert there.find_pinned(KEY) == {"name": "order", "more": 1}
    [listed] = there.list_grants()
    assert listed.key == KEY
    there.revoke_outdated(KEY._replace(definition="d2"))
    assert not here.has_grant(KEY)
    here.add(KEY)
    assert there.revoke(there.list_grants()[0].id)
    assert not here.has_grant(KEY)


@pytest.mark.requirement("ST-01", "XL-055")
def test_decisions_of_all_machines_form_one_chain_that_is_not_changed(machines: list[PostgresRows], url: str) -> None:
    logs = [PostgresAudit(rows) for rows in machines]
    together(6, lambda number: [logs[number % 3].append(replace(RECORD, tool=f"t{number}")) for _ in range(10)])
    entries = logs[0].entries()
    assert [entry.number for entry in entries] == list(range(1, 61))
    assert find_chain_fault(entries, logs[0].start()) == ""
    assert [entry.number for entry in logs[1].iterate_back()] == list(range(60, 0, -1))
    assert next(iter(logs[1].iterate_back(11))).number == 10
    assert logs[2].last_number() == 60
    with psycopg.connect(url, autocommit=True) as connection:
        for change in (
            "UPDATE toolwire_audit SET record = ''",
            "DELETE FROM toolwire_audit",
            "TRUNCATE toolwire_audit",
        ):
            with pytest.raises(psycopg.Error, match="the audit log is only added to"):
                connection.execute(change.encode())


@pytest.mark.requirement("AT-43")
@pytest.mark.parametrize("later", [0, 2])
def test_an_emptied_log_in_a_database_is_noticed(machines: list[PostgresRows], url: str, later: int) -> None:
    log = PostgresAudit(machines[0])
    assert (log.find_start_fault(), log.entries(), log.last_number()) == ("", [], 0)
    log.append(RECORD)
    assert log.find_start_fault() or find_chain_fault(log.entries(), log.start()) == ""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE toolwire_audit DISABLE TRIGGER ALL")
        connection.execute("DELETE FROM toolwire_audit")
    for _ in range(later):
        PostgresAudit(machines[1]).append(RECORD)
    assert log.find_start_fault() or find_chain_fault(log.entries(), log.start())


@pytest.mark.requirement("ST-01", "XL-042")
def test_a_level_that_is_set_on_one_machine_holds_on_another(machines: list[PostgresRows]) -> None:
    here, there = PostgresPreferences(machines[0]), PostgresPreferences(machines[1])
    site = "https://a.example"
    assert there.find(site) == Preferences()
    here.set(site, "order", Approval.DENY)
    here.set(site, "*writes", Approval.PER_CALL)
    deadline = time.monotonic() + 20
    while (found := there.find(site)) == Preferences():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (found.tools["order"], found.writes) == (Approval.DENY, Approval.PER_CALL)
    assert there.find(site) is found
    assert here.unset(site, "order")
    assert not here.unset(site, "order")
    assert [one.tool for one in here.list_levels()] == ["*writes"]
    with pytest.raises(DefinitionError, match="cannot be stored: a rule must be per-call or deny"):
        here.set(site, "order", Approval.AUTO)


@pytest.mark.requirement("ST-01", "XL-056")
def test_a_word_of_one_machine_is_accepted_once_by_all_of_them(machines: list[PostgresRows], url: str) -> None:
    spent = [PostgresUsedNonces(rows) for rows in machines]
    assert len({one.key for one in spent}) == 1
    assert (
        together(6, lambda number: spent[number % 3].claim("w1", spent[0].now() + 60, spent[0].now())).count(True) == 1
    )
    words = ConfirmationTokens(url)
    word = words.issue(b"subject")
    assert [ConfirmationTokens(url).redeem(word, b"subject"), words.redeem(word, b"subject")] == [True, False]
    other = words.issue(b"subject")
    assert not words.redeem(other, b"another subject")


@pytest.mark.requirement("ST-01", "XL-056")
@pytest.mark.parametrize(("ahead_s", "is_valid"), [(0.5, True), (2.0, False), (-299.0, True), (-301.0, False)])
def test_word_is_valid_on_a_machine_whose_clock_is_a_little_behind(url: str, ahead_s: float, is_valid: bool) -> None:
    word = ConfirmationTokens(url, clock=lambda: 10_000.0 + ahead_s).issue(b"subject")
    other = ConfirmationTokens(url, clock=lambda: 10_000.0)
    assert [other.redeem(word, b"subject") for _ in range(2)] == [is_valid, False]


@pytest.mark.requirement("ST-01", "R14")
def test_the_clock_of_a_machine_does_not_count(machines: list[PostgresRows], url: str) -> None:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT extract(epoch FROM clock_timestamp())::double precision").fetchone()
        assert found is not None
        assert all(abs(rows.clock() - found[0]) < 5 for rows in machines)
        connection.execute("INSERT INTO toolwire_clock VALUES (1, %s)", (found[0] + 86_400,))
        connection.commit()
    grants = StoredGrants(machines[0], clock=machines[0].clock)
    grants.add(KEY)
    assert grants.has_grant(KEY), "a clock that was set back costs the grants of before, and no later one"


@pytest.mark.requirement("ST-05", "R11")
def test_a_database_that_is_killed_refuses_and_then_goes_on(postgres: Postgres) -> None:
    wait_until_answering(postgres)
    with closing(PostgresRows(postgres.create_database(), CONSENT)) as rows:
        grants, audit = StoredGrants(rows, clock=rows.clock), PostgresAudit(rows)
        grants.add(KEY)
        audit.append(RECORD)
        postgres.kill()
        assert not grants.has_grant(KEY), "so the user is asked"
        assert not grants.spend(KEY, {})
        with pytest.raises(ConnectionError, match=r"^the database .* cannot be used"):
            audit.append(RECORD)
        postgres.start()
        wait_until_answering(postgres)
        assert grants.has_grant(KEY)
        audit.append(RECORD)
        assert [entry.number for entry in audit.entries()] == [1, 2]


@pytest.mark.requirement("ST-05", "R11")
def test_a_database_that_hangs_is_waited_for_once_and_then_left_alone(postgres: Postgres) -> None:
    wait_until_answering(postgres)
    with closing(PostgresRows(postgres.create_database(), CONSENT)) as rows:
        assert rows.select_rows("SELECT 1") == [(1,)]
        with postgres.stopped():
            began = time.monotonic()
            for _ in range(200):
                with pytest.raises(ConnectionError):
                    rows.select_rows("SELECT 1")
            # One deadline for the statement and at most one for a new connection, not two hundred.
            assert time.monotonic() - began < 20


@pytest.mark.requirement("ST-01", "CC-03")
def test_sessions_of_two_machines_share_grants_levels_and_the_log(url: str) -> None:
    kit, ran = Toolkit("Shop"), []

    @kit.tool(approval="per-call", blanket_allowed=True)
    def order(what: str) -> str:
        """Order something."""
        ran.append(what)
        return "ordered"

    asked: list[str] = []

    def allow(question: Question) -> Answer:
        asked.append(question.call.tool.name)
        return Answer(allowed=True, always=True, bounds=GrantBounds(uses=1))

    def build_session() -> Session:
        return Session(grants=open_grants(url), audit=open_decisions(url), preference_store=open_levels(url))

    with background(asgi(kit)) as site:
        for _ in range(3):
            with connect_sync(site, session=build_session(), approve=allow, name="shop") as remote:
                assert isinstance(remote.call("order", {"what": "tea"}), Value)
        assert len(asked) == 2, "the second call spent the grant, and the third asked again"
        open_levels(url).set(site, "order", Approval.DENY)
        with connect_sync(site, session=build_session(), approve=allow, name="shop") as remote:
            refused = remote.call("order", {"what": "tea"})
            assert isinstance(refused, Problem)
            assert refused.kind is Kind.DENIED
    assert [entry.record.decision for entry in open_decisions(url).entries()] == ["allowed"] * 3
    assert len(ran) == 3


@pytest.mark.requirement("ST-05", "XL-055")
def test_a_decision_that_cannot_be_recorded_is_not_carried_out(postgres: Postgres) -> None:
    wait_until_answering(postgres)
    url = postgres.create_database()
    kit, ran = Toolkit("Shop"), []

    @kit.tool(approval="per-call")
    def order(what: str) -> str:
        """Order something."""
        ran.append(what)
        return "ordered"

    session = Session(grants=open_grants(url), audit=open_decisions(url), preference_store=open_levels(url))
    with background(asgi(kit)) as site, connect_sync(site, session=session, approve=lambda _: True) as remote:
        postgres.kill()
        refused = remote.call("order", {"what": "tea"})
        assert isinstance(refused, Problem)
        assert (refused.kind, refused.can_retry) == (Kind.OVERLOADED, True)
        assert refused.message.startswith("order was not called, because decisions cannot be stored now (the database ")
        assert ran == []
        postgres.start()
        wait_until_answering(postgres)
        assert remote.call("order", {"what": "tea"}) == Value("ordered")


@pytest.mark.requirement("ST-01", "D-26")
def test_no_text_about_shared_consent_shows_the_password() -> None:
    url = "postgresql://ada:canary-hunter2@127.0.0.1:1/shop"
    for opening in (open_grants, open_decisions, open_levels, open_approvals, ConfirmationTokens):
        with pytest.raises(DefinitionError, match=r"^The database 127.0.0.1:1/shop cannot be used: ") as raised:
            opening(url)
        assert "canary" not in str(raised.value)
