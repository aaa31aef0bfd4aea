"""The program as a whole: it starts light, ends with the right code, and is quiet when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import __version__
from toolwire.protocols import BUILTIN

pytestmark = pytest.mark.real_start

HEAVY = ["anyio", "asyncio", "jsonschema_rs", "orjson", "pydantic", "httptools", "rich", "uvicorn"]


def start(*argv: object, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    words = [str(word) for word in argv]
    return subprocess.Popen([sys.executable, "-m", "toolwire", *words], stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("argv", [["--help"], ["serve", "--help"], ["call", "--help"], ["--version"], []])
def test_help_imports_no_heavy_modules(argv: list[str]) -> None:
    code = (
        "import json, sys\n"
        "from toolwire.cli import main\n"
        f"main({argv!r})\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_help_lists_commands_targets_and_exit_codes(toolwire: Callable[..., Any]) -> None:
    outcome = toolwire("--help")
    assert outcome.code == 0
    for words in ("serve", "tools", "call", "explain", "file.py:name", "3 denied"):
        assert words in outcome.out


def test_help_names_every_protocol(toolwire: Callable[..., Any]) -> None:
    text = " ".join(toolwire("tools", "--help-all").out.split())
    assert all(codec.name in text for codec in BUILTIN)


def test_version_option_prints_the_package_version(toolwire: Callable[..., Any]) -> None:
    assert toolwire("--version").out == f"toolwire {__version__}\n"


@pytest.mark.parametrize("module", ["toolwire", "toolwire.cli"])
def test_program_can_be_run_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"toolwire {__version__}\n".encode())


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["unknown"],
        ["--unknown"],
        ["tools"],
        ["tools", "a.py", "b.py"],
        ["tools", "a.py", "--unknown"],
        ["call", "a.py"],
        ["call", "a.py", "add", "--unknown", "a=1"],
        ["serve", "a.py", "--port", "x"],
        ["serve", "a.py", "--port", "65536"],
        ["serve", "a.py", "--workers", "0"],
        ["tools", "localhost:1", "--key", "a", "--key-env", "b"],
    ],
)
def test_invalid_command_line_gives_exit_code_2(argv: list[str], toolwire: Callable[..., Any]) -> None:
    outcome = toolwire(*argv)
    assert (outcome.code, outcome.out) == (2, "")
    assert "usage: toolwire" in outcome.err or "--help` lists" in outcome.err


SLOW = """
    import asyncio
    import time
    from toolwire import Toolkit

    slow = Toolkit("Slow")

    @slow.tool(approval="auto")
    async def wait() -> None:
        print("begun", flush=True)
        await asyncio.sleep(60)

    @slow.tool(approval="auto")
    def hold() -> None:
        print("begun", flush=True)
        time.sleep(60)

    @slow.tool(approval="auto", inline=True)
    def block() -> None:
        print("begun", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("tool", ["wait", "hold", "block"])
def test_one_ctrl_c_ends_a_call_quietly_with_130(write: Callable[..., Path], tool: str) -> None:
    process = start("call", write("slow.py", SLOW), tool)
    assert process.stderr is not None
    assert process.stderr.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_ctrl_c_at_a_question_denies_the_call(desk: Path, terminal: Callable[..., Any]) -> None:
    at = terminal("call", desk, "shred", "pages=1")
    at.wait_for(b"Type shred yes to call it: ")
    at.interrupt()
    assert at.end() == 130
    assert b"shredded" not in at.shown
    assert b"Traceback" not in at.shown


def test_closed_reader_causes_no_traceback(desk: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = start("tools", desk, "--json", stdout=theirs)
    os.close(theirs)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (141, b"")


def test_a_terminal_that_lacks_a_character_is_no_error(desk: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toolwire", "call", str(desk), "say", "text=é"],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"\\xe9\n", b"")


@pytest.mark.parametrize("module", ["toolwire.cli.program", "toolwire.hosting.settings", "toolwire.cli.commands.tools"])
def test_interrupt_while_code_loads_ends_the_program_without_a_traceback(module: str) -> None:
    code = (
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from toolwire.cli import main\n"
        "main(['tools', 'http://127.0.0.1:1'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_interrupt_handler_of_a_program_that_calls_main_stays() -> None:
    code = (
        "import signal\n"
        "from toolwire.cli import main\n"
        "print(main(['example', '--list']), signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
        "def handle(*_): pass\n"
        "signal.signal(signal.SIGINT, handle)\n"
        "print(main(['example', '--list']), signal.getsignal(signal.SIGINT) is handle)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert [line for line in done.stdout.splitlines() if line.startswith("0 ")] == ["0 True", "0 True"]
