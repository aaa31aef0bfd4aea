"""The platform of ``examples/platform`` on a real PostgreSQL: each of its steps comes out as it should."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.docs.page import ROOT
from tests.postgres import Postgres, shared_postgres  # noqa: F401 - the fixture


@pytest.mark.timeout(600)
@pytest.mark.requirement("PL-02", "PL-04", "PL-06", "PL-07")
def test_platform_of_two_gateways_comes_through_all_its_steps(shared_postgres: Postgres) -> None:  # noqa: F811 - the fixture
    places = [shared_postgres.create_database() for _ in range(2)]
    command = [sys.executable, "-m", "examples.platform", "--state", places[0], "--restored", places[1]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("Everything came out as it should.\n")
