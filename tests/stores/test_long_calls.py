"""What a store of long calls keeps, for whom, for how long and how much: in memory, in SQLite, in PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from tests.postgres import LedgerDatabase, shared_postgres  # noqa: F401 - the fixture
from tests.support.waiting import wait_until
from toolwire.core.call_status import CallPage, CallStatus, LongCallState
from toolwire.core.ledger import CallEnding, CallKey, CallState, Claim, Ticket
from toolwire.core.long_call import (
    UNAVAILABLE,
    CallChange,
    Lease,
    LongCallLimits,
    LongCallStore,
    NewCall,
)
from toolwire.core.model import Kind, Problem, Value
from toolwire.stores.ledger.call_overview import CallOverview
from toolwire.stores.ledger.postgres_long_calls import PostgresLongCalls
from toolwire.stores.ledger.sqlite import SqliteLedger
from toolwire.stores.ledger.sqlite_long_calls import SqliteLongCalls

T = TypeVar("T")
Open = Callable[..., Any]
DAY_S = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0
        self.pass_time: Callable[[float], None] = lambda _: None

    def go_on(self, seconds: float) -> None:
        self.now += seconds
        self.pass_time(seconds)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Open]:
    """Return how a process opens the store. Called again, it is another process; in memory, there is one."""
    opened: list[Any] = []
    if request.param == "postgres":
        database = LedgerDatabase(request.getfixturevalue("shared_postgres"))
        clock.pass_time = database.pass_time

    def opening(**limits: Any) -> Any:
        bounds = LongCallLimits(**limits)
        match request.param:
            case "postgres":
                opened.append(PostgresLongCalls(database.url, bounds))
            case "sqlite":
                opened.append(
                    SqliteLongCalls(tmp_path / "calls.sqlite", bounds, clock=clock, boot="one", wall=lambda: 5e8)
                )
            case _:
                opened[1:] = []
                opened or opened.append(SqliteLongCalls(None, bounds, clock=clock, boot="one", wall=lambda: 5e8))
        return opened[-1]

    opening.database = database if request.param == "postgres" else None  # type: ignore[attr-defined]
    yield opening
    for store in opened:
        do(store.end())
    if request.param == "postgres":
        database.close()


def do(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def new(id_: str = "one", **facts: Any) -> NewCall:
    given = {"principal": "ada", "key": "", "tool": "T.t", "fingerprint": b"f", "request": b"{}", "can_rerun": False}
    return NewCall(id=id_, **{"keep_s": DAY_S, **given, **facts})


def accept(store: LongCallStore, id_: str = "one", **facts: Any) -> CallStatus:
    status = do(store.accept(new(id_, **facts)))
    assert isinstance(status, CallStatus)
    return status


def claim(store: LongCallStore, id_: str = "one") -> Lease:
    lease = do(store.claim(id_))
    assert isinstance(lease, Lease)
    return lease


def read(store: LongCallStore, id_: str = "one", principal: str = "ada") -> CallStatus:
    status = do(store.read(principal, id_))
    assert isinstance(status, CallStatus)
    return status


def end(store: LongCallStore, id_: str = "one", value: object = 1, *, pinned: bool = True) -> CallStatus:
    status = do(store.change(claim(store, id_), CallChange(result=Value(value), pinned=pinned)))
    assert isinstance(status, CallStatus)
    return status


@pytest.mark.requirement("LC-03")
def test_each_change_can_be_read_by_the_caller_alone(make: Open) -> None:
    store = make()
    assert accept(store).state is LongCallState.ACCEPTED
    lease = claim(store)
    assert (lease.id, lease.attempt, lease.request) == ("one", 1, b"{}")
    assert read(store).state is LongCallState.RUNNING
    do(store.change(lease, CallChange(progress=0.25, message="rows")))
    do(store.change(lease, CallChange(progress=0.5)))
    half = read(store)
    assert (half.progress, half.message, half.result, half.expires_at) == (0.5, "rows", None, None)
    ended = do(store.change(lease, CallChange(message="done", result=Value({"rows": 7}, {"kept": True}))))
    over = read(store)
    assert (over.progress, over.message) == (0.5, "done")
    assert over == ended
    assert (over.state, over.result) == (LongCallState.ENDED, Value({"rows": 7}))
    assert over.result is not None
    assert over.result.ok is True
    assert over.result.notes == {"kept": True}
    assert over.revision > half.revision
    assert over.expires_at is not None
    assert over.expires_at - over.updated_at == pytest.approx(DAY_S, abs=1)
    assert do(store.read("bob", "one")) is None
    assert do(store.cancel("bob", "one")) is None
    assert do(store.answer("bob", "one", {"q": 1})) is None
    assert do(store.read("ada", "other")) is None


@pytest.mark.requirement("LC-01", "LC-04")
def test_a_call_with_a_known_key_is_the_same_call(make: Open) -> None:
    store = make()
    accept(store, "one", key="k")
    again = accept(store, "two", key="k")
    assert (again.id, again.state) == ("one", LongCallState.ACCEPTED)
    other = do(store.accept(new("three", key="k", fingerprint=b"other")))
    assert isinstance(other, Problem)
    assert other.kind is Kind.CONFLICT
    end(store, "one")
    assert accept(store, "two", key="k").result == Value(1)
    assert do(store.claim("one")) is None


def test_a_call_whose_end_is_not_final_runs_again_under_its_key(make: Open) -> None:
    store = make()
    accept(store, "one", key="k")
    problem = Problem(kind=Kind.TOOL_FAILED, message="Later.", can_retry=True)
    do(store.change(claim(store), CallChange(result=problem, pinned=False)))
    assert read(store).result == problem
    again = accept(store, "two", key="k")
    assert (again.id, again.state, again.result) == ("one", LongCallState.ACCEPTED, None)
    assert claim(store).attempt == 2


@pytest.mark.requirement("LC-04")
def test_one_of_two_claims_gets_the_call(make: Open) -> None:
    store = make()
    accept(store)

    async def claim_twice() -> list[Any]:
        return list(await asyncio.gather(store.claim("one"), store.claim("one")))

    assert [type(one) for one in do(claim_twice())].count(Lease) == 1


@pytest.mark.requirement("LC-04")
def test_cancelling_ends_what_does_not_run_and_tells_what_runs(make: Open) -> None:
    store = make()
    accept(store, "waits")
    assert do(store.cancel("ada", "waits")).state is LongCallState.CANCELLED
    assert do(store.claim("waits")) is None
    accept(store, "runs")
    lease = claim(store, "runs")
    asked = do(store.cancel("ada", "runs"))
    assert (asked.state, asked.cancel_asked) == (LongCallState.RUNNING, True)
    assert do(store.renew()) == {"runs": True}
    ended = do(store.change(lease, CallChange(result=Problem(kind=Kind.CANCELLED, message="Stopped."))))
    assert ended.state is LongCallState.CANCELLED
    assert do(store.cancel("ada", "runs")).state is LongCallState.CANCELLED
    assert do(store.renew()) == {}


@pytest.mark.requirement("LC-04", "D-38")
def test_all_calls_of_callers_who_lost_their_access_are_cancelled(make: Open) -> None:
    store = make()
    for call_id in ("runs", "waits"):
        accept(store, call_id)
        lease = claim(store, call_id)
    do(store.change(lease, CallChange(input={"name": {"message": "Who?"}})))
    accept(store, "accepted")
    accept(store, "other", principal="bob")
    assert do(store.cancel_removed(lambda name: name == "ada")) == 3
    assert do(store.cancel_removed(lambda name: name == "ada")) == 0
    assert do(store.renew()) == {"runs": True}
    for call_id in ("waits", "accepted"):
        assert do(store.read("ada", call_id)).state is LongCallState.CANCELLED
    assert do(store.read("bob", "other")).state is LongCallState.ACCEPTED


@pytest.mark.requirement("LC-03")
def test_a_call_waits_for_its_user_and_goes_on_with_every_answer(make: Open) -> None:
    store = make()
    accept(store)
    lease = claim(store)
    asked = do(store.change(lease, CallChange(input={"a": {"message": "A?"}, "b": {"message": "B?"}})))
    assert asked.state is LongCallState.WAITING
    assert set(read(store).input) == {"a", "b"}
    assert do(store.claim("one")) is None
    assert do(store.change(lease, CallChange(result=Value(1)))) is None, "the run that asked is over"
    part = do(store.answer("ada", "one", {"a": {"action": "accept"}, "unknown": 1}))
    assert (part.state, set(part.input)) == (LongCallState.WAITING, {"b"})
    whole = do(store.answer("ada", "one", {"b": {"action": "decline"}, "a": "again"}))
    assert (whole.state, whole.input) == (LongCallState.ACCEPTED, {})
    assert claim(store).answers == {"a": {"action": "accept"}, "b": {"action": "decline"}}
    assert end_of(store) is LongCallState.RUNNING


def end_of(store: LongCallStore) -> LongCallState:
    return read(store).state


def test_answers_of_a_user_are_bounded(make: Open) -> None:
    store = make()
    accept(store)
    do(store.change(claim(store), CallChange(input={"a": {}})))
    refused = do(store.answer("ada", "one", {"a": "x" * 70_000}))
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.TOO_LARGE
    assert read(store).state is LongCallState.WAITING


@pytest.mark.requirement("LC-03")
def test_a_call_is_kept_for_its_time_after_its_end(make: Open, clock: Clock) -> None:
    store = make()
    accept(store, "short", keep_s=60.0, key="k")
    clock.go_on(10 * DAY_S)
    assert read(store, "short").state is LongCallState.ACCEPTED, "a call that is not over is not forgotten"
    end(store, "short")
    clock.go_on(59)
    assert read(store, "short").result == Value(1)
    clock.go_on(2)
    assert do(store.read("ada", "short")) is None
    assert do(store.list_calls("ada", 10)) == CallPage(())
    assert accept(store, "again", key="k").id == "again"


@pytest.mark.requirement("LC-03")
def test_one_caller_has_at_most_a_hundred_calls_that_are_not_over_where_nothing_is_set(make: Open) -> None:
    store = make()
    for number in range(100):
        accept(store, f"c{number}")
    refused = do(store.accept(new("c100")))
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.RATE_LIMITED
    accept(store, "bobs", principal="bob")


@pytest.mark.requirement("LC-03")
def test_one_caller_has_a_bound_of_calls_and_loses_only_own_ended_ones(make: Open) -> None:
    store = make(each=3, open_each=2)
    accept(store, "bobs", principal="bob")
    for number in range(5):
        accept(store, f"c{number}")
        end(store, f"c{number}")
    assert [call.id for call in do(store.list_calls("ada", 10)).calls] == ["c4", "c3", "c2"]
    accept(store, "open1")
    accept(store, "open2")
    refused = do(store.accept(new("open3")))
    assert isinstance(refused, Problem)
    assert (refused.kind, refused.can_retry) == (Kind.RATE_LIMITED, True)
    assert read(store, "bobs", "bob").state is LongCallState.ACCEPTED
    do(store.cancel("ada", "open1"))
    assert accept(store, "open3").state is LongCallState.ACCEPTED


@pytest.mark.requirement("LC-03")
def test_one_caller_has_a_bound_of_bytes(make: Open) -> None:
    store = make(each_bytes=20_000)
    for number in range(10):
        accept(store, f"c{number}", request=b"r" * 2_000)
        end(store, f"c{number}", "v" * 3_000)
    stored = do(store.list_calls("ada", 50)).calls
    assert 0 < len(stored) < 10
    assert stored[0].id == "c9"
    refused = do(store.accept(new("big", request=b"r" * 30_000)))
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.RATE_LIMITED


@pytest.mark.requirement("LC-03")
def test_a_result_that_is_too_large_says_so_and_the_store_has_a_bound_in_all(make: Open) -> None:
    store = make(answer_bytes=100, rows=1)
    accept(store)
    ended = end(store, value="x" * 1_000)
    assert isinstance(ended.result, Problem)
    assert "too large to keep" in ended.result.message
    refused = do(store.accept(new("two", principal="bob")))
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.OVERLOADED


def test_a_list_has_pages_newest_first(make: Open) -> None:
    store = make()
    for number in range(5):
        accept(store, f"c{number}")
    first = do(store.list_calls("ada", 2))
    second = do(store.list_calls("ada", 2, first.next))
    third = do(store.list_calls("ada", 2, second.next))
    assert [call.id for page in (first, second, third) for call in page.calls] == ["c4", "c3", "c2", "c1", "c0"]
    assert third.next == ""
    assert do(store.list_calls("bob", 2)) == CallPage(())
    assert len(do(store.list_calls("ada", 2, "no number")).calls) == 2


@pytest.mark.requirement("LC-04")
@pytest.mark.parametrize("can_rerun", [False, True])
def test_a_process_that_died_leaves_its_calls_to_others(make: Open, can_rerun: bool) -> None:
    first = make()
    accept(first, "runs", can_rerun=can_rerun)
    accept(first, "accepted")
    accept(first, "bound", request=b"")
    lease = claim(first, "runs")
    second = make()
    if second is not first:
        assert do(second.find_ready(10)) == []
        assert do(second.claim("runs")) is None
        assert do(second.claim("accepted")) is None
    do(first.end())  # its lease, or the lock of its file
    assert set(do(second.find_ready(10))) == {"runs", "accepted", "bound"}
    assert claim(second, "accepted").attempt == 1
    again = do(second.claim("runs"))
    assert isinstance(again, Lease) is can_rerun
    assert read(second, "runs").state is (LongCallState.RUNNING if can_rerun else LongCallState.INTERRUPTED)
    if not can_rerun:
        result = read(second, "runs").result
        assert isinstance(result, Problem)
        assert result.kind is Kind.INTERRUPTED
    assert do(second.claim("bound")) is None
    assert read(second, "bound").state is LongCallState.INTERRUPTED
    do(first.begin())
    assert do(first.change(lease, CallChange(result=Value("late")))) is None, "who lost its lease cannot settle"
    assert read(second, "runs").result != Value("late")


@pytest.mark.requirement("LC-04")
def test_a_call_that_was_to_be_cancelled_does_not_run_again_after_its_process_died(make: Open) -> None:
    first = make()
    accept(first, can_rerun=True)
    claim(first)
    assert read(first).state is LongCallState.RUNNING
    do(first.cancel("ada", "one"))
    second = make()
    do(first.end())
    assert do(second.find_ready(10)) == ["one"]
    assert do(second.claim("one")) is None
    assert read(second).state is LongCallState.CANCELLED
    do(first.begin())


def test_an_offered_call_may_be_claimed_by_any_process(make: Open) -> None:
    first, second = make(), make()
    accept(first, is_queued=True)
    assert do(second.find_ready(10)) == ["one"]
    assert claim(second).attempt == 1
    assert do(first.claim("one")) is None


def test_texts_that_a_database_cannot_store_do_no_harm(make: Open) -> None:
    store = make()
    accept(store)
    lease = claim(store)
    do(store.change(lease, CallChange(message="a\0b\ud800")))
    assert read(store).message in {"a\ufffdb?", "a\0b?"}
    accept(store, "two")
    assert read(store, "two").state is LongCallState.ACCEPTED


@pytest.mark.requirement("RE-03")
@pytest.mark.parametrize("name", [None, "calls.sqlite"])
def test_calls_close_their_database_with_the_object_that_has_it(tmp_path: Path, name: str | None) -> None:
    store = SqliteLongCalls(name and tmp_path / name)
    accept(store)
    if name is None:
        do(store.end())  # keeps what is in memory
    connection = store._connection
    stored = weakref.ref(store)
    del store
    wait_until(lambda: gc.collect() >= 0 and stored() is None, within=30)  # its thread ends when it has been idle
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


@pytest.mark.requirement("RE-03")
def test_ledger_closes_its_database_with_the_object_that_has_it(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "calls.sqlite")
    connection = ledger._connection
    stored = weakref.ref(ledger)
    del ledger
    wait_until(lambda: gc.collect() >= 0 and stored() is None, within=30)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_ledger_and_its_long_calls_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    ledger = SqliteLedger(path)
    store = SqliteLongCalls(path)
    ticket = do(ledger.claim(Claim(CallKey("ada", "T.t", "1"), b"f", can_rerun=False)))
    assert isinstance(ticket, Ticket)
    accept(store)
    do(ledger.finish(ticket, CallEnding(CallState.DONE, Value(1), pinned=True)))
    end(store)
    do(store.end())
    do(ledger.end())
    again = SqliteLongCalls(path)
    assert read(again).result == Value(1)
    do(again.end())


@pytest.mark.requirement("ST-05")
def test_a_database_that_is_gone_refuses_and_comes_back(shared_postgres: Any) -> None:  # noqa: F811 - the fixture
    database = LedgerDatabase(shared_postgres)
    store = PostgresLongCalls(database.url)
    accept(store)
    with psycopg.connect(database.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'toolwire'"
        )
    assert do(store.read("ada", "one")) is UNAVAILABLE
    assert do(store.read("ada", "one")) is UNAVAILABLE
    found = return_to(store)
    assert isinstance(found, CallStatus)
    do(store.end())
    database.close()


@pytest.mark.requirement("ST-05")
def test_a_database_that_hangs_is_asked_by_no_caller_until_it_answers_again(shared_postgres: Any) -> None:  # noqa: F811 - the fixture
    database = LedgerDatabase(shared_postgres)
    store = PostgresLongCalls(database.url)
    accept(store)
    lease = claim(store)
    with shared_postgres.stopped():
        assert do(store.read("ada", "one")) is UNAVAILABLE
        refused = [do(store.read("ada", "one")), do(store.accept(new("two"))), do(store.cancel("ada", "one"))]
        assert refused == [UNAVAILABLE] * 3
        assert do(store.change(lease, CallChange(result=Value(1)))) is UNAVAILABLE
    assert isinstance(return_to(store), CallStatus)
    ended = do(store.change(lease, CallChange(result=Value(1))))
    assert isinstance(ended, CallStatus), "the lease goes on with the process"
    assert ended.state is LongCallState.ENDED
    do(store.end())
    database.close()


def return_to(store: PostgresLongCalls) -> CallStatus | Problem | None:
    """Return what the store says once its lease is renewed, which tries the database once a second."""
    wait_until(lambda: not isinstance(do(store.renew()), Problem))
    return do(store.read("ada", "one"))


@pytest.mark.requirement("CO-02", "LC-03")
@pytest.mark.parametrize("is_of_all", [False, True])
def test_operator_ends_a_call_that_waits_for_its_user(make: Open, tmp_path: Path, *, is_of_all: bool) -> None:
    store = make()
    where = make.database.url if make.database else tmp_path / "calls.sqlite"  # type: ignore[attr-defined]
    if not make.database and not where.exists():  # type: ignore[attr-defined]
        return  # no other process sees this memory
    accept(store)
    do(store.change(claim(store), CallChange(input={"seat": {"message": "Which?"}})))
    assert read(store).state is LongCallState.WAITING
    overview = CallOverview(where)
    assert not overview.ask_cancel("two")
    assert (overview.ask_cancel_all("ada") == 1) if is_of_all else overview.ask_cancel("one")
    assert (read(store).cancel_asked, read(store).input) == (True, {})
    # an answer that comes now changes nothing, and the process that looks for work ends the call without its tool
    do(store.answer("ada", "one", {"seat": {"action": "accept"}}))
    assert do(store.find_ready(10)) == ["one"]
    assert not isinstance(do(store.claim("one")), Lease)
    assert read(store).state is LongCallState.CANCELLED
    assert not overview.ask_cancel("one")


@pytest.mark.requirement("GW-04", "LC-04")
def test_lost_call_whose_question_has_no_answer_did_not_start(make: Open) -> None:
    store, asked = make(), frozenset({"consent-1"})
    accept(store)
    do(store.change(claim(store), CallChange(input={"consent-1": {}})))
    do(store.answer("ada", "one", {"consent-1": {"action": "accept"}}))
    lease = claim(store)
    do(store.end())
    store = make()
    lost = do(store.claim("one", asked | {"consent-2"}))
    assert isinstance(lost, Lease)
    assert (lost.attempt, lost.answers) == (lease.attempt + 1, {"consent-1": {"action": "accept"}})
    assert do(store.claim("one", asked | {"consent-2"})) is None, "it runs"
    do(store.end())
    assert do(make().claim("one", asked)) is None
    assert read(make()).state is LongCallState.INTERRUPTED
