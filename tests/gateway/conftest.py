"""Fixtures of several tests of gateways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.webhooks import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.gate.set()
    made.server.shutdown()
    made.server.server_close()
