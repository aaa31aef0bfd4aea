# ruff: noqa: F811 - fixtures are imported
"""Files and databases of other versions: those of 1.0.0rc1 are brought to this one, newer ones are refused."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Postgres, psycopg, shared_postgres  # noqa: F401 - the fixture
from tests.rc1 import FILES, make_rc1_database, make_rc1_file, make_rc1_folder
from tests.support.waiting import wait_until
from toolwire.consent.decision_record import find_chain_fault
from toolwire.consent.grant import GrantKey
from toolwire.core.errors import DefinitionError
from toolwire.core.ledger import CallKey, Claim, InFlight, StoredResult
from toolwire.core.model import Approval, RateLimit, Value
from toolwire.stores.consent.approvals import Approvals
from toolwire.stores.consent.grants import StoredGrants
from toolwire.stores.consent.open import open_decisions, open_levels
from toolwire.stores.consent.tables import APPROVALS, AUDIT, CONSENT, ENDED_SESSIONS, GRANTS
from toolwire.stores.database import Database
from toolwire.stores.ledger.postgres import PostgresLedger
from toolwire.stores.ledger.postgres_long_calls import PostgresLongCalls
from toolwire.stores.ledger.sqlite import SqliteLedger
from toolwire.stores.ledger.sqlite_long_calls import SqliteLongCalls
from toolwire.stores.ledger.tables import CALLS, CALLS_FILE, LONG_CALLS
from toolwire.stores.limits.sqlite_windows import SqliteWindows
from toolwire.stores.limits.tables import RATES
from toolwire.stores.oauth.accounts import Accounts
from toolwire.stores.oauth.database import OAuthStore
from toolwire.stores.oauth.tables import OAUTH
from toolwire.stores.open_rows import open_rows
from toolwire.stores.schema import Migration, Schema
from toolwire.stores.sessions.tables import SESSIONS

pytestmark = pytest.mark.requirement("ST-04")

KINDS = {
    "approvals.sqlite3": APPROVALS,
    "audit.sqlite3": AUDIT,
    "calls.sqlite": CALLS_FILE,
    "ended_sessions.sqlite3": ENDED_SESSIONS,
    "grants.sqlite3": GRANTS,
    "oauth.sqlite3": OAUTH,
    "rates.sqlite3": RATES,
    "sessions.sqlite3": SESSIONS,
}
SITE = "https://bank.example"
KEY = GrantKey("", "", SITE, "pay", "d" * 64)


def now() -> float:
    """Return when the rows of 1.0.0rc1 were written."""
    return 1.8e9


def read_rows(file: Path) -> dict[str, list[Any]]:
    """Return all rows of each table, without the versions."""
    with closing(sqlite3.connect(file)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'toolwire_schema'")
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for (name,) in names.fetchall()}


def read_version(file: Path, part: str) -> tuple[int, int]:
    with closing(sqlite3.connect(file)) as connection:
        found: tuple[int, int] = connection.execute(
            "SELECT version, works_with FROM toolwire_schema WHERE part = ?", (part,)
        ).fetchone()
        return found


def set_version(file: Path, version: int, works_with: int) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE toolwire_schema SET version = ?, works_with = ?", (version, works_with))


def refuse(place: Path | str, schema: Schema) -> str:
    """Return the sentence that refuses a place."""
    with pytest.raises(DefinitionError) as raised:
        open_rows(place, schema)
    sentence = str(raised.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("name", FILES)
def test_file_of_1_0_0rc1_keeps_each_row(name: str, tmp_path: Path) -> None:
    file = make_rc1_file(name, tmp_path)
    before = read_rows(file)
    assert any(before.values())
    for _ in range(2):
        open_rows(file, KINDS[name]).close()
        after = read_rows(file)
        assert {table: after[table] for table in before} == before
    assert read_version(file, KINDS[name].name) == (KINDS[name].version, 1)
    new = tmp_path / "new"
    open_rows(new, KINDS[name]).close()
    assert read_rows(new).keys() == after.keys()


@pytest.mark.parametrize("kind", ["folder", "postgresql"])
def test_what_1_0_0rc1_stored_is_in_use(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place: Path | str = tmp_path / "state"
    if isinstance(place, Path) and kind == "folder":
        make_rc1_folder(place)
        rows: Any = place
        ledger: Any = SqliteLedger(place / "calls.sqlite")
        calls: Any = SqliteLongCalls(place / "calls.sqlite")
        people = place / "oauth.sqlite3"
        assert SqliteWindows(place, clock=now).take("ann", RateLimit(max=1, window="30d")) > 0
    else:
        people = place = request.getfixturevalue("shared_postgres").create_database()
        make_rc1_database(place)
        rows, ledger, calls = open_rows(place, CONSENT), PostgresLedger(place, lease_s=0.05), PostgresLongCalls(place)
    with closing(StoredGrants(rows, clock=now)) as grants:
        assert grants.has_grant(KEY)
        assert [bool(grants.spend(KEY._replace(tool="order"), {})) for _ in range(4)] == [True] * 3 + [False]
        assert grants.find_pinned(KEY) == {"name": "pay"}
    with closing(Approvals(rows, clock=now)) as approvals:
        [waiting] = approvals.list_pending()
        assert waiting.rows
        answered = approvals.find("c" * 64)
        assert answered is not None
        answer = approvals.take(answered, "c" * 64)
        assert answer is not None
        assert (answer.allowed, answer.reason) == (True, "yes")
    with closing(open_decisions(place)) as decisions:
        assert [one.record.tool for one in decisions.entries()] == ["pay", "order"]
        assert find_chain_fault(decisions.entries(), decisions.start()) == ""
        assert decisions.find_start_fault() == ""
    assert [tuple(one) for one in open_levels(place).list_levels()] == [(SITE, "delete", Approval.DENY)]
    with closing(OAuthStore(people)) as store:
        assert Accounts(store).check("ada", "correct horse") is not None
        with store.read_transaction() as found:
            assert found.find_session("e" * 64, now()) == "ada"
            assert [name for _, name in found.list_users(has_password=True)] == ["Ada"]

    async def check() -> None:
        assert await ledger.claim(Claim(CallKey("ann", "pay", "ended"), b"pay 7", can_rerun=False)) == StoredResult(
            Value({"paid": 7})
        )
        again = Claim(CallKey("ann", "pay", "died"), b"pay 8", can_rerun=False)
        while isinstance(died := await ledger.claim(again), InFlight):  # until its lease is over
            pass
        assert isinstance(died, StoredResult)  # it is unknown whether it has run
        status = await calls.read("ann", "long-1")
        assert status.result == Value({"pages": 3})
        await ledger.end()
        await calls.end()

    asyncio.run(check())


@pytest.mark.parametrize("name", KINDS)
def test_newer_file_is_refused_in_one_sentence_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    file, schema = tmp_path / name, KINDS[name]
    open_rows(file, schema).close()
    newer = schema.version + 1
    set_version(file, newer, schema.version)
    open_rows(file, schema).close()  # the newer program says that this one works with its tables
    assert read_version(file, schema.name) == (newer, schema.version)
    set_version(file, newer, newer)
    content = file.read_bytes()
    assert refuse(file, schema) == (
        f"The tables of {schema.name} in {file} have version {newer}, but this toolwire supports versions "
        f"up to {schema.version}. Install a newer toolwire."
    )
    assert file.read_bytes() == content


def test_newer_database_is_refused_in_one_sentence(shared_postgres: Postgres) -> None:
    url = shared_postgres.create_database()
    for schema in (CALLS, LONG_CALLS, CONSENT, RATES, OAUTH, SESSIONS):
        open_rows(url, schema).close()
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE toolwire_schema SET version = 90, works_with = 90")
        assert "have version 90, but this toolwire supports versions up to" in refuse_again(url, schema)


def refuse_again(url: str, schema: Schema) -> str:
    """Return the sentence that refuses a database to a new process, which has no connection to it yet."""
    from toolwire.stores.postgres import PostgresPlace, migrate_schema

    with pytest.raises(DefinitionError) as raised:
        migrate_schema(PostgresPlace(url), schema)
    return str(raised.value)


def make_other_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE photos (name); INSERT INTO photos VALUES ('sea')")


def make_other_program_with_id(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("PRAGMA application_id = 7; PRAGMA user_version = 3")


def make_other_kind(file: Path) -> None:
    open_rows(file, RATES if file.name != "rates.sqlite3" else GRANTS).close()


def make_other_kind_of_rc1(file: Path) -> None:
    make_rc1_file("rates.sqlite3" if file.name != "rates.sqlite3" else "grants.sqlite3", file.parent).rename(file)


def make_earlier_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("".join(f"CREATE TABLE {name} (old);" for name in ("grants", "questions")))


def make_text(file: Path) -> None:
    file.write_text("These are notes, and no database at all. " * 100)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "oauth.sqlite3"])
@pytest.mark.parametrize(
    "make",
    [
        make_other_program,
        make_other_program_with_id,
        make_other_kind,
        make_other_kind_of_rc1,
        make_earlier_table,
        make_text,
    ],
)
def test_file_of_another_kind_or_program_is_refused_and_stays_as_it_is(
    make: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    make(file)
    content = file.read_bytes()
    assert str(file) in refuse(file, KINDS[name])
    assert file.read_bytes() == content


def test_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "grants.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE grants (id, tool); INSERT INTO grants VALUES ('a', 'pay')")
    assert "the table grants in" in refuse(file, GRANTS)
    assert read_rows(file) == {"grants": [("a", "pay")]}


def test_damaged_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "grants.sqlite3"
    open_rows(file, GRANTS).close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE toolwire_schema SET version = 'two', works_with = x'00'")
    assert "is damaged" in refuse(file, GRANTS)


def test_users_are_kept_beside_the_tables_of_an_application(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    make_other_program(file)
    for _ in range(2):
        OAuthStore(f"sqlite:///{file}").close()
    rows = read_rows(file)
    assert rows["photos"] == [("sea",)]
    assert "oauth_users" in rows
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0,)
    with pytest.raises(DefinitionError, match=r"^Store users and tokens in a file or at a URL such as"):
        OAuthStore("mysql://db.example/shop")


@pytest.mark.parametrize("name", FILES)
def test_threads_that_open_a_file_at_once_migrate_it_once(name: str, tmp_path: Path) -> None:
    file = make_rc1_file(name, tmp_path)
    before = read_rows(file)
    with ThreadPoolExecutor(8) as threads:
        for rows in threads.map(lambda _: open_rows(file, KINDS[name]), range(8)):
            rows.close()
    after = read_rows(file)
    assert {table: after[table] for table in before} == before


def test_processes_that_open_a_file_at_once_migrate_it_once(tmp_path: Path) -> None:
    file = make_rc1_file("approvals.sqlite3", tmp_path)
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from toolwire.stores.database import Database
        from toolwire.stores.schema import Migration, Schema
        from toolwire.stores.consent.tables import APPROVALS
        more = APPROVALS._replace(migrations=[Migration("ALTER TABLE questions ADD COLUMN kind TEXT")])
        print("ready", flush=True)
        sys.stdin.readline()
        Database(Path(sys.argv[1]), more).close()
        """
    )
    argv = [sys.executable, "-c", program, str(file)]
    started = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    assert [one.communicate(timeout=60) and one.returncode for one in started] == [0] * 4
    assert read_version(file, "approvals") == (2, 1)


