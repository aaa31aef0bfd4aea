"""The Redis that counts the calls of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import RedisServer
from tests.support.waiting import wait_until


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    store = RedisServer(tmp_path)
    try:
        wait_until(store.answers)
        yield store
    finally:
        store.kill()
