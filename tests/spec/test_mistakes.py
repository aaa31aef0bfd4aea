"""The short form of ``make mutants``: mistakes made in the code of one guard, and noticed by its tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mutants import run

ROOT = Path(__file__).resolve().parents[2]


def test_each_mistake_that_changes_nothing_is_one_that_can_be_made() -> None:
    for name, kind, place in run.EQUIVALENT:
        tree = ast.parse((ROOT / "src" / "toolwire" / name).read_text("utf-8"))
        found = [node for node in ast.walk(tree) if kind in run.kinds(node) and run.write_place(node) == place]
        assert len(found) == 1, (name, place)


@pytest.mark.requirement("R19")
def test_mutations_of_security_code_are_detected() -> None:
    command = [sys.executable, "mutants/run.py", "--each", "3", "server/access/api_keys.py"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "3 of 3 mistakes noticed: 100%"), ran.stdout
