"""Run the blocks of a page of the documentation, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import runpy
import select
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.adapters.frameworks.packages import CACHE, QUIET
from tests.support.started_server import wait_until_answered
from toolwire.cli import main

from .blocks import Block, matches_output, read_steps

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(path for folder in ("docs", "news") for path in (ROOT / folder).rglob("*.md"))])
WAIT_S = 60.0
_LANGUAGES = {"python", "console", "text", "json", "toml", "ts"}
FASTMCP = ROOT / ".cache" / "mcp-clients" / "fastmcp"
_PEER = "peer "
FRAMEWORKS = {"frameworks", "crewai"}
"""Where a block runs that needs frameworks of agents: the folders of their packages."""
_NOT_RUN = {"git", "cd", "source", "pip"}
_QUESTIONS = (b"[y/N] ", b"you> ")


class Page:
    """Runs the blocks of one page, in order. Its ports (96..) stand for free ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports: dict[str, str] = {}
        self._servers: dict[str, subprocess.Popen[str]] = {}
        self._code = 0
        (folder / "examples").symlink_to(ROOT / "examples")

    def run(self, block: Block) -> str:
        """Run a Python block, saved under its name if it has one; return its output."""
        is_framework = block.name in FRAMEWORKS
        name = block.name if block.name and not is_framework else f"block_at_line_{block.line}.py"
        file = self._folder / name
        file.write_text(self._replace_ports(block.text), encoding="utf-8")
        if is_framework:
            return self._run_with_framework(file, block.name)
        printed = io.StringIO()
        with self._enter_folder({}), contextlib.redirect_stdout(printed):
            runpy.run_path(str(file), run_name="__main__")
        return printed.getvalue()

    def run_peer(self, block: Block) -> str | None:
        """Run the program of another library in a process of its own; return its output.

        None: it needs FastMCP, which is not installed here, so that it is only compiled.
        """
        name = block.name.removeprefix(_PEER)
        text = self._replace_ports(block.text)
        (self._folder / name).write_text(text, encoding="utf-8")
        compile(text, name, "exec")
        if "fastmcp" in name and not FASTMCP.is_dir():
            return None
        own = {"PYTHONPATH": str(FASTMCP)} if "fastmcp" in name else {}
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", name],
            cwd=self._folder,
            env=self._build_environment(own),
            stdin=subprocess.DEVNULL,  # a server on standard input ends at once
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def _run_with_framework(self, file: Path, packages: str) -> str:
        """Run a block with the packages of frameworks of agents, which are not in the environment of the tests."""
        paths = os.pathsep.join(map(str, (CACHE / packages, ROOT / "src", self._folder)))
        ran = subprocess.run(
            [sys.executable, "-S", str(file)],
            cwd=self._folder,
            env=self._build_environment({"PYTHONPATH": paths, **QUIET}),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def save_json(self, block: Block) -> None:
        """Read a JSON block, and save it if it has a name."""
        text = self._replace_ports(block.text)
        json.loads(text)
        if block.name:
            (self._folder / block.name).write_text(text, encoding="utf-8")

    def save(self, block: Block) -> None:
        """Save a block that has a name."""
        if block.name:
            file = self._folder / block.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._replace_ports(block.text), encoding="utf-8")

    def run_console(self, block: Block) -> None:
        """Run the commands of a console block; each must have the expected output and end with 0."""
        steps = read_steps(block.text)
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            expected = self._replace_ports(step.expected)
            printed = self._run_command(self._replace_ports(step.command), expected)
            if expected.strip():
                assert matches_output(expected, printed), (
                    f"$ {step.command}\n{printed}\nwas printed, and the page has\n{expected}"
                )
            checks_code = following is not None and following.command == "echo $?"
            assert self._code == 0 or checks_code, f"$ {step.command}\nended with {self._code}: {printed}"

    def matches_output(self, expected: str, printed: str) -> bool:
        """Return whether ``printed`` is the output that the page has."""
        return matches_output(self._replace_ports(expected), printed)

    def close(self) -> None:
        """Stop the servers."""
        for server in self._servers.values():
            _stop(server)

    def _run_command(self, command: str, expected: str) -> str:
        if command == "echo $?":
            code, self._code = self._code, 0
            return str(code)
        words = shlex.split(command)
        environment = {}
        while "=" in words[0]:
            name, _, environment[name] = words.pop(0).partition("=")
        match words:
            case ["toolwire", "serve", *_] | ["toolwire", "gateway", "run"]:
                return self._start_server("toolwire", words[1:], environment)
            case ["uvicorn", *rest]:
                return self._start_server("uvicorn", rest, environment)
            case ["python", "-m", program, *rest]:
                return self._start_server(program, rest, environment)
            case ["toolwire", *rest]:
                return self._run_toolwire(rest, environment, expected)
            case ["pytest"]:
                return self._run_pytest()
            case ["make", target, *_]:
                makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
                assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"there is no `make {target}`"
            case [other, *_]:
                assert other in _NOT_RUN, f"{other} is not run by this test"
        return expected

    def _start_server(self, program: str, words: list[str], environment: Mapping[str, str]) -> str:
        is_gateway = words[0] == "gateway"  # its file says port = 9628
        if "--port" not in words and not is_gateway:
            words = [*words, "--port", self._find_port("9627")]
        port = self._find_port("9628") if is_gateway else words[words.index("--port") + 1]
        if port in self._servers:
            _stop(self._servers.pop(port))
        self._servers[port] = server = subprocess.Popen(
            [sys.executable, "-m", program, *words],
            cwd=self._folder,
            env=self._build_environment(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        overdue = threading.Timer(WAIT_S, server.kill)
        overdue.start()
        printed = ""
        while server.stdout and not re.search(r"Ctrl-C|CTRL\+C", printed):
            line = server.stdout.readline()
            assert line, f"{program} ended: {printed}"
            printed += line
        wait_until_answered(f"http://127.0.0.1:{port}")
        overdue.cancel()
        return printed

    def _run_pytest(self) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
        ended = subprocess.run(
            command, cwd=self._folder, env=self._build_environment({}), capture_output=True, text=True, check=False
        )
        self._code = ended.returncode
        return ended.stdout

    def _run_toolwire(self, words: list[str], environment: Mapping[str, str], expected: str) -> str:
        argv = [sys.executable, "-m", "toolwire", *words]
        environment = {"HOME": str(self._folder), **environment}  # where MCP hosts have their files
        answers = re.findall("(?:" + "|".join(re.escape(one.decode()) for one in _QUESTIONS) + ")(.*)", expected)
        if answers:
            self._code, printed = _run_at_terminal(argv, self._folder, self._build_environment(environment), answers)
            return printed
        printed = io.StringIO()
        with self._enter_folder(environment), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            self._code = main(words)  # in this process, which is ten times as fast as one of its own
        return printed.getvalue()

    @contextlib.contextmanager
    def _enter_folder(self, environment: Mapping[str, str]) -> Iterator[None]:
        """Enter the folder of the page, with ``environment``; leave it at the end."""
        known, path, before = set(sys.modules), list(sys.path), dict(os.environ)
        os.environ.update(self._build_environment(environment))
        sys.path.insert(0, str(self._folder))
        try:
            with contextlib.chdir(self._folder):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            sys.path[:] = path
            own = {str(file) for file in self._folder.glob("*.py")}
            for name in set(sys.modules) - known:
                if getattr(sys.modules[name], "__file__", None) in own:
                    del sys.modules[name]

    def _build_environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a command: what one page stores, no other page finds."""
        stored = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWIRE_")}
        state = {"XDG_STATE_HOME": str(self._folder / ".state"), "XDG_CONFIG_HOME": str(self._folder / ".config")}
        return {**stored, **state, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "120", **more}

    def _replace_ports(self, text: str) -> str:
        return re.sub(
            r"(127\.0\.0\.1:|--port |^port = )(96\d\d)\b",
            lambda match: match[1] + self._find_port(match[2]),
            text,
            flags=re.M,
        )

    def _find_port(self, written: str) -> str:
        if written not in self._ports:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._ports[written] = str(free.getsockname()[1])
        return self._ports[written]


def run_blocks(page: Page, blocks: Iterable[Block]) -> None:
    """Run every block of a page in order, and compare what it prints with the block of output after it."""
    printed: str | None = ""
    for block in blocks:
        assert block.language in _LANGUAGES, f"line {block.line}: say what this block is"
        match block.language, block.name:
            case "python", name if name.startswith(_PEER):
                printed = page.run_peer(block)
            case "python", _:
                printed = page.run(block)
            case "console", _:
                page.run_console(block)
            case "json", _:
                page.save_json(block)
            case "toml", _:
                page.save(block)
            case "text", name if name.endswith((".txt", ".md")):
                page.save(block)
            case "text", "output":
                assert printed is None or page.matches_output(block.text, printed), (
                    f"line {block.line}: this was printed:\n{printed}"
                )
            case _:
                pass


def _stop(server: subprocess.Popen[str]) -> None:
    server.kill()
    server.wait(WAIT_S)
    if server.stdout:
        server.stdout.close()


def _run_at_terminal(argv: list[str], folder: Path, environment: dict[str, str], answers: list[str]) -> tuple[int, str]:
    """Run a command at a terminal and type ``answers`` to its questions; return its code and the screen."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        argv, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        screen, until, waiting = b"", time.monotonic() + WAIT_S, list(answers)
        while time.monotonic() < until and select.select([ours], [], [], WAIT_S)[0]:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # the way a terminal ends on Linux
                break
            screen += piece
            if waiting and screen.endswith(_QUESTIONS):
                os.write(ours, f"{waiting.pop(0)}\n".encode())
        process.kill() if time.monotonic() >= until else process.wait(WAIT_S)
    os.close(ours)
    return process.returncode, screen.decode().replace("\r\n", "\n")
