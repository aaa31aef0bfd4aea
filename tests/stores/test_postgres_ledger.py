# ruff: noqa: F811 - fixtures are imported
"""The ledger on PostgreSQL: leases, a database that hangs or is killed, versions of its tables, and no password."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing

import pytest

from tests.postgres import LedgerDatabase, Postgres, postgres, psycopg, shared_postgres, wait_until_answering  # noqa: F401
from tests.programs import find_free_port
from tests.rc1 import make_rc1_database
from tests.support.waiting import wait_until_async
from toolwire.core.errors import DefinitionError
from toolwire.core.ledger import (
    UNAVAILABLE,
    CallEnding,
    CallKey,
    CallState,
    Claim,
    ClaimOutcome,
    InFlight,
    StoredResult,
    Ticket,
    digest_fingerprint,
)
from toolwire.core.model import Kind, Problem, Value
from toolwire.stores.ledger.postgres import PostgresLedger
from toolwire.stores.postgres import PostgresConnection, PostgresPlace, describe_error, migrate_schema
from toolwire.stores.schema import Migration, Schema

DONE = CallEnding(CallState.DONE, Value(1), pinned=True)
PASSWORD = "hunter2"
PATIENCE_S = 30.0
JUMPS = pytest.mark.parametrize("jump", [3_600.0, -3_600.0, 86_401.0, -86_401.0], ids=["+1h", "-1h", "+1d", "-1d"])


def claim(name: str = "a", *, rerun: bool = False, fingerprint: bytes = b"f") -> Claim:
    return Claim(CallKey("ada", "Kit.pay", name), fingerprint, rerun)


@pytest.fixture
def database(shared_postgres: Postgres) -> Iterator[LedgerDatabase]:
    with closing(LedgerDatabase(shared_postgres)) as opened:
        yield opened


class JumpingDatabase:
    """A database of a ledger whose clock a test sets, as an operator does, or a standby that takes its place."""

    def __init__(self, server: Postgres) -> None:
        self.url = server.create_database()
        PostgresLedger(self.url)
        self.jump(0.0)

    def jump(self, seconds: float) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "CREATE OR REPLACE FUNCTION toolwire_wall() RETURNS double precision LANGUAGE sql VOLATILE"
                f" AS 'SELECT extract(epoch FROM clock_timestamp())::double precision + {seconds}'".encode()
            )


@pytest.fixture
def jumping(shared_postgres: Postgres) -> JumpingDatabase:
    return JumpingDatabase(shared_postgres)


@pytest.mark.requirement("ST-02")
@pytest.mark.parametrize("rerun", [False, True])
def test_owner_that_lost_its_lease_cannot_settle(database: LedgerDatabase, rerun: bool) -> None:
    slow, other = PostgresLedger(database.url), PostgresLedger(database.url)

    async def check() -> None:
        lost = await slow.claim(claim(rerun=rerun))
        assert isinstance(lost, Ticket)
        assert await other.claim(claim(rerun=rerun)) == InFlight(1)
        database.end_leases()
        taken = await other.claim(claim(rerun=rerun))
        if rerun:
            assert isinstance(taken, Ticket)
            assert taken.attempt == 2
        else:
            assert isinstance(taken, StoredResult)
            assert isinstance(taken.result, Problem)
            assert taken.result.kind is Kind.INTERRUPTED
        await slow.finish(lost, CallEnding(CallState.DONE, Value("late"), pinned=True))
        if isinstance(taken, Ticket):
            await other.finish(taken, DONE)
            assert await slow.claim(claim(rerun=rerun)) == StoredResult(Value(1))
        else:
            assert await slow.claim(claim(rerun=rerun)) == taken
        await slow.end()
        await other.end()

    asyncio.run(check())


@pytest.mark.requirement("ST-02")
def test_a_lease_lasts_while_its_process_renews_it(database: LedgerDatabase) -> None:
    busy, other = PostgresLedger(database.url), PostgresLedger(database.url)

    async def check() -> None:
        ticket = await busy.claim(claim())
        assert isinstance(ticket, Ticket)
        await other.claim(claim("other"))
        database.connection.execute("UPDATE test_time SET now = now + 2")
        until = "SELECT until - (SELECT now FROM test_time) FROM toolwire_owners WHERE owner = %s"
        await _until(lambda: database.connection.execute(until, (ticket.owner,)).fetchone()[0] == 3.0)  # type: ignore[index]
        database.connection.execute("UPDATE test_time SET now = now + 2")
        assert await other.claim(claim()) == InFlight(1)
        await busy.finish(ticket, DONE)
        assert await other.claim(claim()) == StoredResult(Value(1))
        await busy.end()
        await other.end()

    asyncio.run(check())


@pytest.mark.requirement("ST-02", "R11")
def test_uncommitted_claim_of_a_lost_connection_has_no_effect(database: LedgerDatabase) -> None:
    ledger = PostgresLedger(database.url)

    async def check() -> None:
        ticket = await ledger.claim(claim("kept"))
        assert isinstance(ticket, Ticket)
        # As a statement whose answer never came: it is in the table, and no ticket was given out.
        database.connection.execute(
            "INSERT INTO toolwire_calls"
            " (principal, tool, call_id, fingerprint, state, rerun, pinned, owner, attempt, bytes)"
            " VALUES ('ada', 'Kit.pay', 'lost', 'x', 'running', false, false, %s, 1, 400)",
            (ticket.owner,),
        )
        assert await ledger.claim(claim("lost", fingerprint=b"y")) != UNAVAILABLE
        _end_connections(database)
        again = await _when_available(lambda: ledger.claim(claim("lost")))
        assert isinstance(again, Ticket), "it did not run"
        assert await ledger.claim(claim("kept")) == InFlight(1), "this one did"
        await ledger.finish(ticket, DONE)
        assert await ledger.claim(claim("kept")) == StoredResult(Value(1))
        await ledger.end()

    asyncio.run(check())


@pytest.mark.requirement("ST-05", "R11")
def test_hanging_database_delays_a_call_no_longer_than_its_deadline(
    postgres: Postgres,
    caplog: pytest.LogCaptureFixture,
) -> None:
    wait_until_answering(postgres)
    ledger = PostgresLedger(postgres.create_database())

    async def check() -> None:
        running = await ledger.claim(claim("running"))
        assert isinstance(running, Ticket)
        with postgres.stopped():
            async with asyncio.timeout(10):
                assert await asyncio.gather(*(ledger.claim(claim(f"new-{n}")) for n in range(50))) == [UNAVAILABLE] * 50
            for number in range(50):
                refused = asyncio.ensure_future(ledger.claim(claim(f"later-{number}")))
                await asyncio.sleep(0)
                assert refused.done(), "it waits for nothing"
                assert refused.result() == UNAVAILABLE
            ending = asyncio.ensure_future(ledger.finish(running, DONE))
            await asyncio.sleep(0)
            assert ending.done()
        assert isinstance(await _when_available(lambda: ledger.claim(claim("new-1"))), Ticket), "nothing ran for it"
        assert await ledger.claim(claim("running")) == StoredResult(Value(1)), "its ending was kept meanwhile"
        await ledger.end()

    with caplog.at_level(logging.WARNING):
        asyncio.run(check())
    replies = [record.message for record in caplog.records if record.name == "toolwire.ledger"]
    assert len(replies) == 2
    assert "cannot be reached" in replies[0]
    assert "can be reached again" in replies[1]


@pytest.mark.requirement("R11", "ST-05")
def test_a_database_that_is_killed_loses_no_ending(postgres: Postgres) -> None:
    wait_until_answering(postgres)
    ledger = PostgresLedger(postgres.create_database())

    async def check() -> None:
        tickets = [await ledger.claim(claim(f"call-{number}")) for number in range(30)]
        for round_ in range(3):
            postgres.kill()
            mine = tickets[10 * round_ : 10 * round_ + 10]
            await asyncio.gather(*(ledger.finish(ticket, DONE) for ticket in mine if isinstance(ticket, Ticket)))
            assert await ledger.claim(claim("other")) == UNAVAILABLE
            postgres.start()
            first = await _when_available(lambda round_=round_: ledger.claim(claim(f"call-{10 * round_}")))  # type: ignore[misc]
            assert first == StoredResult(Value(1))
        assert {type(await ledger.claim(claim(f"call-{number}"))) for number in range(30)} == {StoredResult}
        await ledger.end()

    asyncio.run(check())


@pytest.mark.requirement("ST-02")
def test_id_with_invalid_characters_is_refused_without_affecting_others(database: LedgerDatabase) -> None:
    ledger = PostgresLedger(database.url)

    async def check() -> None:
        names = ["a", "nul\0", "b", "half \ud800", "c"]
        outcomes = await asyncio.gather(*(ledger.claim(claim(name)) for name in names))
        assert [type(outcome) for outcome in outcomes] == [Ticket, Problem, Ticket, Problem, Ticket]
        assert {outcome.kind for outcome in outcomes if isinstance(outcome, Problem)} == {Kind.MALFORMED}
        await ledger.end()

    asyncio.run(check())


@pytest.mark.requirement("ST-04")
def test_migrations_upgrade_from_every_version_and_keep_rows(shared_postgres: Postgres) -> None:
    base = Migration(postgres="CREATE TABLE things (name text); INSERT INTO things VALUES ('kept')")
    steps = [
        Migration(postgres="ALTER TABLE things ADD COLUMN size integer DEFAULT 7"),
        Migration(postgres="CREATE INDEX things_by_name ON things (name)"),
    ]
    for first in range(len(steps) + 1):
        url = shared_postgres.create_database()
        place = PostgresPlace(url)
        migrate_schema(place, Schema("things", base, migrations=steps[:first]))
        migrate_schema(place, Schema("things", base, migrations=steps))
        migrate_schema(place, Schema("things", base, migrations=steps))
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT name, size FROM things").fetchall() == [("kept", 7)]


@pytest.mark.requirement("ST-04", "R14")
def test_tables_of_the_first_version_keep_their_calls_and_leases(shared_postgres: Postgres) -> None:
    url = shared_postgres.create_database()
    make_rc1_database(url)
    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE toolwire_calls, toolwire_owners")
        # What a program of that version has: two calls, and the lease of another process.
        connection.execute("INSERT INTO toolwire_owners VALUES (1, 1, toolwire_now() + 3600)")
        connection.execute(
            "INSERT INTO toolwire_calls (principal, tool, call_id, fingerprint, state, rerun, pinned, owner, attempt,"
            " bytes) SELECT 'ada', 'Kit.pay', name, %s, 'running', false, false, owner, 1, 100"
            " FROM (VALUES ('a', 1), ('b', 2)) AS calls (name, owner)",
            (digest_fingerprint(claim()).fingerprint,),
        )
        connection.execute("UPDATE toolwire_held SET rows = 2, bytes = 200")
    ledger = PostgresLedger(url)

    async def check() -> None:
        assert await ledger.claim(claim("a")) == InFlight(1)
        assert isinstance(await ledger.claim(claim("b")), StoredResult)
        with psycopg.connect(url) as connection:  # the program of that version goes on beside this one
            connection.execute("UPDATE toolwire_owners SET until = toolwire_now() + 3 WHERE owner = 1")
        assert await ledger.claim(claim("a")) == InFlight(1)
        await ledger.end()

    asyncio.run(check())


@pytest.mark.requirement("ST-04")
def test_older_program_is_refused_once_the_tables_require_a_newer_one(database: LedgerDatabase) -> None:
    database.connection.execute("UPDATE toolwire_schema SET version = 3")
    old = PostgresLedger(database.url)
    assert isinstance(asyncio.run(_claim_and_end(old)), Ticket)
    database.connection.execute("UPDATE toolwire_schema SET works_with = 3")
    with pytest.raises(
        DefinitionError, match=r"have version 3, .* supports versions up to 2\. Install a newer toolwire\.$"
    ):
        PostgresLedger(database.url)


@pytest.mark.requirement("ST-04")
def test_a_migration_that_fails_changes_nothing(shared_postgres: Postgres) -> None:
    url = shared_postgres.create_database()
    with pytest.raises(DefinitionError, match="cannot be used"):
        migrate_schema(
            PostgresPlace(url),
            Schema("things", Migration(postgres="CREATE TABLE things (x int)"), migrations=[Migration("DROP NOTHING")]),
        )
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('things')").fetchone() == (None,)


@pytest.mark.requirement("ST-01")
@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{PASSWORD}@127.0.0.1:1/none",
        f"postgresql://ada:{PASSWORD}@[::1/none",
        f"postgresql://ada:x@{PASSWORD}@127.0.0.1/none",
        f"postgresql://ada:1/{PASSWORD}@127.0.0.1/none",
        f"postgresql://ada:{PASSWORD}/x@127.0.0.1/none",
        f"postgresql://127.0.0.1:1/none?password={PASSWORD}",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        PostgresLedger(url)
    assert "hunter" not in f"{raised.value}{raised.value.__cause__}"


async def _claim_and_end(ledger: PostgresLedger) -> ClaimOutcome:
    outcome = await ledger.claim(claim())
    await ledger.end()
    return outcome


def _end_connections(database: LedgerDatabase) -> None:
    database.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database() AND application_name = 'toolwire'"
    )


async def _until(condition: Callable[[], bool]) -> None:
    await wait_until_async(condition)


async def _when_available(ask: Callable[[], Awaitable[ClaimOutcome]]) -> ClaimOutcome:
    async def ask_once() -> ClaimOutcome | None:
        outcome = await ask()
        return None if outcome == UNAVAILABLE else outcome

    outcome = await wait_until_async(ask_once)
    assert outcome is not None
    return outcome


@pytest.mark.requirement("ST-02")
def test_the_database_is_told_to_close_connections_of_machines_that_vanished(postgres: Postgres) -> None:
    wait_until_answering(postgres)
    postgres.kill()
    port = find_free_port()
    postgres.settings = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={port}"]
    postgres.start()
    place = PostgresPlace(f"postgresql://toolwire@127.0.0.1:{port}/postgres")
    connection = await_connection(place)
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
    with closing(connection):
        values = [connection.execute("SELECT current_setting(%s)", (name,)).fetchone() for name in names]
    assert values == [("5",), ("5",), ("3",), ("20000",)]


def test_the_reason_of_an_error_is_neither_its_hint_nor_a_question(shared_postgres: Postgres) -> None:
    with pytest.raises(psycopg.Error) as refused, shared_postgres.connection() as connection:
        connection.execute("DO $$ BEGIN RAISE 'the disk is full' USING HINT = 'Free some.', DETAIL = 'x'; END $$")
    assert describe_error(refused.value) == "the disk is full"
    with pytest.raises(psycopg.Error) as gone:
        psycopg.connect(f"postgresql://toolwire@127.0.0.1:{find_free_port()}/postgres")
    assert "Connection refused" in describe_error(gone.value)


@JUMPS
@pytest.mark.requirement("R14", "ST-02")
def test_a_jump_of_the_clock_of_the_database_ends_no_lease_and_forgets_no_call(
    jumping: JumpingDatabase, jump: float
) -> None:
    first, other = PostgresLedger(jumping.url), PostgresLedger(jumping.url)

    async def check() -> None:
        ended = await first.claim(claim("ended"))
        assert isinstance(ended, Ticket)
        await first.finish(ended, DONE)
        runs = [await first.claim(claim(name, rerun=name == "put")) for name in ("pay", "put")]
        jumping.jump(jump)
        for name in ("pay", "put"):
            assert await other.claim(claim(name, rerun=name == "put")) == InFlight(1)
        for _ in range(200):  # until calls that ended long ago are swept
            assert isinstance(await other.claim(claim(secrets.token_hex(4))), Ticket)
        for run in runs:
            assert isinstance(run, Ticket)
            await first.finish(run, DONE)
        for name in ("ended", "pay", "put"):
            assert await other.claim(claim(name)) == StoredResult(Value(1))
        await asyncio.gather(first.end(), other.end())

    asyncio.run(check())


@JUMPS
@pytest.mark.requirement("R14", "ST-02")
def test_a_jump_of_the_clock_of_the_database_keeps_no_call_of_a_dead_process(
    jumping: JumpingDatabase, jump: float
) -> None:
    dead, other = PostgresLedger(jumping.url), PostgresLedger(jumping.url)

    async def check() -> None:
        lost = await dead.claim(claim())
        assert isinstance(lost, Ticket)
        await other.begin()
        await dead.end()
        with psycopg.connect(jumping.url) as connection:  # as a process that is killed leaves it
            connection.execute("INSERT INTO toolwire_owners VALUES (%s, 1, toolwire_now() + 3)", (lost.owner,))
        jumping.jump(jump)

        async def find_end() -> ClaimOutcome | None:
            outcome = await other.claim(claim())
            return None if outcome == InFlight(1) else outcome

        outcome = await wait_until_async(find_end, within=PATIENCE_S)
        assert isinstance(outcome, StoredResult)
        assert isinstance(outcome.result, Problem)
        assert outcome.result.kind is Kind.INTERRUPTED
        await other.end()

    asyncio.run(check())


def await_connection(place: PostgresPlace) -> PostgresConnection:
    """Return a connection to a server that starts."""
    for _ in range(600):
        with contextlib.suppress(psycopg.OperationalError):
            return place.connect()
        time.sleep(0.05)
    raise AssertionError("PostgreSQL does not start")
