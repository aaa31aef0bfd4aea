"""What the tests of the command line share: a file of tools, the same tools served, and a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolwire.cli import main
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget
from toolwire.server import asgi
from toolwire.testing.loopback import background

TOOLS = '''
    import asyncio
    from toolwire import ToolError, Toolkit

    desk = Toolkit("Desk", version="1.2.0", description="Things on a desk.")
    notes = []

    @desk.tool(approval="auto", safe=True)
    def add(a: int, b: int = 1) -> int:
        """Add two numbers.

        Whatever their sizes.
        """
        return a + b

    @desk.tool(approval="auto", safe=True)
    def say(text: str, tags: list[str] | None = None) -> str:
        """Say a text back."""
        return text + "".join(tags or [])

    @desk.tool(approval="per-call", blanket_allowed=True)
    def note(text: str) -> None:
        """Write a note down."""
        notes.append(text)

    @desk.tool(approval="auto", safe=True)
    def noted() -> list[str]:
        """Read the notes."""
        return notes

    @desk.tool(approval="per-call", blanket_allowed=True, destructive=True, cost="credits")
    def shred(pages: list[int]) -> str:
        """Shred [red]pages[/red]."""
        return "shredded"

    @desk.tool(approval="auto", safe=True)
    def fail(reason: str = "") -> int:
        """Fail."""
        if reason:
            raise ToolError(reason, can_retry=True, retry_after_ms=2_500)
        return 1 // 0

    @desk.tool(approval="auto", safe=True)
    async def count(to: int):
        """Count."""
        for number in range(to):
            yield number

    @desk.tool(approval="auto", safe=True, timeout_s=0.05)
    async def late() -> None:
        """Come too late."""
        await asyncio.sleep(60)

    @desk.tool(approval="auto", safe=True)
    async def wait():
        """Say that it has begun, and wait for long."""
        yield "begun"
        await asyncio.sleep(60)
'''
_WAIT_S = 60.0


@dataclass(frozen=True)
class Outcome:
    """How a run of the program ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _own_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test loads is gone after it, and the environment has no settings of the machine's owner."""
    known = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("TOOLWIRE_API_KEYS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    yield
    for name in set(sys.modules) - known:
        if "/" in name or name.startswith("made_for_a_test"):
            del sys.modules[name]


@pytest.fixture
def toolwire(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the program in this process."""

    def run(*argv: str) -> Outcome:
        capfd.readouterr()
        with contextlib.chdir("."):  # a command about a gateway works in the folder of its file
            code = main([str(word) for word in argv])
        reply = capfd.readouterr()
        return Outcome(code, reply.out, reply.err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a Python file into the test's own folder."""

    def write_file(name: str, text: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    return write_file


@pytest.fixture
def desk(write: Callable[..., Path]) -> Path:
    """A file with a toolkit in it."""
    return write("desk.py", TOOLS)


@pytest.fixture
def site(desk: Path) -> Iterator[str]:
    """The URL where the tools of ``desk`` are served."""
    with background(asgi(open_code(FileTarget(desk)))) as url:
        yield url


class Terminal:
    """The program at a terminal of its own; ``shown`` is every byte it has put there so far."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "toolwire", *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""

    def wait_for(self, text: bytes) -> None:
        """Read until ``text`` is shown."""
        until = time.monotonic() + _WAIT_S
        while text not in self.shown:
            assert time.monotonic() < until, f"{text!r} is not in {self.shown!r}"
            assert self._read(), f"{text!r} is not in {self.shown!r}, and the program has ended"

    def type(self, text: str) -> None:
        """Type ``text`` and Enter."""
        os.write(self._ours, f"{text}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C; the terminal is not the program's own, so the signal is sent to it."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            pass
        return self._process.wait(_WAIT_S)

    def close(self) -> None:
        """End the program, if it still runs."""
        self._process.kill()
        self._process.wait(_WAIT_S)
        os.close(self._ours)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], _WAIT_S)
        assert ready, f"nothing more came after {self.shown!r}"
        try:
            piece = os.read(self._ours, 65_536)
        except OSError:  # the way a terminal ends on Linux
            return False
        self.shown += piece
        return bool(piece)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Start the program at a terminal: ``terminal("tools", file, NO_COLOR="1")``."""
    started: list[Terminal] = []

    def start(*argv: object, **environment: str) -> Terminal:
        started.append(Terminal([str(word) for word in argv], environment))
        return started[-1]

    yield start
    for each in started:
        each.close()
