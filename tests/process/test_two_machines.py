"""Two machines that share a database: each fault of a machine, of a link or of the database, with callers meanwhile.

``TOOLWIRE_KILLS`` says how often a machine is killed (``make machines``: 200 times); the figures are printed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.killed_server import KILLS, SOON_S
from tests.programs import require_postgres

from .amounts import report

ROOT = Path(__file__).parents[2]
ISOLATED = ("unshare", "--net", "--mount", "--pid", "--time", "--fork", "--kill-child", "--mount-proc")
OTHERS = ["cut", "database-killed", "database-hangs", "disk-full"]
OTHERS += ["disk-fails"] if shutil.which("cc") else []
FAULTS = ["kill", "power"] * max(KILLS // 2, 1) + OTHERS


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What callers saw, by fault."""
    require_postgres("initdb")
    ip = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if ip is None or os.getuid() or subprocess.run([*ISOLATED, ip, "link"], capture_output=True).returncode:  # noqa: PLW1510
        pytest.skip(
            "there are no namespaces: two machines need `ip` and `unshare --net --mount --pid --time`, as root has them"
        )
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{Path(ip).parent}", "PYTHONPATH": str(ROOT)}
    argv = [*ISOLATED, sys.executable, "-m", "tests.process.two_machines", *FAULTS]
    errors = tmp_path_factory.mktemp("machines") / "errors.txt"
    with errors.open("wb") as stderr:
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            check=False,
            timeout=240 + 15 * KILLS,
        )
    assert done.returncode == 0, errors.read_text()
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def check(seen: dict[str, dict[str, Any]], fault: str) -> dict[str, Any]:
    """Return what callers saw of ``fault``: no call was lost or doubled, and all of both kinds went on after it."""
    mine = seen[fault]
    assert (mine["lost"], mine["doubled"]) == ([], [])
    assert mine["calls"] > mine["long_calls"] > 0
    assert not KILLS or mine["back_s"] <= SOON_S
    figures = {name: figure for name, figure in mine.items() if name not in ("lost", "doubled")}
    report("ST-02", "machines", **{f"{fault} {name}": figure for name, figure in figures.items()})
    report("ST-02", "machines", **{f"{fault} faults": FAULTS.count(fault), f"{fault} lost": 0, f"{fault} doubled": 0})
    return mine


@pytest.mark.requirement("ST-02", "LC-03", "LC-04", "R2")
def test_machine_whose_processes_are_all_killed_loses_and_doubles_no_call(seen: dict[str, Any]) -> None:
    assert check(seen, "kill")["sent_again"] > 0


@pytest.mark.requirement("ST-02", "LC-03", "LC-04", "R2")
def test_machine_that_vanishes_without_a_packet_loses_and_doubles_no_call(seen: dict[str, Any]) -> None:
    assert check(seen, "power")["sent_again"] > 0


@pytest.mark.requirement("ST-02", "ST-05", "LC-03", "LC-04", "R12")
def test_machine_cut_off_from_the_database_refuses_calls_and_loses_none(seen: dict[str, Any]) -> None:
    assert check(seen, "cut")["refused"] > 0


@pytest.mark.requirement("ST-02", "ST-05", "LC-03", "LC-04", "R11")
def test_killed_database_of_two_machines_loses_no_call(seen: dict[str, Any]) -> None:
    assert check(seen, "database-killed")["refused"] > 0


@pytest.mark.requirement("ST-02", "ST-05", "LC-03", "LC-04", "R11")
def test_database_that_hangs_for_longer_than_a_lease_loses_no_call(seen: dict[str, Any]) -> None:
    assert check(seen, "database-hangs")["refused"] > 0


@pytest.mark.requirement("ST-02", "ST-05", "LC-03", "LC-04", "R13")
def test_full_disk_of_the_database_refuses_calls_and_loses_none(seen: dict[str, Any]) -> None:
    assert check(seen, "disk-full")["refused"] > 0


@pytest.mark.requirement("ST-02", "ST-05", "LC-03", "LC-04", "R11", "R13")
@pytest.mark.skipif("disk-fails" not in FAULTS, reason="no C compiler is here, which makes a disk that fails")
def test_failing_disk_of_the_database_refuses_calls_and_loses_none(seen: dict[str, Any]) -> None:
    assert check(seen, "disk-fails")["refused"] > 0
