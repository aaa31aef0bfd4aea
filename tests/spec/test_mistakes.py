"""The short form of ``make mutants``: mistakes made in the code of one guard, and noticed by its tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.requirement("R19")
def test_mutations_of_security_code_are_detected() -> None:
    command = [sys.executable, "mutants/run.py", "--each", "2", "server/run/confirmation.py"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "2 of 2 mistakes noticed: 100%"), ran.stdout