def test_migration_that_is_killed_leaves_the_old_version(tmp_path: Path) -> None:
    file = make_rc1_file("approvals.sqlite3", tmp_path)
    before = read_rows(file)
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from toolwire.stores.consent.tables import APPROVALS
        from toolwire.stores.database import Database
        from toolwire.stores.schema import Migration
        many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT hex(randomblob(2000)) FROM n"
        steps = Migration(f"ALTER TABLE questions ADD COLUMN kind TEXT;; CREATE TABLE filler AS {many}")
        Database(Path(sys.argv[1]), APPROVALS._replace(migrations=[steps]))
        """
    )
    log = file.with_name(f"{file.name}-wal")
    with subprocess.Popen([sys.executable, "-c", program, str(file)]) as process:
        # The migration never ends. Once this much of it is on the disk, it is in the middle.
        wait_until(lambda: log.exists() and log.stat().st_size > 4_000_000)
        process.send_signal(signal.SIGKILL)
    with closing(Database(file, APPROVALS)):
        pass
    after = read_rows(file)
    assert {table: after[table] for table in before} == before
    assert "filler" not in after
    assert read_version(file, "approvals") == (APPROVALS.version, 1)


def test_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = make_rc1_file("grants.sqlite3", tmp_path)
    before = read_rows(file)
    steps = [Migration("ALTER TABLE grants ADD COLUMN kind TEXT"), Migration("DROP TABLE missing")]
    assert "cannot be used: no such table: missing" in refuse(file, GRANTS._replace(migrations=steps))
    assert read_rows(file) == before


def test_each_version_is_brought_to_the_last_one(tmp_path: Path) -> None:
    steps = [Migration(f"ALTER TABLE grants ADD COLUMN more_{number} INTEGER DEFAULT {number}") for number in range(3)]
    for first in range(len(steps) + 1):
        file = make_rc1_file("grants.sqlite3", tmp_path / str(first))
        open_rows(file, GRANTS._replace(migrations=steps[:first])).close()
        with closing(Database(file, GRANTS._replace(migrations=steps))) as database:
            assert database.select_rows("SELECT more_0, more_1, more_2 FROM grants") == [(0, 1, 2)]
        assert read_version(file, "grants") == (4, 1)
        with closing(StoredGrants(file.parent, clock=now)) as grants:  # the program before goes on beside
            assert grants.has_grant(KEY)
