"""Which servers share their limits if all of them use one Redis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.limits.counted_shop import count_run, kit
from tests.postgres import Postgres, shared_postgres
from tests.programs import RedisServer
from toolwire import App, asgi

__all__ = ["shared_postgres"]  # a fixture

pytestmark = pytest.mark.requirement("XL-066", "CR-01")


@pytest.fixture(params=["wake and folders", "rates and databases"])
def build(request: pytest.FixtureRequest, redis: RedisServer, tmp_path: Path) -> Callable[[str], App]:
    """Return a function that returns the application of a server that has a state of this name."""
    url = f"redis://127.0.0.1:{redis.port}"
    if request.param == "wake and folders":
        pytest.importorskip("docket", reason="pydocket is not here: install toolwire[docket] to prove this")
        return lambda name: asgi(kit(), wake=url, state=str(tmp_path / name))
    postgres: Postgres = request.getfixturevalue("shared_postgres")
    places = {name: postgres.create_database() for name in ("first", "other")}
    return lambda name: asgi(kit(), rates=url, state=places[name])


def test_servers_of_other_states_count_for_themselves(build: Callable[[str], App]) -> None:
    assert count_run(build("first"), "look", 20) == (20, 0, 0)
    assert count_run(build("other"), "look", 30) == (30, 0, 0)
    assert count_run(build("first"), "look", 20) == (10, 10, 0)


def test_hosts_that_share_no_state_share_the_redis_that_is_named_for_rates(redis: RedisServer, tmp_path: Path) -> None:
    url = f"redis://127.0.0.1:{redis.port}"
    states = (str(tmp_path / "state"), "memory")
    assert [count_run(asgi(kit(), rates=url, state=state), "look", 20) for state in states] == [(20, 0, 0), (10, 10, 0)]
