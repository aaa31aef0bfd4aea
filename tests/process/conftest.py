"""A real server process for each test that asks for one; none of them outlives its test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .peer import Running

HERE = Path(__file__).parent
SCRIPT = HERE / "served.py"
SLOWEST = ("kills", "two_machines", "engines", "work", "stopping", "long_call_kills", "soak", "workers", "hostile")
"""The files that take longest. They begin first, so that of two processes none works on alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def find_place(item: pytest.Item) -> int:
        name = item.path.stem.removeprefix("test_")
        return SLOWEST.index(name) if item.path.parent == HERE and name in SLOWEST else len(SLOWEST)

    items.sort(key=find_place)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a server: ``start(deadlines={...}, limits={...}, workers=2)``; see ``served.py`` for the options."""
    started: list[Running] = []

    def begin(**options: Any) -> Running:
        errors = tmp_path / f"errors-{len(started)}.txt"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), json.dumps(options)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        started.append(Running(process, errors))
        return started[-1]

    try:
        yield begin
    finally:
        for running in started:
            running.end()
