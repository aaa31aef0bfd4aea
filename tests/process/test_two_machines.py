"""Two machines that share a ledger: one is killed, one is cut off from the database, and their clocks differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require_postgres

ROOT = Path(__file__).parents[2]


@pytest.mark.requirement("ST-02")
def test_lost_machine_or_database_connection_loses_and_doubles_no_call() -> None:
    require_postgres("initdb")
    ip = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if ip is None or os.getuid() or subprocess.run(["unshare", "--net", ip, "link"], capture_output=True).returncode:  # noqa: PLW1510
        pytest.skip("there are no network namespaces: two machines need `ip` and `unshare --net`, as root has them")
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{Path(ip).parent}", "PYTHONPATH": str(ROOT)}
    argv = ["unshare", "--net", sys.executable, "-m", "tests.process.two_machines"]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
