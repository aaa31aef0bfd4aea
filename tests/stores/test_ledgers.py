"""What a ledger keeps, for how long and how much, and what it does where it cannot."""

import asyncio
import logging
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import LedgerDatabase, shared_postgres  # noqa: F401 - the fixture
from tests.support.wire import HERE, AppTransport
from toolwire import Context, Kind, Problem, Requirements, ServerLimits, Toolkit, Value, asgi
from toolwire.core.errors import DefinitionError
from toolwire.core.http import Request
from toolwire.core.ledger import (
    CallEnding,
    CallKey,
    CallState,
    Claim,
    ClaimOutcome,
    InFlight,
    Ledger,
    LedgerLimits,
    StoredResult,
    Ticket,
)
from toolwire.core.model import Result
from toolwire.stores.clock import ClockMark, read_boot_id, resume_age
from toolwire.stores.group_commit import GroupCommit
from toolwire.stores.ledger.memory import MemoryLedger
from toolwire.stores.ledger.postgres import PostgresLedger
from toolwire.stores.ledger.sqlite import SqliteLedger

DAY_S = 86_400.0
ONE = Value(1)


class Clock:
    """The clock of a ledger. ``pass_time`` is how a database's is moved."""

    def __init__(self) -> None:
        self._now = 50_000.0
        self.pass_time: Callable[[float], None] = lambda _: None

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self.pass_time(now - self._now)
        self._now = now

    def __call__(self) -> float:
        return self.now


_OPEN: list[sqlite3.Connection] = []


def open_sqlite(path: Path, *arguments: Any, **options: Any) -> SqliteLedger:
    """Return a ledger whose file is closed after the test, also where the test leaves it like a dead process."""
    ledger = SqliteLedger(path, *arguments, **options)
    _OPEN.append(ledger._connection)
    return ledger


@pytest.fixture(autouse=True)
def close_files() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


Open = Callable[..., Ledger]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Open]:
    shared: list[PostgresLedger] = []
    if request.param == "postgres":
        database = LedgerDatabase(request.getfixturevalue("shared_postgres"))
        clock.pass_time = database.pass_time

    def opening(**limits: Any) -> Ledger:
        if request.param == "postgres":
            shared.append(PostgresLedger(database.url, LedgerLimits(**limits)))
            return shared[-1]
        if request.param == "memory":
            return MemoryLedger(LedgerLimits(**limits), clock=clock)
        return open_sqlite(tmp_path / "calls.sqlite", LedgerLimits(**limits), clock=clock, boot="one")

    yield opening
    for ledger in shared:
        do(ledger.end())
    if request.param == "postgres":
        database.close()


