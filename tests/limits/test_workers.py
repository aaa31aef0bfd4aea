"""Limits that several processes share: a folder, and a real Redis; the latter skipped where it is not installed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import canaries
from tests.limits.limited_shop import SHOP, build_call, kit
from tests.programs import require_redis
from tests.support.serve_process import start_serve, url_in
from tests.support.wire import AppTransport
from toolwire import Kind, Problem, RateLimit, Value, asgi, connect_sync
from toolwire.client.calls.session import Session
from toolwire.limits import ClientRateLimits
from toolwire.stores.limits.open import open_windows

THIRTY = RateLimit(max=30, window="1h")
UNLIMITED = ClientRateLimits(tool=None, connection=None)


@pytest.fixture(scope="module")
def redis_socket() -> Iterator[str]:
    """The socket of a Redis of our own in a new folder: nobody else's port is taken."""
    program = require_redis()
    pytest.importorskip("redis", reason="redis is not here: install toolwire[redis] to prove this on a real server")
    with tempfile.TemporaryDirectory(prefix="toolwire-redis-") as folder:
        file = Path(folder) / "redis.sock"
        options = ["--port", "0", "--unixsocket", str(file), "--save", "", "--appendonly", "no", "--dir", folder]
        process = subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "Ready to accept" in line or "ready to accept" in line:
                    break
            threading.Thread(target=process.stdout.read, daemon=True).start()  # what it says later fills no pipe
            yield str(file)
        finally:
            process.terminate()
            process.wait(10)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def redis(redis_socket: str) -> Iterator[str]:
    """The URL of an empty Redis."""
    client = pytest.importorskip("redis").Redis(unix_socket_path=redis_socket)
    client.flushall()
    yield f"redis+unix://{redis_socket}"
    canaries.check_text("Redis", repr([(key, client.dump(key)) for key in client.scan_iter()]))
    client.close()


@pytest.mark.requirement("XL-066")
def test_redis_allows_exactly_30_of_50_concurrent_calls(redis: str) -> None:
    stores = [open_windows(redis) for _ in range(5)]
    with ThreadPoolExecutor(10) as pool:
        waits = list(pool.map(lambda each: stores[each % 5].take("threads", THIRTY), range(50)))
    assert sum(wait == 0.0 for wait in waits) == 30
    assert all(3_500 < wait <= 3_600 for wait in waits if wait > 0.0)
    assert stores[0].take("another key", THIRTY) == 0.0


@pytest.mark.requirement("XL-066")
def test_apps_with_one_redis_share_a_limit(redis: str) -> None:
    async def story() -> list[int]:
        doors = [AppTransport(asgi(kit(), rates=redis)) for _ in range(4)]
        answers = await asyncio.gather(*(doors[number % 4].send(build_call("look")) for number in range(50)))
        return [answer.status for answer in answers if not isinstance(answer, Problem)]

    statuses = asyncio.run(story())
    assert (statuses.count(200), statuses.count(429)) == (30, 20)


@pytest.mark.requirement("XL-066")
@pytest.mark.parametrize(("where", "workers"), [("folder", "2"), ("redis", "4")])
def test_serve_workers_share_a_limit(where: str, workers: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rates = str(tmp_path / "rates") if where == "folder" else request.getfixturevalue("redis")
    (tmp_path / "shop.py").write_text(SHOP)
    options = ["--workers", workers, "--rates", rates]
    with start_serve(*options, tmp_path / "shop.py") as (process, reply):
        results = many(url_in(reply))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert sum(result == Value("tea") for result in results) == 30, errors
    refused = [result for result in results if isinstance(result, Problem)]
    assert [problem.kind for problem in refused] == [Kind.RATE_LIMITED] * 20


def many(url: str) -> list[object]:
    """Call 50 times over ten connections at once, so that every worker has some."""

    def five(_: int) -> list[object]:
        session = Session(limits=UNLIMITED)
        with connect_sync(
            url, protocol="otc", agree=lambda _: True, retries=0, session=session, discovery_s=60
        ) as remote:
            return [remote.call("look", {}) for _ in range(5)]

    with ThreadPoolExecutor(10) as pool:
        return [result for results in pool.map(five, range(10)) for result in results]
