"""What a machine lacks: the tests install it where they can, go on without it, and say once what did not run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("sh", "cat", "chmod", "cmp", "cp", "dirname", "id", "ls", "mkdir", "rm", "timeout")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with the programs that every machine has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def run_redis_tests(bare: Path, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TOOLWIRE"))}
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/process/test_outages.py"]
    argv += ["tests/limits/test_workers.py", "-k", "redis"]
    done = subprocess.run(
        argv, cwd=ROOT, env={**environment, "PATH": str(bare), **more}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_skipped_programs_are_named_once_at_the_end_with_the_remedy(bare: Path) -> None:
    reply = run_redis_tests(bare)
    assert reply.count("there is no redis-server") == 1
    last = next(line for line in reply.splitlines()[::-1] if line.startswith("Not run: "))
    assert "install the package redis-server" in last


def test_make_test_collects_skipped_programs_for_its_last_line(bare: Path, tmp_path: Path) -> None:
    collected = tmp_path / "not-run.txt"
    assert "redis-server" not in run_redis_tests(bare, TOOLWIRE_NOT_RUN=str(collected))
    assert [line.partition(":")[2][:27] for line in collected.read_text().splitlines()] == [
        " there is no redis-server: "
    ]
    assert 'sort -u "$TOOLWIRE_NOT_RUN"' in (ROOT / "tests" / "run.sh").read_text(encoding="utf-8")


def test_test_run_continues_if_nothing_can_be_installed(bare: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for folder in ("conformance", "clients", "openid"):
        shutil.copytree(ROOT / "tests" / "interop" / folder, checkout / "tests" / "interop" / folder)
    frameworks = "adapters/frameworks"
    shutil.copytree(ROOT / "tests" / frameworks, checkout / "tests" / frameworks)
    shutil.copytree(ROOT / "examples" / "hono", checkout / "examples" / "hono")
    shutil.copy(ROOT / "tests" / "install.sh", checkout / "tests")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, checkout)
    done = subprocess.run(
        [checkout / "tests" / "install.sh"], env={"PATH": str(bare)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip or npm could not install the MCP conformance suite" in done.stdout.splitlines()
    assert "pip or npm could not install the MCP clients of other makers" in done.stdout.splitlines()
    assert "pip could not download the wheels of images" in done.stdout.splitlines()
    assert "pip or npm could not install the frameworks of agents" in done.stdout.splitlines()
    assert "npm could not install the packages of examples/hono" in done.stdout.splitlines()
    (bare / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    (bare / "apt-get").chmod(0o755)
    done = subprocess.run(
        [checkout / "tests" / "install.sh"], env={"PATH": str(bare)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    if os.getuid() == 0:
        assert any(line.startswith("apt-get could not install all of: ") for line in done.stdout.splitlines())


FLAKY = """
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range({flaky}))
def test_passes_the_second_time(number):
    seen = Path(f"seen-{{number}}")
    if not seen.exists():
        seen.touch()
        raise AssertionError


def test_passes():
    assert True
"""


@pytest.mark.parametrize(("flaky", "code"), [(2, 0), (4, 1)])
def test_run_names_up_to_three_tests_that_passed_only_alone(tmp_path: Path, flaky: int, code: int) -> None:
    for folder in ("process", "crossings"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    (tmp_path / "newcomer").mkdir()
    for name in ("run.sh", "pythons.sh"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "newcomer" / "walk.py").write_text("print('walked')\n")
    (tmp_path / "tests" / "process" / "test_processes.py").write_text("def test_passes():\n    assert True\n")
    (tmp_path / "tests" / "test_flaky.py").write_text(FLAKY.format(flaky=flaky))
    command = [tmp_path / "tests" / "run.sh", Path(sys.executable).parent.parent]
    # Of the plugins, this needs one; each of the processes would load all of them.
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist"}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | plugins, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "walked" in done.stdout
    named = [line for line in done.stdout.splitlines() if line.startswith("unstable: ")]
    assert len(named) == (flaky if code == 0 else 0)
    assert all("test_flaky.py::test_passes_the_second_time" in line for line in named)
