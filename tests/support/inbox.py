"""Waiting for what the inbox of a gateway shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.postgres import Postgres, psycopg, shared_postgres  # noqa: F401 - fixtures


def wait_for(find: Callable[[], Any]) -> Any:
    """Return what ``find`` returns as soon as that is something."""
    pause, until = threading.Event(), time.monotonic() + 20
    while not (found := find()):
        assert time.monotonic() < until, "it did not come"
        pause.wait(0.02)
    return found
