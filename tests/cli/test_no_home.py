"""A user without a home folder and without an entry in the table of users, as in many containers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolwire import Toolkit, asgi
from toolwire.testing import background

pytestmark = [
    pytest.mark.requirement("RE-05"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can run a program as a user that does not exist"),
]
NOBODY = 54_321
SAID = "This user has no home folder. Set HOME, or set TOOLWIRE_STATE and XDG_STATE_HOME to a folder."


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    stored = {name: value for name, value in os.environ.items() if name != "HOME" and not name.startswith("XDG_")}
    # The real user decides about the home; the effective one may still read the files of this Python.
    lines = (
        f"import os, sys; os.chdir({str(folder)!r}); sys.path[:0] = {sys.path!r}; import toolwire.cli.commands.call;"
        f" os.setresuid({NOBODY}, 0, 0); from toolwire.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", lines, *arguments]
    return subprocess.run(argv, env={**stored, **variables}, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    return tmp_path


@pytest.fixture
def site() -> Iterator[str]:
    kit = Toolkit("desk")

    @kit.tool(approval="auto", safe=True)
    def note(text: str) -> str:
        """Note a text."""
        return text

    with background(asgi(kit)) as url:
        yield url


def test_a_call_needs_no_home_and_keeps_nothing(folder: Path, site: str) -> None:
    done = run(folder, "call", site, "note", "text=tea", "--json")
    assert (done.returncode, json.loads(done.stdout)["value"]) == (0, "tea"), done.stderr
    assert done.stderr.count("\n") == 1
    assert f"Decisions are not kept: {SAID}" in done.stderr


@pytest.mark.parametrize("arguments", [("approvals",), ("connections",), ("install", "cursor", "https://a.example")])
def test_a_command_that_needs_a_home_says_so_in_one_sentence(folder: Path, arguments: tuple[str, ...]) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (1, "") or done.returncode == 2
    assert done.stderr == f"toolwire: {SAID}\n"


def test_a_place_that_is_named_needs_no_home(folder: Path) -> None:
    (folder / "kept").mkdir()
    os.chown(folder / "kept", NOBODY, NOBODY)
    (folder / "kept").chmod(0o700)
    done = run(folder, "approvals", TOOLWIRE_STATE=str(folder / "kept"))
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_without_a_folder_for_temporary_files_are_one_sentence(folder: Path) -> None:
    code = (
        "from toolwire.cli import interruption; import tempfile; tempfile.tempdir = '/proc/none'\n"
        "with interruption.open_temporary_folder(): pass"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.endswith("No folder for temporary files is writable. Set TMPDIR to one.")
