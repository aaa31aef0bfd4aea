"""A signal ends a command at any moment, with its exit code, and leaves no folder behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from toolwire import connect_sync
from toolwire.core.model import Value

KIT = """
import asyncio, os, signal
from toolwire import Toolkit

kit = Toolkit("Kit")


@kit.tool(approval="auto", long=True)
async def report() -> int:
    return 1


@kit.tool(approval="auto", safe=True)
async def rest(name: str) -> str:
    open(name, "x").close()
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)
    return "rested"


number = int(os.environ.get("SIGNAL_OF_A_TEST", "0"))
if number:
    os.kill(os.getpid(), number)
"""
COMMANDS = {
    "serve": ["serve", "kit.py", "--port", "0"],
    "several processes": ["serve", "kit.py", "--port", "0", "--workers", "2"],
    "reload": ["serve", "kit.py", "--port", "0", "--reload"],
    "standard input": ["serve", "kit.py", "--stdio"],
    "gateway": ["gateway", "run"],
    "work": ["work", "kit.py", "--state", "kept"],
    "list": ["tools", "kit.py"],
    "call": ["call", "kit.py", "report"],
}
_WAIT_S = 60


@pytest.fixture(autouse=True)
def hear_hangups() -> Iterator[None]:
    """Let the programs hear SIGHUP, also where the tests themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def start(tmp_path: Path, write: Callable[..., Path]) -> Callable[..., subprocess.Popen[str]]:
    """Start the program in a folder with a toolkit; its temporary files are in the folder ``temporary``."""
    write("kit.py", KIT)
    (tmp_path / "toolwire.toml").write_text('port = 0\n[upstreams.own]\ntarget = "kit.py"\n', encoding="utf-8")
    (tmp_path / "temporary").mkdir()

    def run(words: list[str], number: int = 0) -> subprocess.Popen[str]:
        own = {"TMPDIR": str(tmp_path / "temporary"), "XDG_STATE_HOME": str(tmp_path / "state")}
        return subprocess.Popen(
            [sys.executable, "-m", "toolwire", *words],
            cwd=tmp_path,
            env={**os.environ, **own, "TOOLWIRE_SETTINGS": "off", "SIGNAL_OF_A_TEST": str(number)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return run


@pytest.mark.requirement("CL-03")
@pytest.mark.parametrize(
    ("command", "number"),
    [
        (command, number)
        for command in COMMANDS
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        # SIGHUP renews these: see tests/cli/test_gateway.py.
        if number is not signal.SIGHUP or command not in ("gateway", "several processes")
    ],
)
def test_signal_while_the_tools_are_loaded_ends_the_command_and_leaves_no_folder(
    command: str, number: signal.Signals, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    with start(COMMANDS[command], number) as process:
        reply, _ = process.communicate(timeout=_WAIT_S)
    assert process.returncode == (130 if number is signal.SIGINT else -number), reply
    assert "Traceback" not in reply
    assert os.listdir(tmp_path / "temporary") == []


@pytest.mark.requirement("CL-03", "ST-03")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_worker_ends_in_order_when_its_terminal_closes(
    number: signal.Signals, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    with start(COMMANDS["work"]) as process:
        assert process.stdout is not None
        while "Ctrl-C" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(_WAIT_S) == 0
    assert os.listdir(tmp_path / "temporary") == []


def read_url(process: subprocess.Popen[str]) -> str:
    """Return the address that the server announces."""
    assert process.stdout is not None
    url = ""
    for line in iter(process.stdout.readline, ""):
        if line.startswith("URL "):
            url = line.split()[1]
        if "Ctrl-C" in line:
            break
    assert url, process.poll()
    return url


@pytest.mark.requirement("CL-03")
@pytest.mark.parametrize("command", ["serve", "reload"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_server_finishes_its_calls_when_its_terminal_closes(
    number: signal.Signals, command: str, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    with start(COMMANDS[command]) as process, ThreadPoolExecutor(1) as others:
        url = read_url(process)
        with connect_sync(url) as remote:
            result = others.submit(remote.call, "rest", {"name": "begun"})
            wait_until(lambda: process.poll() is not None or (tmp_path / "begun").exists())
            assert process.poll() is None
            for _ in range(2 if number is signal.SIGHUP else 1):  # the shell and the system both send it
                process.send_signal(number)
            (tmp_path / "go").touch()
            assert result.result(_WAIT_S) == Value("rested")
        assert process.wait(_WAIT_S) == 0
    assert os.listdir(tmp_path / "temporary") == []


@pytest.mark.requirement("CL-03")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_server_on_standard_input_finishes_its_calls_when_its_host_is_gone(
    number: signal.Signals, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    with start(COMMANDS["standard input"]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        call = {"name": "rest", "arguments": {"name": "begun"}}
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
        ):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        wait_until(lambda: process.poll() is not None or (tmp_path / "begun").exists())
        assert process.poll() is None
        process.send_signal(number)
        (tmp_path / "go").touch()
        assert "rested" in process.stdout.read()
        assert process.wait(_WAIT_S) == 0


@pytest.mark.requirement("CL-03")
def test_server_that_ignores_the_end_of_its_terminal_goes_on(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does, for the programs that it starts
    try:
        process = start(COMMANDS["serve"])
    finally:
        signal.signal(signal.SIGHUP, before)
    with process:
        url = read_url(process)
        process.send_signal(signal.SIGHUP)
        with connect_sync(url) as remote:
            assert any(one["name"] == "rest" for one in remote.definitions())
        process.send_signal(signal.SIGTERM)
        assert process.wait(_WAIT_S) == 0