def do(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def claim(name: str = "a", fingerprint: bytes = b"f", *, rerun: bool = False) -> Claim:
    return Claim(CallKey("ada", "Kit.pay", name), fingerprint, rerun)


def run(ledger: Ledger, name: str = "a", result: Result = ONE) -> ClaimOutcome:
    """Claim a call and end it with ``result``; return what the claim came to."""
    standing: ClaimOutcome = do(ledger.claim(claim(name)))
    if isinstance(standing, Ticket):
        do(ledger.finish(standing, CallEnding(CallState.DONE, result, pinned=True)))
    return standing


@pytest.mark.requirement("A-42", "OB-2")
def test_recorded_call_expires_after_one_day(make: Open, clock: Clock) -> None:
    ledger = make()
    assert isinstance(run(ledger), Ticket)
    clock.now += DAY_S - 1
    assert run(ledger) == StoredResult(Value(1))
    clock.now += 2
    assert isinstance(run(ledger), Ticket)


@pytest.mark.parametrize(
    "result",
    [
        Value({"deep": [1, None, "ü", 10**30]}),
        Value(None, {"truncated": True}),
        Problem(
            kind=Kind.TOOL_FAILED,
            message="No.",
            retry_after_ms=5,
            additional_prompt_content="Ask.",
            parameter_errors={"a": "bad"},
            details={"x": [1]},
        ),
    ],
)
def test_stored_result_is_returned_unchanged_and_marked_as_replayed(make: Open, result: Result) -> None:
    ledger = make()
    run(ledger, result=result)
    again = run(ledger)
    assert isinstance(again, StoredResult)
    if isinstance(result, Value):
        assert again.result == result
        assert isinstance(again.result, Value)
        assert again.result.notes == {**(result.notes or {}), "replayed": True}
    else:
        assert isinstance(again.result, Problem)
        assert again.result.details == {"x": [1], "replayed": True}
        assert (again.result.kind, again.result.retry_after_ms) == (Kind.TOOL_FAILED, 5)


@pytest.mark.parametrize(("value", "why"), [("x" * 2_000, "too large to keep"), (object(), "cannot be written")])
def test_call_with_an_unstorable_result_does_not_run_again(make: Open, value: Any, why: str) -> None:
    ledger = make(answer_bytes=1_000)
    run(ledger, result=Value(value))
    again = run(ledger)
    assert isinstance(again, StoredResult)
    assert isinstance(again.result, Problem)
    assert why in again.result.message


@pytest.mark.requirement("A-42")
@pytest.mark.parametrize("length", [64, 65, 10_000])
def test_different_call_under_a_used_key_is_refused_at_any_size(make: Open, length: int) -> None:
    ledger = make()
    ticket = do(ledger.claim(claim(fingerprint=b"a" * length)))
    do(ledger.finish(ticket, CallEnding(CallState.DONE, ONE, pinned=True)))
    assert isinstance(do(ledger.claim(claim(fingerprint=b"a" * length))), StoredResult)
    other = do(ledger.claim(claim(fingerprint=b"a" * (length - 1) + b"b")))
    assert isinstance(other, Problem)
    assert other.kind is Kind.CONFLICT


@pytest.mark.requirement("A-42")
@pytest.mark.parametrize("limited", ["rows", "bytes"])
def test_full_ledger_drops_the_oldest_ended_calls_but_no_running_call(
    make: Open, limited: str, request: pytest.FixtureRequest
) -> None:
    room_for_three = {"memory": 2_800, "sqlite": 1_900, "postgres": 1_900}[request.node.callspec.params["make"]]
    ledger = make(**{limited: 4 if limited == "rows" else room_for_three})
    for name in "abcd":
        run(ledger, name)
    assert isinstance(do(ledger.claim(claim("d"))), StoredResult)
    tickets = [do(ledger.claim(claim(name))) for name in "axy"]
    full = do(ledger.claim(claim("z")))
    assert all(isinstance(ticket, Ticket) for ticket in tickets)
    assert isinstance(full, Problem)
    assert (full.kind, full.can_retry) == (Kind.OVERLOADED, True)
    do(ledger.finish(tickets[0], None))
    assert isinstance(do(ledger.claim(claim("z"))), Ticket)


@pytest.mark.requirement("R8", "A-42")
def test_claim_that_waited_gets_the_failure_and_a_later_claim_runs_again(make: Open) -> None:
    ledger = make()
    first = do(ledger.claim(claim()))
    failure = Problem(kind=Kind.TOOL_FAILED, message="Later.", can_retry=True)
    do(ledger.finish(first, CallEnding(CallState.FAILED, failure, pinned=False)))
    waited = do(ledger.claim(claim()._replace(awaited_attempt=1)))
    assert isinstance(waited, StoredResult)
    assert isinstance(do(ledger.claim(claim())), Ticket)


def claim_of(principal: str, name: str) -> Claim:
    return Claim(CallKey(principal, "Kit.pay", name), b"f", can_rerun=False)


def pay(ledger: Ledger, principal: str, name: str, answer: str = "paid") -> ClaimOutcome:
    standing: ClaimOutcome = do(ledger.claim(claim_of(principal, name)))
    if isinstance(standing, Ticket):
        do(ledger.finish(standing, CallEnding(CallState.DONE, Value(answer), pinned=True)))
    return standing


@pytest.mark.requirement("A-42", "D-34", "AT-05")
@pytest.mark.parametrize("limits", [{"rows": 100}, {"bytes": 100_000}])
def test_one_caller_cannot_evict_calls_of_another_caller(make: Open, limits: dict[str, int]) -> None:
    ledger = make(**limits)
    first = [f"first-{number}" for number in range(10)]
    for name in first:
        assert isinstance(pay(ledger, "ada", name), Ticket)
    for number in range(300):
        assert isinstance(pay(ledger, "mallory", f"flood-{number}", "x" * 900), Ticket)
    assert [isinstance(pay(ledger, "ada", name), StoredResult) for name in first] == [True] * 10
    assert isinstance(pay(ledger, "bob", "new"), Ticket), "there is room for others"
    assert isinstance(pay(ledger, "mallory", "flood-299", "x" * 900), StoredResult)
    assert isinstance(pay(ledger, "mallory", "flood-0", "x" * 900), Ticket), "their own oldest made the room"


@pytest.mark.requirement("A-42", "D-34")
def test_late_callers_get_room_beside_earlier_callers(make: Open) -> None:
    ledger = make(rows=200)
    for caller in range(6):
        for number in range(100):
            assert isinstance(pay(ledger, f"caller-{caller}", str(number)), Ticket)
    for caller in range(6):
        assert isinstance(pay(ledger, f"caller-{caller}", "99"), StoredResult)


@pytest.mark.requirement("A-42", "P-02")
def test_a_lowered_limit_is_reached_by_a_few_rows_a_call(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "calls.sqlite"
    before = open_sqlite(path, clock=clock, boot="one")
    for number in range(400):
        run(before, str(number))
    do(before.end())
    ledger = open_sqlite(path, LedgerLimits(rows=40), clock=clock, boot="one")
    held = [400]
    for number in range(12):
        assert isinstance(run(ledger, f"new-{number}"), Ticket)
        held.append(ledger._connection.execute("SELECT count(*) FROM calls").fetchone()[0])
    removed = [1 + before - after for before, after in pairwise(held)]
    assert max(removed) <= 130, "64 when it is claimed, 64 when it ends, and a sweep"
    assert held[-1] <= 40
    do(ledger.end())


@pytest.mark.requirement("A-42", "P-02")
def test_expired_calls_are_deleted_a_few_for_each_call(clock: Clock) -> None:
    ledger = MemoryLedger(clock=clock)
    for number in range(1_000):
        pay(ledger, f"caller-{number % 3}", str(number))
    clock.now += 2 * DAY_S
    held = [len(ledger)]
    for number in range(40):
        pay(ledger, "late", str(number))
        held.append(len(ledger))
    assert max(1 + before - after for before, after in pairwise(held)) <= 64
    assert held[-1] == 40
    assert isinstance(pay(ledger, "caller-1", "1"), Ticket)


class Tasks:
    """A ledger in SQLite whose file another process has."""

    def __init__(self, path: Path) -> None:
        self.other = sqlite3.connect(path, isolation_level=None)
        _OPEN.append(self.other)

    def lock(self) -> None:
        self.other.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        self.other.execute("ROLLBACK")


@pytest.mark.requirement("R13", "AT-10")
def test_locked_ledger_file_delays_only_calls_that_write_to_it(tmp_path: Path) -> None:
    ledger = open_sqlite(tmp_path / "calls.sqlite")
    others = Tasks(tmp_path / "calls.sqlite")

    async def check() -> None:
        running = await ledger.claim(claim("running"))
        assert isinstance(running, Ticket)
        others.lock()
        waiting = [asyncio.create_task(ledger.claim(claim(f"locked-{number}"))) for number in range(20)]
        ticks = 0
        while not all(task.done() for task in waiting):
            ticks += 1
            await asyncio.sleep(0.001)
        assert ticks > 20, "the event loop went on"
        refused = [task.result() for task in waiting]
        assert {(one.kind, one.can_retry) for one in refused} == {(Kind.OVERLOADED, True)}
        await ledger.finish(running, CallEnding(CallState.DONE, ONE, pinned=True))
        others.unlock()
        assert await ledger.claim(claim("running")) == StoredResult(ONE), "its ending was kept meanwhile"
        assert isinstance(await ledger.claim(claim("locked-1")), Ticket)

    do(check())
    do(ledger.end())


@pytest.mark.requirement("R8", "A-42")
def test_cancelled_claim_leaves_no_running_call_in_the_ledger(tmp_path: Path) -> None:
    ledger = open_sqlite(tmp_path / "calls.sqlite")
    others = Tasks(tmp_path / "calls.sqlite")

    async def check() -> None:
        for number in range(30):
            leaving = asyncio.create_task(ledger.claim(claim("a")))
            if number % 3:
                others.lock()
            for _ in range(number % 5):
                await asyncio.sleep(0)
            leaving.cancel()
            if number % 3:
                others.unlock()
            await asyncio.gather(leaving, return_exceptions=True)
        standing = await ledger.claim(claim("a"))
        while isinstance(standing, InFlight):  # what was given back is on its way
            standing = await ledger.claim(claim("a"))
        assert isinstance(standing, Ticket)

    do(asyncio.wait_for(check(), 30))
    do(ledger.end())


def test_failed_change_does_not_affect_others_in_its_transaction(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "any.sqlite", isolation_level=None, check_same_thread=False)
    database.execute("CREATE TABLE rows (number INTEGER)")
    commits = GroupCommit(
        begin=lambda: database.execute("BEGIN IMMEDIATE") and None,
        commit=lambda: database.execute("COMMIT") and None,
        roll_back=lambda _: database.execute("ROLLBACK") and None,
        busy_s=1.0,
    )

    def add(number: int) -> int:
        database.execute("INSERT INTO rows VALUES (?)", (number,))
        if number == 7:
            raise LookupError("seven")
        if number == 8:
            database.execute("INSERT INTO nowhere VALUES (1)")
        return number

    async def check() -> None:
        outcomes = await asyncio.gather(
            *(commits.run_change(partial(add, number), on_refusal=lambda: -1) for number in range(20)),
            return_exceptions=True,
        )
        assert [one for one in outcomes if isinstance(one, int)] == [*range(7), -1, *range(9, 20)]
        assert isinstance(outcomes[7], LookupError)

    do(check())
    assert [row for (row,) in database.execute("SELECT number FROM rows ORDER BY number")] == [
        number for number in range(20) if number not in (7, 8)
    ]
    database.close()


@pytest.mark.requirement("R13")
def test_changes_during_a_file_lock_are_committed_in_one_transaction() -> None:
    batches: list[list[int]] = []
    received, is_locked = threading.Event(), threading.Event()

    def begin() -> None:
        if not is_locked.is_set():  # another process has the file until all changes have come
            is_locked.set()
            assert received.wait(20)
            locked = sqlite3.OperationalError("database is locked")
            locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise locked
        batches.append([])

    commits = GroupCommit(begin=begin, commit=lambda: None, roll_back=lambda _: None, busy_s=20.0)

    async def check() -> list[int]:
        def change(number: int) -> asyncio.Task[int]:
            def work() -> int:
                batches[-1].append(number)
                return number

            return asyncio.ensure_future(commits.run_change(work, on_refusal=lambda: -1))

        first = change(0)
        assert await asyncio.to_thread(is_locked.wait, 20)
        others = [change(number) for number in range(1, 300)]
        left = change(300)
        await asyncio.sleep(0)
        left.cancel()
        received.set()
        return await asyncio.gather(first, *others)

    assert do(check()) == list(range(300))
    assert [len(batch) for batch in batches] == [256, 44]
    assert [number for batch in batches for number in batch] == list(range(300))


def test_settling_a_call_that_did_not_run_frees_its_key(make: Open) -> None:
    ledger = make()
    ticket = do(ledger.claim(claim()))
    assert do(ledger.claim(claim())) == InFlight(1)
    do(ledger.finish(ticket, None))
    assert isinstance(do(ledger.claim(claim(fingerprint=b"other"))), Ticket)
    do(ledger.finish(ticket._replace(attempt=7), None))  # a ticket of another attempt changes nothing
    assert do(ledger.claim(claim(fingerprint=b"other"))) == InFlight(1)


LATER = CallEnding(CallState.FAILED, Problem(kind=Kind.TOOL_FAILED, message="Later.", can_retry=True), pinned=False)
LEFT = CallEnding(CallState.CANCELLED, Problem(kind=Kind.CANCELLED, message="Left."), pinned=False)


@pytest.mark.requirement("R8", "A-42")
@pytest.mark.parametrize("ended", [LATER, LEFT])
def test_rerun_that_did_not_run_keeps_the_key_for_the_first_call(make: Open, ended: CallEnding) -> None:
    ledger = make()
    first = do(ledger.claim(claim(rerun=True)))
    do(ledger.finish(first, ended))
    for _ in range(3):
        again = do(ledger.claim(claim(rerun=True)))
        assert (isinstance(again, Ticket), again.attempt) == (True, 2)
        do(ledger.finish(again, None))
        other = do(ledger.claim(claim(fingerprint=b"another")))
        assert (isinstance(other, Problem), other.kind) == (True, Kind.CONFLICT)
    last = do(ledger.claim(claim(rerun=True)))
    do(ledger.finish(last, CallEnding(CallState.DONE, ONE, pinned=True)))
    assert do(ledger.claim(claim())) == StoredResult(ONE)


@pytest.mark.requirement("R8", "A-42")
def test_rerun_after_a_crash_keeps_its_key_if_it_did_not_run(tmp_path: Path, clock: Clock) -> None:
    dead, ledger = (open_sqlite(tmp_path / "calls.sqlite", clock=clock, boot="one") for _ in range(2))
    do(dead.claim(claim(rerun=True)))
    do(dead.end())
    again = do(ledger.claim(claim(rerun=True)))
    assert isinstance(again, Ticket)
    do(ledger.finish(again, None))
    assert do(ledger.claim(claim(fingerprint=b"another"))).kind is Kind.CONFLICT
    assert isinstance(do(ledger.claim(claim(rerun=True))), Ticket)
    do(ledger.end())


@pytest.mark.requirement("R8")
@pytest.mark.parametrize("second", [CallEnding(CallState.DONE, Value(2), pinned=True), None])
def test_second_settlement_of_a_ticket_changes_nothing(make: Open, second: CallEnding | None) -> None:
    ledger = make()
    ticket = do(ledger.claim(claim()))
    do(ledger.finish(ticket, CallEnding(CallState.DONE, ONE, pinned=True)))
    do(ledger.finish(ticket, second))
    assert do(ledger.claim(claim())) == StoredResult(ONE)
    first = do(ledger.claim(claim("b")))
    do(ledger.finish(first, LATER))
    again = do(ledger.claim(claim("b")))
    do(ledger.finish(first, second))
    assert do(ledger.claim(claim("b"))) == InFlight(2)
    do(ledger.finish(again, None))
    do(ledger.finish(again, second))
    assert do(ledger.claim(claim("b"))).attempt == 2


def test_size_of_a_rerun_call_is_counted_once(make: Open) -> None:
    ledger = make(bytes=3_000)
    for _ in range(20):
        ticket = do(ledger.claim(claim()))
        do(
            ledger.finish(
                ticket, CallEnding(CallState.FAILED, Problem(kind=Kind.TOOL_FAILED, message="x" * 500), pinned=False)
            )
        )
    run(ledger, "b")
    assert run(ledger, "b") == StoredResult(ONE)
    assert do(ledger.claim(claim())).attempt == 21, "it was not put out for room that nothing takes"


@pytest.mark.requirement("R3", "R14")
def test_crashed_call_is_interrupted_or_rerun_if_repeatable(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "calls.sqlite"
    first = open_sqlite(path, clock=clock, boot="one")
    do(first.claim(claim("once")))
    do(first.claim(claim("again", rerun=True)))
    other = open_sqlite(path, clock=clock, boot="one")
    assert do(other.claim(claim("once"))) == InFlight(1)
    do(first.end())  # its lock is gone, as with a process that was killed
    answer = do(other.claim(claim("once")))
    ticket = do(other.claim(claim("again", rerun=True)))
    assert isinstance(answer, StoredResult)
    assert isinstance(answer.result, Problem)
    assert (answer.result.kind, answer.result.can_retry) == (Kind.INTERRUPTED, False)
    assert "unknown" in answer.result.message
    assert isinstance(ticket, Ticket)
    assert ticket.attempt == 2
    do(other.end())


@pytest.mark.requirement("R14")
def test_ledger_time_moves_forward_across_restarts_and_clock_changes(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "calls.sqlite"
    ledger = open_sqlite(path, clock=clock, boot="one")
    run(ledger)
    do(ledger.end())
    for boot, now in (("one", 50_000.0 + DAY_S / 2), ("two", 3.0), ("three", 9e9), ("four", 0.0)):
        clock.now = now
        ledger = open_sqlite(path, clock=clock, boot=boot)
        assert run(ledger) == StoredResult(Value(1)), boot
        do(ledger.end())
    clock.now += DAY_S / 2 + 1
    ledger = open_sqlite(path, clock=clock, boot="four")
    assert isinstance(run(ledger), Ticket)
    do(ledger.end())


def test_ledger_age_does_not_advance_without_a_boot_id() -> None:
    assert resume_age(None, "", 7.0) == 0.0
    assert resume_age(ClockMark("", 1.0, 5.0), "", 7.0) == 5.0
    assert resume_age(ClockMark("b", 1.0, 5.0), "b", 7.0) == 11.0
    assert resume_age(ClockMark("b", 9.0, 5.0), "b", 7.0) == 5.0
    assert isinstance(read_boot_id(), str)


@pytest.mark.requirement("R13")
def test_full_disk_refuses_only_new_recorded_calls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "calls.sqlite"
    ledger = open_sqlite(path)
    run(ledger, "before", Value("x" * 3_000))
    running = do(ledger.claim(claim("running")))
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")  # what SQLite does where the disk has no more pages
    with caplog.at_level(logging.ERROR):
        do(ledger.finish(running, CallEnding(CallState.DONE, Value("y" * 900_000), pinned=True)))
        refused = [do(ledger.claim(claim(f"new-{number}"))) for number in range(200)][-1]
        known = do(ledger.claim(claim("before")))
        unsaved = do(ledger.claim(claim("running")))
    assert isinstance(refused, Problem)
    assert (refused.kind, refused.can_retry) == (Kind.OVERLOADED, True)
    assert known == StoredResult(Value("x" * 3_000))
    assert isinstance(unsaved, Problem)
    texts = [record for record in caplog.records if "cannot be written" in record.getMessage()]
    assert len(texts) == 1, "once, however many calls it refuses"
    ledger._connection.execute("PRAGMA max_page_count = 1000000")
    assert do(ledger.claim(claim("running"))) == StoredResult(Value("y" * 900_000))
    assert ledger._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    do(ledger.end())


@pytest.mark.requirement("R13")
def test_lost_ledger_answers_503_while_read_only_tools_still_run(tmp_path: Path) -> None:
    kit = Toolkit("Kit")
    ran: list[str] = []

    @kit.tool(safe=False)
    async def write() -> str:
        ran.append("write")
        return "written"

    @kit.tool(safe=True)
    async def read() -> str:
        return "read"

    ledger = open_sqlite(tmp_path / "calls.sqlite")
    app = asgi(kit, ledger=ledger)
    do(ledger.end())  # as a disk that went away

    def ask(method: str, path: str, *fields: tuple[bytes, bytes]) -> int:
        status: int = do(AppTransport(app).send(Request(method, HERE + path, fields))).status
        return status

    key = (b"idempotency-key", b"k1")
    assert ask("POST", "/api/write", key) == 503
    assert (ask("GET", "/api/read", key), ask("GET", "/health"), ran) == (200, 200, [])
    assert (ask("POST", "/api/write"), ran) == (200, ["write"])


@pytest.mark.requirement("D-26")
def test_ledger_file_contains_no_token_or_secret(tmp_path: Path) -> None:
    kit = Toolkit("Kit")

    @kit.tool(safe=False, requirements=Requirements(secrets=("PIN",)))
    async def pay(context: Context, to: str) -> str:
        return "paid" if context.secrets["PIN"].reveal() == "canary-pin" else "not paid"

    path = tmp_path / "calls.sqlite"
    app = asgi(kit, ledger=path, limits=ServerLimits())
    body = (
        b'{"request":{"tool_id":"Kit.pay","call_id":"k","input":{"to":"canary-to"},'
        b'"context":{"secrets":[{"id":"PIN","value":"canary-pin"}]}}}'
    )
    answer = do(
        AppTransport(app).send(Request("POST", f"{HERE}/call", ((b"content-type", b"application/json"),), body))
    )
    do(app.end())
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b'"paid"' in answer.body
    assert b"paid" in stored
    assert b"canary" not in stored


@pytest.mark.requirement("D-26")
def test_no_other_user_of_the_machine_can_read_what_was_called(tmp_path: Path) -> None:
    kit = Toolkit("Kit")

    @kit.tool(long=True, safe=False, approval="auto")
    async def pay(to: str) -> str:
        return f"paid {to}"

    state = tmp_path / "state"
    state.mkdir(mode=0o755)  # such as one that its operator made
    umask = os.umask(0o022)
    try:
        app = asgi(kit, state=state)
        fields = ((b"content-type", b"application/json"), (b"idempotency-key", b"one"))
        answer = do(AppTransport(app).send(Request("POST", f"{HERE}/api/pay", fields, b'{"to":"ada"}')))
    finally:
        os.umask(umask)
    assert answer.status == 202
    assert {file.name for file in state.rglob("*") if file.is_file() and file.stat().st_mode & 0o077} == set()
    assert "calls.sqlite-wal" in {file.name for file in state.iterdir()}
    do(app.end())


def test_file_that_is_no_ledger_is_refused_in_one_sentence(tmp_path: Path) -> None:
    text, other, version = tmp_path / "notes.txt", tmp_path / "other.sqlite", tmp_path / "version.sqlite"
    text.write_text("This is no database at all, and long enough to be read as one. " * 20)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE things (x)")
    do(open_sqlite(version).end())
    with closing(sqlite3.connect(version)) as db:
        db.execute("PRAGMA user_version = 99")
    for path in (text, other, version, tmp_path / "no" / "such" / "folder.sqlite"):
        with pytest.raises(
            DefinitionError,
            match=r"(The tables in .* differ from those of calls|was written by a newer|[Cc]annot (use|be used))",
        ):
            open_sqlite(path)
    assert text.read_text().startswith("This is no database")


def test_closed_ledger_can_reopen_and_leaves_one_file(tmp_path: Path) -> None:
    ledger = open_sqlite(tmp_path / "calls.sqlite")
    run(ledger)
    do(ledger.end())
    do(ledger.end())
    assert [file.name for file in tmp_path.iterdir()] == ["calls.sqlite"]
    do(ledger.begin())
    do(ledger.begin())
    assert run(ledger) == StoredResult(Value(1))
    do(ledger.end())


@pytest.mark.parametrize("rows", [40, 400])
def test_processes_together_respect_the_ledger_limits(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "calls.sqlite"
    ledgers = [open_sqlite(path, LedgerLimits(rows=rows)) for _ in range(2)]
    for number in range(600):
        run(ledgers[number % 2], f"call-{number}")
    (held,) = ledgers[0]._connection.execute("SELECT count(*) FROM calls").fetchone()
    assert held <= rows + 64
    for ledger in ledgers:
        do(ledger.end())


@pytest.mark.requirement("R8")
@pytest.mark.parametrize("seed", range(5))
def test_claims_and_endings_that_come_together_are_as_if_made_one_by_one(make: Open, seed: int) -> None:
    order = random.Random(seed)
    ledger = make()

    async def call(name: str) -> ClaimOutcome:
        outcome = await ledger.claim(claim(name))
        if isinstance(outcome, Ticket):
            answer = CallEnding(CallState.DONE, Value(name), pinned=True)
            await asyncio.gather(*(ledger.finish(outcome, ending) for ending in (answer, answer, LEFT)))
        return outcome

    async def check() -> None:
        for _ in range(10):
            names = [str(order.randrange(40)) for _ in range(order.choice((1, 3, 17, 64)))]
            outcomes = await asyncio.gather(*map(call, names))
            tickets = [outcome.key.call_id for outcome in outcomes if isinstance(outcome, Ticket)]
            assert not set(tickets) & ran, "none runs again"
            assert len(tickets) == len(set(tickets)), "one of several gets it"
            ran.update(tickets)
            assert set(names) <= ran
            for name, outcome in zip(names, outcomes, strict=True):
                assert isinstance(outcome, Ticket | InFlight) or outcome == StoredResult(Value(name))

    ran: set[str] = set()
    do(check())
    for name in ran:
        assert do(ledger.claim(claim(name))) == StoredResult(Value(name))


@pytest.mark.requirement("A-42", "D-34")
def test_full_ledger_makes_room_for_calls_that_come_together_from_their_own_callers_alone(make: Open) -> None:
    ledger = make(rows=2_048)

    async def record(principal: str, name: str) -> ClaimOutcome:
        outcome = await ledger.claim(claim_of(principal, name))
        if isinstance(outcome, Ticket):
            await ledger.finish(outcome, CallEnding(CallState.DONE, ONE, pinned=True))
        return outcome

    async def flood(numbers: Iterable[int]) -> list[ClaimOutcome]:
        calls = [(caller, f"flood-{number}") for number in numbers for caller in ("mallory", "mallet")]
        return await asyncio.gather(*(record(*call) for call in calls))

    async def check() -> None:
        first = [await record("ada", str(number)) for number in range(200)]
        for start in range(0, 2_000, 50):
            first += await flood(range(start, start + 50))
        assert all(isinstance(one, Ticket) for one in first), "each was new, and there was room for it"
        stored = [await record("ada", str(number)) for number in range(200)]
        assert stored == [StoredResult(ONE)] * 200, "no call of another caller was removed for them"
        # Of 1,848 rows, two callers keep three sevenths each, less what is removed ahead at a time.
        for caller in ("mallory", "mallet"):
            last = [await ledger.claim(claim_of(caller, f"flood-{number}")) for number in range(1_300, 2_000)]
            assert last == [StoredResult(ONE)] * 700

    do(check())


def test_together_settled_calls_count_only_the_rows_that_were_still_theirs(tmp_path: Path) -> None:
    ledger = open_sqlite(tmp_path / "calls.sqlite")
    names = [f"call-{number}" for number in range(9)]

    async def check() -> None:
        tickets = await asyncio.gather(*(ledger.claim(claim(name)) for name in names))
        with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as other, other:
            other.execute("UPDATE calls SET owner = owner + 1 WHERE call_id IN ('call-3', 'call-4')")
        answer = CallEnding(CallState.DONE, Value("x" * 1_000), pinned=True)
        await asyncio.gather(*(ledger.finish(ticket, answer) for ticket in tickets))

    do(check())
    do(ledger.end())  # writes the count
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as database:
        ended = {row for (row,) in database.execute("SELECT call_id FROM calls WHERE state = 'done'")}
        assert ended == set(names) - {"call-3", "call-4"}
        counted = database.execute("SELECT rows, bytes FROM held").fetchone()
        assert counted == database.execute("SELECT count(*), sum(bytes) FROM calls").fetchone()
