"""Standard output that cannot be written: one exit code, at most one sentence, and never a traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

FULL = Path("/dev/full")
SAID_FULL = b"toolwire: Cannot write the output: No space left on device.\n"
WAIT_S = 60.0

COMMANDS: dict[str, tuple[str, ...]] = {
    "help": ("--help",),
    "help of a command": ("tools", "--help"),
    "version": ("--version",),
    "tools": ("tools", "{desk}"),
    "tools, JSON": ("tools", "{desk}", "--json"),
    "tools of a URL": ("tools", "{site}"),
    "call": ("call", "{desk}", "add", "a=1"),
    "call, JSON": ("call", "{desk}", "add", "a=1", "--json"),
    "call of a URL": ("call", "{site}", "say", "text=hello"),
    "explain": ("explain", "{site}"),
    "explain, JSON": ("explain", "{site}", "--json"),
    "check": ("check", "{document}", "--json"),
    "convert": ("convert", "{desk}", "--to", "opentool"),
    "conform": ("conform", "{site}", "--json"),
    "size": ("size", "{desk}", "--json"),
    "lock": ("lock", "{site}", "--file", "{folder}/locked"),
    "connections": ("connections", "--json"),
    "approvals": ("approvals", "list", "--path", "{folder}"),
}

Run = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def run(desk: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Start a command, with the places in its words filled in."""
    document = tmp_path / "openapi.json"
    paths = {"/notes": {"get": {"operationId": "read_notes", "responses": {"200": {"description": "Notes."}}}}}
    document.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": paths}))

    def start(words: tuple[str, ...], stdout: int, **more: int) -> subprocess.Popen[bytes]:
        site = request.getfixturevalue("site") if "{site}" in words else ""
        filled = [word.format(desk=desk, site=site, document=document, folder=tmp_path) for word in words]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        command = [sys.executable, "-m", "toolwire", *filled]
        return subprocess.Popen(command, stdout=stdout, env=environment, **{"stderr": subprocess.PIPE, **more})

    return start


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    ours, theirs = os.pipe()
    os.close(ours)
    yield theirs
    os.close(theirs)


@pytest.fixture
def full() -> Iterator[int]:
    if not FULL.exists():
        pytest.skip("this machine has no /dev/full")
    with ExitStack() as stack:
        yield stack.enter_context(FULL.open("wb")).fileno()


@pytest.mark.parametrize("name", COMMANDS)
def test_closed_output_pipe_ends_a_command_with_141(run: Run, unread: int, name: str) -> None:
    process = run(COMMANDS[name], unread)
    _, reply = process.communicate(timeout=WAIT_S)
    assert (process.returncode, reply) == (141, b"")


@pytest.mark.parametrize("name", COMMANDS)
def test_full_disk_on_output_ends_a_command_with_1(run: Run, full: int, name: str) -> None:
    process = run(COMMANDS[name], full)
    _, reply = process.communicate(timeout=WAIT_S)
    assert (process.returncode, reply) == (1, SAID_FULL)


def test_closed_standard_output_is_reported_before_running(desk: Path) -> None:
    command = f'exec "{sys.executable}" -m toolwire call "{desk}" fail reason=ran >&-'
    done = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, timeout=WAIT_S, check=False)
    reply = b"toolwire: Standard output is closed. Redirect it to a file or to /dev/null.\n"
    assert (done.returncode, done.stderr) == (1, reply)


def test_closed_standard_input_and_error_keep_the_exit_code(desk: Path) -> None:
    command = f'exec "{sys.executable}" -m toolwire call "{desk}" shred "pages=[1]" <&- 2>&-'
    done = subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout) == (3, b"")


@pytest.mark.parametrize("stderr", ["unread", "full"])
def test_unwritable_error_message_keeps_the_exit_code(run: Run, request: pytest.FixtureRequest, stderr: str) -> None:
    process = run(("call", "{desk}", "nothing"), subprocess.PIPE, stderr=request.getfixturevalue(stderr))
    out, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (2, b"")


@pytest.mark.parametrize("stdout", ["unread", "full"])
def test_server_continues_if_its_output_is_not_read(run: Run, request: pytest.FixtureRequest, stdout: str) -> None:

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("serve", "{desk}", "--port", str(port), "--access-log")
    process = run(words, request.getfixturevalue(stdout))
    try:
        for _ in range(2):
            assert answer(f"http://127.0.0.1:{port}/api/add?a=1&b=2", process) == 3
    finally:
        process.terminate()
        _, reply = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert b"Traceback" not in reply
    assert b"Logging error" not in reply
    assert b"The server continues at" in reply


def answer(url: str, process: subprocess.Popen[bytes]) -> object:
    """Return what ``url`` says, once the server listens."""
    while True:
        try:
            with urllib.request.urlopen(url, timeout=WAIT_S) as response:
                return json.loads(response.read())
        except ConnectionError:
            pass
        except OSError as error:
            if not isinstance(getattr(error, "reason", None), ConnectionError):
                raise
        assert process.poll() is None, "the server has ended"
