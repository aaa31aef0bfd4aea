"""A real partition of the network between a gateway and the server behind it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.requirement("R12")
def test_network_partition_gives_a_problem_in_time_and_recovery_after_it() -> None:
    ip = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    unshare = ["unshare", "--net", *(["--map-root-user"] if os.getuid() else [])]
    if ip is None or subprocess.run([*unshare, ip, "link"], capture_output=True, check=False).returncode:
        pytest.skip("there is no network namespace: a partition needs `ip` and `unshare --net`, as root has them")
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{Path(ip).parent}", "PYTHONPATH": str(ROOT)}
    argv = [*unshare, sys.executable, "-m", "tests.process.partitioned"]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    for protocol, seen in json.loads(done.stdout).items():
        assert seen["before"], protocol
        assert seen["kinds"] == ["unreachable"] * 2, protocol
        assert (seen["through"], seen["near"]) == ([200, False], [200, True]), (protocol, seen)
        assert (seen["after"], seen["left"]) == (True, 0), protocol
    assert "Traceback" not in done.stderr
