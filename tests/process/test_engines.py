# ruff: noqa: F811 - fixtures are imported
"""Calls that are offered to workers through a queue: killed workers, a lost Redis and repeated messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.postgres import Postgres, postgres, wait_until_answering  # noqa: F401 - the fixture
from tests.programs import RedisServer
from tests.support.waiting import wait_until, wait_until_async
from toolwire import RateLimit, Toolkit, asgi
from toolwire.core.errors import DefinitionError
from toolwire.core.ledger import CallKey, Claim, StoredResult
from toolwire.core.long_call import CallEngine
from toolwire.core.model import Problem
from toolwire.stores.ledger.postgres import PostgresLedger
from toolwire.stores.paths import name_in_redis
from toolwire.testing import background

from .engine_worker import open_engine

pytest.importorskip("docket", reason="pydocket is not here: install toolwire[docket] to prove this")
ROOT = Path(__file__).parents[2]
CALLS = int(os.environ.get("TOOLWIRE_CALLS", "300"))
PATIENCE_S = 120.0


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    try:
        yield server
    finally:
        server.kill()


class Workers:
    """Worker processes that are killed and started again."""

    def __init__(self, kind: str, url: str, state: str, folder: Path) -> None:
        self.file = folder / "runs.txt"
        self._errors = folder / "errors.txt"
        self._argv = [sys.executable, "-m", "tests.process.engine_worker", kind, url, state, str(self.file)]
        self.processes: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        with self._errors.open("a") as errors:
            process = subprocess.Popen(
                self._argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ}
            )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate(timeout=30)

    def list_runs(self) -> list[str]:
        return self.file.read_text().split() if self.file.exists() else []

    def read_errors(self) -> str:
        return self._errors.read_text()


@contextlib.contextmanager
def running(kind: str, url: str, state: str, folder: Path, number: int) -> Iterator[Workers]:
    workers = Workers(kind, url, state, folder)
    try:
        for _ in range(number):
            process = workers.start()
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", workers.read_errors()[-3000:]
        yield workers
    finally:
        workers.stop()


class Sender:
    """Offers calls, some twice, and again what has no answer yet, as each server does."""

    def __init__(self, engine: CallEngine, ledger: PostgresLedger) -> None:
        self._engine, self._ledger = engine, ledger
        self.open = {f"call-{number}" for number in range(CALLS)}
        self.answers: dict[str, Any] = {}

    async def read(self) -> None:
        """Take the answers that are there: of a call that ran, and of one whose worker died."""
        for call_id in sorted(self.open & self.started):
            found = await self._ledger.claim(Claim(CallKey("ada", "Kit.pay", call_id), b"f", False))
            if isinstance(found, StoredResult):
                self.answers[call_id] = found.result
                self.open.discard(call_id)

    started: set[str] = set()  # noqa: RUF012 - set anew for each look

    async def offer_all(self, repeat: int, most: int = CALLS) -> None:
        """Offer the first ``most`` calls, those that have not begun."""
        for call_id in sorted({f"call-{number}" for number in range(most)} & self.open - self.started):
            for _ in range(repeat):
                await self._engine.enqueue(call_id)


def check(sender: Sender, workers: Workers) -> None:
    ran = Counter(workers.list_runs())
    assert not sender.open, "each call has an answer"
    assert max(ran.values()) == 1, "and none ran twice"
    assert set(ran) == set(sender.answers)
    interrupted = [one for one in sender.answers.values() if isinstance(one, Problem)]
    assert {one.kind.value for one in interrupted} <= {"interrupted"}
    assert "Traceback" not in workers.read_errors(), workers.read_errors()[-3000:]


@pytest.mark.requirement("ST-03", "R11")
def test_killed_workers_and_a_killed_redis_lose_and_double_no_call(
    postgres: Postgres, redis: RedisServer, tmp_path: Path
) -> None:
    wait_until_answering(postgres)
    state, url = postgres.create_database(), f"redis://127.0.0.1:{redis.port}"
    wait_until(redis.answers)

    async def story(workers: Workers) -> Sender:
        engine, ledger = open_engine("docket", url, is_worker=False), PostgresLedger(state)

        class NoWork:
            async def run(self, call_id: str) -> None:
                raise AssertionError(f"{call_id} came to a process that is no worker")

        await engine.begin(NoWork())
        sender, began, faults = Sender(engine, ledger), time.monotonic(), 0
        async with asyncio.timeout(PATIENCE_S):
            while sender.open:
                sender.started = set(workers.list_runs())
                # A quarter of the calls for each fault, so that all faults come before the last calls begin.
                await sender.offer_all(2, (faults + 1) * CALLS // 4)
                await sender.read()
                if faults < 3 and len(sender.answers) > faults * CALLS // 4:
                    workers.processes[faults].kill()
                    workers.start()
                    if faults == 1:
                        redis.kill()
                        redis.start()
                    faults += 1
                await asyncio.sleep(0.05)
        assert faults == 3
        assert time.monotonic() - began < PATIENCE_S
        await engine.end(0.0)
        await ledger.end()
        return sender

    with running("docket", url, state, tmp_path, 3) as workers:
        check(asyncio.run(story(workers)), workers)


@pytest.mark.requirement("ST-03")
def test_a_worker_that_is_told_to_stop_finishes_its_calls(
    postgres: Postgres, redis: RedisServer, tmp_path: Path
) -> None:
    wait_until_answering(postgres)
    state, url = postgres.create_database(), f"redis://127.0.0.1:{redis.port}"
    wait_until(redis.answers)

    async def story(workers: Workers) -> Sender:
        engine, ledger = open_engine("docket", url, is_worker=False), PostgresLedger(state)
        await engine.begin(None)  # type: ignore[arg-type]  # it is no worker, so nothing runs here
        sender = Sender(engine, ledger)
        async with asyncio.timeout(PATIENCE_S):
            while sender.open:
                sender.started = set(workers.list_runs())
                await sender.offer_all(1)
                await sender.read()
                if len(workers.processes) == 2 and sender.answers:
                    workers.processes[0].send_signal(signal.SIGTERM)
                    workers.start()
                await asyncio.sleep(0.05)
        await engine.end(0.0)
        await ledger.end()
        return sender

    with running("docket", url, state, tmp_path, 2) as workers:
        sender = asyncio.run(story(workers))
        out, _ = workers.processes[0].communicate(timeout=60)
        assert out == "drained\n"
        check(sender, workers)
    assert not any(isinstance(one, Problem) for one in sender.answers.values()), "none was interrupted"


@pytest.mark.requirement("ST-03")
def test_a_message_that_runs_code_when_it_is_unpickled_runs_nothing(
    postgres: Postgres, redis: RedisServer, tmp_path: Path
) -> None:
    import docket
    import redis as client

    wait_until_answering(postgres)
    state, url = postgres.create_database(), f"redis://127.0.0.1:{redis.port}"
    wait_until(redis.answers)
    planted = tmp_path / "planted"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {planted}",)

    async def story(workers: Workers) -> None:
        engine, ledger = open_engine("docket", url, is_worker=False), PostgresLedger(state)
        await engine.begin(None)  # type: ignore[arg-type]  # it is no worker
        async with asyncio.timeout(PATIENCE_S):
            await wait_until_async(lambda: engine.enqueue("first"))
            with client.Redis.from_url(url) as raw:
                await wait_until_async(lambda: raw.exists("toolwire:stream"))
                for name in ("toolwire.run_call", "os.system"):
                    for part in ((Evil(),), Evil(), ("x" * 10_000,), ("later",)):
                        raw.xadd("toolwire:stream", build_message(name, pickle.dumps(part)))
            sender = Sender(engine, ledger)
            sender.open = {"first", "last"}
            while sender.open:
                await engine.enqueue("last")
                sender.started = set(workers.list_runs())
                await sender.read()
                await asyncio.sleep(0.05)
        await engine.end(0.0)
        await ledger.end()

    def build_message(function: str, arguments: bytes) -> Any:
        return {
            "key": f"k-{function}-{hash(arguments)}",
            "when": "2026-01-01T00:00:00+00:00",
            "function": function,
            "args": arguments,
            "kwargs": pickle.dumps({}),
            "attempt": "1",
        }

    assert docket.__version__
    with running("docket", url, state, tmp_path, 1) as workers:
        asyncio.run(story(workers))
    assert not planted.exists()


@pytest.mark.requirement("ST-03")
def test_dbos_carries_calls_too_and_killed_workers_lose_and_double_none(postgres: Postgres, tmp_path: Path) -> None:
    pytest.importorskip("dbos", reason="dbos is not here: install toolwire[dbos] to prove this")
    wait_until_answering(postgres)
    state, url = postgres.create_database(), postgres.create_database()

    async def story(workers: Workers) -> Sender:
        engine, ledger = open_engine("dbos", url, is_worker=False), PostgresLedger(state)
        await engine.begin(None)  # type: ignore[arg-type]  # it is no worker
        sender, faults = Sender(engine, ledger), 0
        async with asyncio.timeout(PATIENCE_S):
            while sender.open:
                sender.started = set(workers.list_runs())
                await sender.offer_all(2)
                await sender.read()
                if faults < 1 and len(sender.answers) > CALLS // 5:
                    workers.processes[0].kill()
                    faults += 1
                await asyncio.sleep(0.05)
        assert faults == 1
        await engine.end(0.0)
        await ledger.end()
        return sender

    with running("dbos", url, state, tmp_path, 2) as workers:
        check(asyncio.run(story(workers)), workers)


@pytest.mark.requirement("ST-03", "D-29")
@pytest.mark.parametrize("form", ["py_pickle", None, "toolwire_json"])
def test_a_row_of_dbos_that_says_that_it_is_a_pickle_runs_nothing(
    postgres: Postgres, tmp_path: Path, form: str | None
) -> None:
    pytest.importorskip("dbos", reason="dbos is not here: install toolwire[dbos] to prove this")
    import psycopg

    wait_until_answering(postgres)
    state, url = postgres.create_database(), postgres.create_database()
    planted = tmp_path / "planted"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {planted}",)

    async def plant() -> None:
        engine = open_engine("dbos", url, is_worker=False)
        await engine.begin(None)  # type: ignore[arg-type]  # it is no worker
        assert await engine.enqueue("first")
        await engine.end(0.0)
        text = b64encode(pickle.dumps({"args": (Evil(),), "kwargs": {}})).decode()
        with psycopg.connect(url, autocommit=True) as raw:
            changed = raw.execute("UPDATE dbos.workflow_status SET serialization = %s", (form,))
            assert changed.rowcount == 1
            changed = raw.execute("UPDATE dbos.workflow_input SET inputs = %s", (text,))
            assert changed.rowcount == 1

    async def wait_for_others(workers: Workers) -> None:
        engine, ledger = open_engine("dbos", url, is_worker=False), PostgresLedger(state)
        await engine.begin(None)  # type: ignore[arg-type]  # it is no worker
        sender = Sender(engine, ledger)
        sender.open = {"last"}
        async with asyncio.timeout(PATIENCE_S):
            while sender.open:
                await engine.enqueue("last")
                sender.started = set(workers.list_runs())
                await sender.read()
                await asyncio.sleep(0.05)
            with psycopg.connect(url, autocommit=True) as raw:
                waiting = "SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"
                while raw.execute(waiting).fetchone() is not None:  # noqa: ASYNC110 - it asks a server
                    await asyncio.sleep(0.05)
        await engine.end(0.0)
        await ledger.end()

    asyncio.run(plant())
    with running("dbos", url, state, tmp_path, 1) as workers:
        asyncio.run(wait_for_others(workers))
    assert not planted.exists()


@pytest.mark.requirement("ST-03")
def test_an_address_that_is_no_redis_is_refused() -> None:
    from toolwire.engines.docket import DocketEngine

    with pytest.raises(DefinitionError, match=r"^Name the Redis server"):
        DocketEngine("http://127.0.0.1")


@pytest.mark.requirement("ST-01", "ST-03")
def test_an_application_takes_and_offers_calls_through_the_redis_that_the_environment_names(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redis import Redis

    wait_until(redis.answers)
    kit, ran = Toolkit("Shop"), []

    @kit.tool(approval="auto", safe=False, long=True, rate_limit=RateLimit(max=5, window="1h"))
    async def order(what: str) -> str:
        """Order something."""
        ran.append(what)
        return "ordered"

    url = f"redis://127.0.0.1:{redis.port}"
    monkeypatch.setenv("TOOLWIRE_WAKE", url)
    queue: Any = Redis.from_url(url)
    with background(asgi(kit, state=tmp_path)) as address:
        answer = httpx2.post(f"{address}/api/order", json={"what": "tea"}, headers={"prefer": "wait=20"}, timeout=30)
        assert (answer.status_code, answer.json()) == (200, "ordered")
        names = {key.decode() for key in queue.keys()}  # noqa: SIM118 - of Redis, not of a dictionary
        assert any(re.match("toolwire-[0-9a-f]{16}:worker", name) for name in names), names
        assert any("LIMIT" in name.upper() for name in names), names
    assert ran == ["tea"]
    queue.close()


@pytest.mark.requirement("CR-01")
def test_servers_of_two_states_that_share_a_redis_take_only_their_own_calls(redis: RedisServer, tmp_path: Path) -> None:
    from redis import Redis

    wait_until(redis.answers)
    url = f"redis://127.0.0.1:{redis.port}"

    def serve(name: str) -> contextlib.AbstractContextManager[str]:
        kit = Toolkit(name)

        @kit.tool(approval="auto", safe=False, long=True)
        async def order(what: str) -> str:
            """Order something."""
            return f"{what} from {name}"

        return background(asgi(kit, state=tmp_path / name, wake=url))

    with serve("Shop") as shop, serve("Store") as store, Redis.from_url(url) as queue:
        for number in range(10):
            for address, name in ((shop, "Shop"), (store, "Store")):
                told = {"prefer": "wait=20"}
                answer = httpx2.post(f"{address}/api/order", json={"what": str(number)}, headers=told, timeout=30)
                assert (answer.status_code, answer.json()) == (200, f"{number} from {name}")
        names = {key.decode().partition(":")[0] for key in queue.keys()}  # noqa: SIM118 - of Redis, not of a dictionary
        assert len({name for name in names if name.startswith("toolwire-")}) == 2, names


@pytest.mark.requirement("ST-03")
def test_the_queue_of_a_database_is_found_by_each_of_its_users() -> None:
    names = [name_in_redis(url) for url in ("postgresql://a:b@db/calls", "postgresql://c@db/calls?sslmode=require")]
    assert names[0] == names[1] != name_in_redis("postgresql://db/other") != name_in_redis(Path("calls.sqlite"))
    assert "b@" not in "".join(names)


@pytest.mark.requirement("ST-01")
@pytest.mark.parametrize("given", [{}, {"wake": "http://127.0.0.1", "state": "folder"}])
def test_a_redis_to_offer_calls_needs_a_state_and_an_address(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWIRE_WAKE", "redis://:swordfish@127.0.0.1")
    options: dict[str, Any] = given and {**given, "state": tmp_path}
    with pytest.raises(DefinitionError, match="name one" if not given else "redis://HOST") as raised:
        asgi(Toolkit("Shop"), **options)
    assert "swordfish" not in str(raised.value)
