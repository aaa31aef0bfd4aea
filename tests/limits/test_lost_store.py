"""What a server does with tools that have a limit while the Redis that counts their calls is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits.counted_shop import count_run, kit
from tests.limits.limited_shop import SHOP
from tests.programs import RedisServer
from tests.support.serve_process import start_serve, url_in
from tests.support.waiting import wait_until
from toolwire import RateLimit, asgi, connect_sync
from toolwire.client.calls.session import Session
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Call, Context, Kind, Problem, Tool, Value
from toolwire.limits import ClientRateLimits, LocalRates, build_rate_check

pytestmark = pytest.mark.requirement("R11", "XL-066")
UNLIMITED = ClientRateLimits(tool=None, connection=None)


@pytest.mark.requirement("OB-1")
def test_each_process_enforces_its_share_of_the_limit_if_the_store_is_lost(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    app = asgi(kit(), rates=f"redis://127.0.0.1:{redis.port}", rates_replicas=3)
    assert count_run(app, "look", 4) == (4, 0, 0)
    redis.kill()
    assert count_run(app, "look") == (10, 40, 0)
    assert count_run(app, "empty") == (10, 40, 0)
    assert count_run(app, "free") == (50, 0, 0)
    assert [message for message in caplog.messages if "rate limit" in message] == [
        "The rate limit store cannot be reached (ConnectionError): each process counts alone until then."
    ]
    redis.start()
    wait_until(redis.answers)
    while "can be reached again" not in caplog.text:
        count_run(app, "empty", 1)
    assert count_run(app, "look") == (30, 20, 0)  # a Redis that keeps nothing begins again


@pytest.mark.requirement("OB-1")
def test_rates_fail_closed_refuses_calls_that_cannot_be_counted(redis: RedisServer) -> None:
    where = f"redis://127.0.0.1:{redis.port}"
    closed = asgi(kit(), rates=where, rates_fail="closed")
    careful = asgi(kit(), rates=where, rates_fail="closed-for-destructive")
    redis.kill()
    assert (count_run(closed, "look"), count_run(closed, "empty")) == ((0, 0, 50), (0, 0, 50))
    assert (count_run(careful, "look"), count_run(careful, "empty")) == ((30, 20, 0), (0, 0, 50))
    assert count_run(closed, "free") == (50, 0, 0)


@pytest.mark.parametrize(("more", "allowed"), [([], 15), (["--rates-replicas", "6"], 5)])
def test_the_workers_of_serve_share_the_limit_also_without_the_store(
    more: list[str], allowed: int, redis: RedisServer, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    options = ["--workers", "2", "--rates", f"redis://127.0.0.1:{redis.port}", *more]
    with start_serve(*options, tmp_path / "shop.py") as (process, reply):
        redis.kill()
        results = [result for _ in range(4) for result in call_often(url_in(reply))]
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    ran = sum(result == Value("tea") for result in results)
    assert allowed <= ran <= 2 * allowed, errors
    refused = [result for result in results if isinstance(result, Problem)]
    assert {problem.kind for problem in refused} == {Kind.RATE_LIMITED}
    assert ran + len(refused) == 80


def call_often(url: str) -> list[object]:
    session = Session(limits=UNLIMITED)
    with connect_sync(url, protocol="otc", agree=lambda _: True, retries=0, session=session, discovery_s=60) as remote:
        return [remote.call("look", {}) for _ in range(20)]


class Gone:
    """A store that cannot be reached."""

    def take(self, key: str, limit: RateLimit) -> float:
        return float("inf")


def test_process_share_of_a_limit_is_at_least_one_call() -> None:
    check = build_rate_check(Gone(), LocalRates("open", 8, lambda: 7.0))
    tool = Tool(name="look", rate_limit=RateLimit(max=2, window="1m"))

    def denied(principal: str) -> bool:
        return hasattr(check(Call(tool, {}, context=Context(principal=principal))), "problem")

    assert [denied("ada"), denied("ada"), denied("bob")] == [False, True, False]


def test_invalid_rates_setting_is_refused_with_its_allowed_values() -> None:
    with pytest.raises(DefinitionError, match=r"rates_fail must be one of open, closed"):
        asgi(kit(), rates_fail="maybe")  # type: ignore[arg-type]  # a user's mistake
    with pytest.raises(DefinitionError, match="rates_replicas must be at least 1, not"):
        asgi(kit(), rates_replicas=0)


def test_command_line_lists_the_allowed_rates_fail_values() -> None:
    argv = [sys.executable, "-m", "toolwire", "serve", "shop.py", "--rates-fail", "maybe"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "closed-for-destructive" in done.stderr
