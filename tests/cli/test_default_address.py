"""Where a server listens that was told nothing: on this machine alone, at the default port of OpenTool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# An audit event shows the address that the operating system gets. The program ends before it takes the port.
WATCH = """
import os, sys

def stop(event, values):
    if event == "socket.bind" and isinstance(values[1], tuple):
        print("bound", *values[1][:2], flush=True)
        os._exit(0)

sys.addaudithook(stop)
"""
PROGRAMS = {
    "toolwire serve": 'from toolwire.cli import main\nmain(["serve", "tools.py", *{more}])',
    "OpenToolServer": "from toolwire.opentool import OpenToolServer\nfrom tools import Greeter\n"
    "OpenToolServer(Greeter(), **dict(zip(['host', 'port'], {more}[1::2]))).start()",
    "opentool main": "from toolwire.opentool import main\nfrom tools import Greeter\nmain(Greeter, {more})",
}
TOOLS = """
from toolwire import Toolkit

kit = Toolkit("Kit")

@kit.tool
def look() -> str:
    return "tea"

class Greeter:
    def greet(self, name: str) -> str:
        return name

    def call(self, name, arguments):
        return {}

    def load(self):
        return None
"""


def find_address(folder: Path, program: str, *more: str) -> str:
    (folder / "tools.py").write_text(TOOLS)
    code = WATCH + PROGRAMS[program].format(more=list(more))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("bound ")]
    assert lines, done.stderr
    return lines[0].removeprefix("bound ")


@pytest.mark.requirement("S-1", "A-27")
@pytest.mark.parametrize("program", ["toolwire serve", "OpenToolServer", "opentool main"])
def test_server_listens_on_loopback_port_9627_by_default(program: str, tmp_path: Path) -> None:
    assert find_address(tmp_path, program) == "127.0.0.1 9627"


@pytest.mark.requirement("S-1")
def test_another_address_is_used_only_if_an_option_names_it(tmp_path: Path) -> None:
    assert find_address(tmp_path, "toolwire serve", "--host", "127.0.0.2", "--port", "9698") == "127.0.0.2 9698"
