"""The watch over every test does find a secret, wherever a test lets it out; ``tests/canaries.py`` is the watch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import canaries
from toolwire import Secret

ROOT = Path(__file__).parents[2]
LEAKS = {
    "print": "print(SECRET())",
    "standard_error": "print(SECRET(), file=sys.stderr)",
    "log": "logging.getLogger('any').warning('it is %s', SECRET())",
    "database": "c = sqlite3.connect(tmp_path / 'a.db'); c.execute('CREATE TABLE t (x)');"
    " c.execute('INSERT INTO t VALUES (?)', (SECRET(),)); c.commit(); c.close()",
    "process": "subprocess.run([sys.executable, '-c', 'print(' + repr(SECRET()) + ')'], capture_output=True)",
    "environment": "subprocess.run([sys.executable, '-c', 'import os; print(os.environ)'], capture_output=True)",
    "captured": "print(SECRET()); capsys.readouterr()",
    "repr": "print([{'key': SECRET()}])",
}
FINE = {
    "kept": "SECRET()",
    "masked": "print(Secret('canary-0a1b2c3d'))",
    "file": "(tmp_path / 'key').write_text(SECRET())",
}


@pytest.mark.requirement("R20", "D-26")
def test_canary_check_detects_each_leak_and_nothing_else(tmp_path: Path) -> None:
    lines = ["import logging, sqlite3, subprocess, sys", "from toolwire import Secret", ""]
    lines += ["def SECRET():", "    return Secret('canary-0a1b2c3d').reveal()", ""]
    for name, body in {**LEAKS, **FINE}.items():
        lines += [f"def test_{name}(tmp_path, capsys):", f"    {body}", ""]
    (tmp_path / "test_leaks.py").write_text("\n".join(lines))
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={ROOT}"]
    done = subprocess.run([*argv, str(tmp_path)], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False)
    found = set(re.findall(r"ERROR at teardown of test_(\w+)", done.stdout))
    canaries.forget()  # those of that run are meant
    assert found == set(LEAKS)


@pytest.mark.requirement("R20")
def test_contents_of_a_store_can_be_checked_for_canaries() -> None:
    secret = Secret("canary-4e5f6a7b")
    canaries.check_text("a dump", "nothing of it")
    with pytest.raises(AssertionError, match="a secret stands in a dump"):
        canaries.check_text("a dump", f"key {secret.reveal()}")
