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

SCRIPT = Path(__file__).with_name("served.py")


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
