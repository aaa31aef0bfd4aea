"""The platform of ``examples/platform`` on a real PostgreSQL: each of its steps comes out as it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import ROOT
from tests.support.postgres import cluster  # noqa: F401 - a fixture: a server

psycopg = pytest.importorskip("psycopg", reason="psycopg is not here: install toolwire[postgres] to prove this")


@pytest.mark.timeout(600)
@pytest.mark.requirement("PL-02", "PL-04", "PL-06", "PL-07")
def test_platform_of_two_gateways_comes_through_all_its_steps(cluster: Path) -> None:  # noqa: F811 - the fixture
    places = []
    with psycopg.connect(host=str(cluster), user="toolwire", dbname="postgres", autocommit=True) as connection:
        for name in ("platform", "restored"):
            connection.execute(f"CREATE DATABASE {name}".encode())
            places.append(f"postgresql://toolwire@/{name}?host={cluster}")
    command = [sys.executable, "-m", "examples.platform", "--state", places[0], "--restored", places[1]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("Everything came out as it should.\n")
