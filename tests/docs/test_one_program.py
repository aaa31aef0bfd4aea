"""The line of ``deploy.md`` makes one program of an application, which serves every protocol without a Python."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.programs import find_free_port
from tests.support.proxies import run_program
from toolwire import Value, connect_sync

from .page import ROOT

CACHE = ROOT / ".cache/pyinstaller"
FITS = any((CACHE / "pydantic_core").glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
APP = """import sys

from toolwire import Toolkit

kit = Toolkit("Sums")


@kit.tool(approval="auto", safe=True)
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b


@kit.tool(approval="per-call", long=True)
def report(year: int) -> str:
    \"\"\"Write a report.\"\"\"
    return f"report of {year}"


if __name__ == "__main__":
    kit.run("http", port=int(sys.argv[1]), state="state")
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that PyInstaller made where nothing but toolwire and what it needs is installed."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "app.py").write_text(APP)
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv/lib").glob("python3*/site-packages")
    (packages / "packages.pth").write_text(f"{CACHE}\n{ROOT / 'src'}\n")
    (line,) = re.findall(r"^pyinstaller (.*)$", (ROOT / "docs/how-to/deploy.md").read_text(), re.MULTILINE)
    python = folder / "venv/bin/python"
    made = subprocess.run(
        [python, "-m", "PyInstaller", *shlex.split(line)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr[-2_000:]
    return folder / "dist/app/app"


@pytest.mark.requirement("RE-06")
@pytest.mark.skipif(
    not FITS or not (CACHE / "installed.txt").exists(),
    reason=f"there is no PyInstaller for CPython {sys.version_info[0]}.{sys.version_info[1]}: "
    "`make test` installs one with pip, which needs a network",
)
def test_program_of_pyinstaller_serves_every_protocol(program: Path, tmp_path: Path) -> None:
    port = find_free_port()
    with run_program([str(program), str(port)], port, tmp_path):
        for protocol in ("opentool", "otc", "openapi", "mcp"):
            with connect_sync(
                f"http://127.0.0.1:{port}", protocol=protocol, agree=lambda _: True, approve=lambda _: True
            ) as remote:
                assert remote.call("add", {"a": 1, "b": 2}) == Value(3)
                assert remote.call("report", {"year": 2026}) == Value("report of 2026")
