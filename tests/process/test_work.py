# ruff: noqa: F811 - fixtures are imported
"""``toolwire work``: workers run what a server accepted, with Redis and without, also when some are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import Postgres, postgres, wait_until_answering  # noqa: F401 - the fixture
from tests.programs import RedisServer
from tests.support.serve_process import start_serve, url_in
from toolwire.client.transport.network import Network
from toolwire.core.http import Request, Response

CALLS = int(os.environ.get("TOOLWIRE_CALLS", "60"))
PATIENCE_S = 120.0
KIT = '''
    import asyncio, os
    from pathlib import Path
    from toolwire import Toolkit

    kit = Toolkit("Office")
    RUNS = Path(__file__).with_name("runs.txt")

    @kit.tool(long=True, approval="auto", safe=False)
    async def pay(number: int) -> int:
        """Pay once."""
        handle = os.open(RUNS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{number} {os.getpid()}\\n".encode())
        os.close(handle)
        await asyncio.sleep(0.1)
        return number
'''


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    file = tmp_path / "office.py"
    file.write_text(textwrap.dedent(KIT))
    return file


@contextlib.contextmanager
def working(kit: Path, environment: dict[str, str], number: int) -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    try:
        for _ in range(number):
            processes.append(start_worker(kit, environment))  # noqa: PERF401 - those before are ended if one fails
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=30)


def start_worker(kit: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "toolwire", "work", str(kit), "--jobs", "4", "--grace", "20"]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    assert process.stdout is not None
    reply = process.stdout.readline()
    assert reply == "works  pay\n", reply + process.communicate(timeout=30)[1]
    return process


async def send(network: Network, method: str, url: str, body: Any = None, *fields: tuple[bytes, bytes]) -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    answer = await network.send(Request(method, url, ((b"content-type", b"application/json"), *fields), data))
    assert isinstance(answer, Response), answer
    return answer


async def pay_all(url: str, faults: Any) -> dict[int, dict[str, Any]]:
    """Start all calls, let faults happen, and return how each ended."""
    network = Network()
    places: dict[int, str] = {}
    ended: dict[int, dict[str, Any]] = {}
    async with asyncio.timeout(PATIENCE_S):
        for number in range(CALLS):
            prefer = (b"prefer", b"respond-async")
            key = (b"idempotency-key", f"k-{number}".encode())
            answer = await send(network, "POST", f"{url}/api/pay", {"number": number}, prefer, key)
            assert answer.status == 202, answer
            places[number] = dict(answer.headers)[b"location"].decode()
        while len(ended) < CALLS:
            for number in sorted(places.keys() - ended.keys()):
                faults(len(ended))  # before each look: on a busy machine, all may have ended between two rounds
                place = places[number]
                status = await send(network, "GET", place if "://" in place else url + place)
                assert status.status in (200, 503), status
                found = json.loads(status.body)
                if status.status == 200 and found["state"] in ("ended", "interrupted", "cancelled"):
                    ended[number] = found
            await asyncio.sleep(0.1)
    await network.aclose()
    return ended


def check(kit: Path, ended: dict[int, dict[str, Any]], *, interrupted: int) -> set[str]:
    lines = [line.split() for line in kit.with_name("runs.txt").read_text().splitlines()]
    ran = Counter(int(number) for number, _ in lines)
    # A worker killed between its claim and the first line of the tool leaves an interrupted call that never ran.
    never = {number for number, one in ended.items() if one["state"] == "interrupted"} - set(ran)
    assert set(ran) | never == set(range(CALLS)), "none is lost"
    assert max(ran.values()) == 1, "none ran twice"
    states = Counter(one["state"] for one in ended.values())
    assert states["interrupted"] <= interrupted, states
    assert all(one["result"] == number for number, one in ended.items() if one["state"] == "ended")
    return {pid for _, pid in lines}


@pytest.mark.requirement("ST-03")
@pytest.mark.parametrize("wake", [True, False])
def test_workers_run_each_call_of_a_server_once_though_one_and_redis_are_killed(
    wake: bool, kit: Path, postgres: Postgres, tmp_path: Path
) -> None:
    wait_until_answering(postgres)
    environment = {"TOOLWIRE_STATE": postgres.create_database()}
    redis = None
    if wake:
        pytest.importorskip("docket", reason="pydocket is not here: install toolwire[docket] to prove this")
        redis = RedisServer(tmp_path)
        environment["TOOLWIRE_WAKE"] = f"redis://127.0.0.1:{redis.port}"
    done: set[str] = set()
    try:
        with (
            start_serve(kit, "--no-work", environment=environment) as (server, reply),
            working(kit, environment, 2) as workers,
        ):

            def cause_faults(ended: int) -> None:
                if ended >= CALLS // 4 and not done:
                    done.add("worker")
                    workers[0].kill()
                    workers.append(start_worker(kit, environment))
                if ended >= CALLS // 2 and redis is not None and "redis" not in done:
                    done.add("redis")
                    redis.kill()
                    redis.start()

            ended = asyncio.run(pay_all(url_in(reply), cause_faults))
            pids = check(kit, ended, interrupted=4)
            assert str(server.pid) not in pids, "the server leaves all of them to workers"
    finally:
        if redis is not None:
            redis.kill()
    assert "worker" in done


@pytest.mark.requirement("ST-03", "R15")
def test_a_worker_that_gets_sigterm_ends_the_calls_that_it_runs(kit: Path, postgres: Postgres) -> None:
    wait_until_answering(postgres)
    environment = {"TOOLWIRE_STATE": postgres.create_database()}
    stopped: list[float] = []
    with (
        start_serve(kit, "--no-work", environment=environment) as (_, reply),
        working(kit, environment, 2) as workers,
    ):

        def stop_one(ended: int) -> None:
            if ended >= CALLS // 4 and not stopped:
                stopped.append(time.monotonic())
                workers[0].send_signal(signal.SIGTERM)

        ended = asyncio.run(pay_all(url_in(reply), stop_one))
        out, err = workers[0].communicate(timeout=60)
        assert (workers[0].returncode, err) == (0, ""), out
    check(kit, ended, interrupted=0)
    assert stopped


@pytest.mark.requirement("ST-01")
def test_long_calls_outlive_a_server_that_names_no_state(kit: Path, tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "home"), "TOOLWIRE_STATE": ""}

    async def start(url: str) -> str:
        network = Network()
        answer = await send(network, "POST", f"{url}/api/pay", {"number": 7}, (b"prefer", b"respond-async"))
        await network.aclose()
        return dict(answer.headers)[b"location"].decode().rpartition("/")[2]

    async def wait(url: str, call_id: str) -> Any:
        network = Network()
        async with asyncio.timeout(PATIENCE_S):
            answer = await send(network, "GET", f"{url}/calls/{call_id}", None, (b"prefer", b"wait=30"))
        await network.aclose()
        return json.loads(answer.body)

    with start_serve(kit, environment=environment) as (_, reply):
        call_id = asyncio.run(start(url_in(reply)))
        assert asyncio.run(wait(url_in(reply), call_id))["result"] == 7
    with start_serve(kit, environment=environment) as (_, reply):
        assert asyncio.run(wait(url_in(reply), call_id))["result"] == 7
    (folder,) = (tmp_path / "home" / "toolwire" / "servers").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_worker_without_state_or_long_tools_says_so(kit: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("from toolwire import Toolkit\nkit = Toolkit('Plain')\n")
    for argv, reply in (
        ([str(kit)], "A worker needs the servers' state. Set it with --state"),
        (
            [str(plain), "--state", str(tmp_path / "state")],
            ("These targets define no long tools, so the worker has nothing to run. Servers run all other calls"),
        ),
        (
            [str(kit), "--state", str(tmp_path / "state"), "--wake", "http://x"],
            ("Name the Redis server with a URL such as redis://HOST:6379"),
        ),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "toolwire", "work", *argv], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 2, done
        assert reply in done.stderr
        assert "Traceback" not in done.stderr
