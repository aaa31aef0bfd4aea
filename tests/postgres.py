"""A PostgreSQL of a test's own, on a socket in a new folder; without its programs, the test is skipped."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import canaries
from tests.programs import postgres_user, require_postgres
from toolwire.stores.ledger.postgres import PostgresLedger

psycopg = pytest.importorskip("psycopg", reason="psycopg is not here: install toolwire[postgres] to prove this")
PATIENCE_S = 30.0
IN_MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 2 << 30


def choose_place() -> Path | None:
    """Return a folder in memory where there is plenty of it: each server writes 40 MB, which a disk takes long for."""
    if os.access(IN_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(IN_MEMORY).free > ENOUGH_BYTES:
        return IN_MEMORY
    return None


@cache
def build_template(user: str | None, *options: str) -> Path:
    """Return the data of a new server, as ``initdb`` makes it. Each server begins with a copy, which is made sooner."""
    folder = Path(tempfile.mkdtemp(prefix="toolwire-pg-", dir=choose_place()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if user is not None:
        shutil.chown(folder, user)
    own = ("--auth=trust", "--username=toolwire", "--encoding=UTF8", "--locale=C", *options)
    command = [require_postgres("initdb"), "--no-sync", *own, "-D", str(folder / "data")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, user=user, timeout=60)
    return folder / "data"


class Postgres:
    """A server of its own on a socket in a new folder, as often as it is started."""

    def __init__(self, folder: Path, user: str | None, *options: str) -> None:
        self.folder, self._user = folder, user
        self.settings = ["-c", "listen_addresses="]
        self.environment: dict[str, str] = {}
        subprocess.run(["cp", "-a", build_template(user, *options), self._data], check=True, timeout=60)
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://toolwire@/postgres?host={self.folder}"

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        # All it needs is in its folder: in /dev/shm, a server that is killed would leave a megabyte behind.
        own = ("fsync=off", "shared_buffers=16MB", "dynamic_shared_memory_type=mmap")
        settings = ["-k", str(self.folder), *(word for one in own for word in ("-c", one)), *self.settings]
        with (self.folder / "log").open("ab") as log:
            argv = [require_postgres("postgres"), "-D", self._data, *settings]
            environment = {**os.environ, **self.environment}
            self._process = subprocess.Popen(argv, stderr=log, user=self._user, cwd=self.folder, env=environment)

    def kill(self) -> None:
        """Kill it with all that it started, as when the machine takes them."""
        if self._process.poll() is not None:
            return
        os.kill(self._process.pid, signal.SIGSTOP)
        _wait_for_state(self._process.pid, "TZ")  # it starts nothing more while its processes are listed
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for each in (self._process.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        for each in map(int, children):  # the next server does not begin while one of them has the shared memory
            _wait_for_state(each, "ZX")

    def end(self) -> None:
        """End it at once, but let it give back the shared memory that the system would keep."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_S)
        self.kill()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it hang, with all that it started: it takes connections and says nothing."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        everything = (self._process.pid, *map(int, children))
        stopped = [each for each in everything if _send_signal(each, signal.SIGSTOP)]
        try:
            yield
        finally:
            for each in stopped:
                _send_signal(each, signal.SIGCONT)

    def create_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(host=str(self.folder), user="toolwire", dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://toolwire@/{name}?host={self.folder}"

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.Error), self.connection():
            return True
        return False

    def connection(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(host=str(self.folder), user="toolwire", dbname="postgres", connect_timeout=5)


class LedgerDatabase:
    """A database with the tables of a ledger, whose time a test sets."""

    def __init__(self, server: Postgres) -> None:
        self.url = server.create_database()
        PostgresLedger(self.url)
        self.connection = psycopg.connect(self.url, autocommit=True)
        self.connection.execute("CREATE TABLE test_time (now double precision)")
        self.connection.execute("INSERT INTO test_time VALUES (1000000)")
        for clock in ("toolwire_now", "toolwire_wall"):
            self.connection.execute(
                f"CREATE OR REPLACE FUNCTION {clock}() RETURNS double precision LANGUAGE sql VOLATILE"
                " AS 'SELECT now FROM test_time'"
            )

    def empty(self) -> None:
        """Forget all calls and owners, and let the time begin anew."""
        self.connection.execute("TRUNCATE toolwire_calls, toolwire_owners")
        self.connection.execute("UPDATE toolwire_held SET rows = 0, bytes = 0")
        self.connection.execute("UPDATE test_time SET now = 1000000")

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which each process renews its lease."""
        self.connection.execute("UPDATE test_time SET now = now + %s", (seconds,))
        self.connection.execute("UPDATE toolwire_owners SET until = until + %s", (seconds,))

    def close(self) -> None:
        self.connection.close()

    def end_leases(self) -> None:
        """Let all leases run out, also for processes that connected a moment ago."""
        self.connection.execute("UPDATE test_time SET now = now + 10")
        self.connection.execute("UPDATE toolwire_owners SET until = 0")


def _wait_for_state(process: int, states: str) -> None:
    """Wait until ``process`` is in one of ``states``, letters of the system, or is gone."""
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] not in states:
            assert time.monotonic() < deadline, f"process {process} goes on"
            time.sleep(0.002)


def _send_signal(process: int, number: signal.Signals) -> bool:
    """Return whether ``process`` was there: one that served a connection can end at any time."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def run_postgres(where: Path | None = None, *options: str) -> Iterator[Postgres]:
    """Run a server in a new folder in ``where``; ``options`` are those of ``initdb``."""
    user = postgres_user()
    folder = Path(tempfile.mkdtemp(prefix="toolwire-pg-", dir=where or choose_place()))
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = Postgres(folder, user, *options)
        try:
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder)


def wait_until_answering(server: Postgres) -> None:
    """Wait until ``server`` takes connections."""
    for _ in range(int(PATIENCE_S / 0.05)):
        if server.answers():
            return
        time.sleep(0.05)
    raise AssertionError("PostgreSQL does not start")


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with run_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def shared_postgres() -> Iterator[Postgres]:
    """One server for all tests of a module, which answers."""
    with run_postgres() as server:
        wait_until_answering(server)
        yield server


@pytest.fixture
def empty_database(shared_postgres: Postgres) -> Iterator[str]:
    """The URL of an empty database; the test fails if one of its secrets stands there at its end."""
    url = shared_postgres.create_database()
    yield url
    dump = [require_postgres("pg_dump"), "--dbname", url]
    canaries.check_text("PostgreSQL", subprocess.run(dump, check=True, stdout=subprocess.PIPE, text=True).stdout)
