"""A program that is forked is in nothing different from one that starts: what a tool sees in it is the same."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked_programs
from tests.support.serve_process import start_serve
from tests.support.waiting import wait_until

FACTS = """
import atexit, json, locale, multiprocessing, os, resource, signal, sys, threading

def describe(stream):
    names = ("name", "mode", "encoding", "errors", "line_buffering", "write_through", "newlines")
    return [*(getattr(stream, name) for name in names), stream.isatty(), type(stream.buffer).__name__]

main = sys.modules["__main__"]
facts = {
    "argv": [sys.argv, sys.orig_argv],
    "path": sys.path,
    "flags": [str(sys.flags), sys.warnoptions],
    "main": [main.__name__, multiprocessing.parent_process() or (main.__file__, main.__spec__.name, main.__package__)],
    "streams": [describe(sys.stdin), describe(sys.stdout), describe(sys.stderr)],
    "first streams": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "signals": {str(one): str(signal.getsignal(one)) for one in sorted(signal.valid_signals())},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "files": sorted(os.readlink(one) for one in map("/proc/self/fd/{}".format, range(256)) if os.path.exists(one)),
    "environment": dict(os.environ),
    "parent": os.getppid(),
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "folder": os.getcwd(),
    "umask": os.umask(0o27),
    "threads": [threading.active_count(), len(os.listdir("/proc/self/task"))],
    "locale": locale.setlocale(locale.LC_ALL),
    "limits": [resource.getrlimit(one) for one in range(10)],
    "niceness": os.nice(0),
    "input": sys.stdin.readline(),
}
with open(os.environ["FACTS"] + multiprocessing.current_process().name, "w") as file:
    json.dump(facts, file, default=str)

from toolwire import Toolkit
kit = Toolkit("Kit")
if os.environ.get("SLEEPS"):
    os.kill(os.getpid(), signal.SIGKILL)
"""

TOOL = """
@kit.tool
def answer() -> int:
    \"\"\"Answer.\"\"\"
    return 42
"""


def note_facts(folder: Path, really: bool, **options: Any) -> tuple[dict[str, Any], subprocess.Popen[bytes]]:
    """Run the command line on a file that notes what it sees of its process; return that, and the process."""
    (folder / "kit.py").write_text(FACTS, encoding="utf-8")
    place = folder / f"facts-{really}-"
    environment = {**options.pop("env", os.environ), "FACTS": str(place)}
    argv = [sys.executable, "-m", "toolwire", "tools", "kit.py"]
    forked_programs.start_really(really=really)
    with subprocess.Popen(argv, cwd=folder, env=environment, **{"stdin": subprocess.PIPE, **options}) as process:
        if process.stdin is not None:
            process.stdin.write(b"a line\nmore")
            process.stdin.close()
        process.wait(60)
    return read_facts(place, "MainProcess"), process


def read_facts(place: Path, process: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(place.with_name(place.name + process).read_text(encoding="utf-8"))
    assert facts["environment"].pop("FACTS") == str(place)
    return facts


@pytest.fixture(autouse=True)
def forks_from_the_first_start(tmp_path: Path) -> None:
    """Make the start that is real because no other was like it."""
    if sys.platform != "linux" or any(name.startswith("COVERAGE_PROCESS") for name in os.environ):
        pytest.skip("programs are only forked on Linux, and while no coverage is measured")
    subprocess.run([sys.executable, "-m", "toolwire", "--version"], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.requirement("TE-05")
@pytest.mark.parametrize("start_new_session", [False, True])
def test_a_forked_program_sees_what_a_started_one_sees(start_new_session: bool, tmp_path: Path) -> None:
    def note(really: bool) -> dict[str, Any]:
        with (tmp_path / "out").open("w") as out:
            facts, process = note_facts(tmp_path, really, stdout=out, stderr=out, start_new_session=start_new_session)
        assert process.returncode == 0
        facts["files"] = [place.split(":")[0] for place in facts["files"]]  # the number of a pipe
        return facts

    forked, started = note(False), note(True)
    assert forked == started
    assert forked["parent"] == os.getpid()
    assert forked["leads"] == [start_new_session, start_new_session]
    assert forked["input"] == "a line\n"


@pytest.mark.requirement("TE-05")
def test_a_forked_worker_sees_what_a_started_one_sees(tmp_path: Path) -> None:
    (tmp_path / "kit.py").write_text(FACTS + TOOL, encoding="utf-8")

    def note(really: bool) -> list[dict[str, Any]]:
        place = tmp_path / f"facts-{really}-"
        forked_programs.start_really(really=really)
        with start_serve(tmp_path / "kit.py", "--workers", "2", environment={"FACTS": str(place)}) as (server, _):
            files = [tmp_path / f"facts-{really}-SpawnProcess-{number}" for number in (1, 2)]
            wait_until(lambda: all(file.exists() and file.read_text().endswith("}") for file in files), within=60)
            every = [read_facts(place, f"SpawnProcess-{number}") for number in (1, 2)]
        for facts in every:
            assert facts.pop("parent") == server.pid
            for name in ("main", "argv", "signals"):  # with the numbers of processes, files and objects
                facts[name] = re.sub(r"=\d+|0x\w+", "", str(facts[name]))
            facts["files"] = [place.split(":")[0] for place in facts["files"]]
        assert server.returncode == 0
        return every

    assert note(False) == note(True)


@pytest.mark.requirement("TE-05")
def test_a_forked_program_at_a_terminal_sees_what_a_started_one_sees(tmp_path: Path) -> None:
    def note(really: bool) -> dict[str, Any]:
        ours, theirs = pty.openpty()
        try:
            os.write(ours, b"typed\n")
            streams: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
            facts, _ = note_facts(tmp_path, really, env={**os.environ, "TZ": "Asia/Tokyo"}, **streams)
        finally:
            os.close(ours)
            os.close(theirs)
        del facts["files"]
        return facts

    forked, started = note(False), note(True)
    assert forked == started
    assert forked["input"] == "typed\n"


@pytest.mark.requirement("TE-05")
@pytest.mark.parametrize("variable", ["PYTHONWARNINGS", "PYTHONPATH"])
def test_a_variable_that_python_reads_at_its_start_makes_a_real_one(variable: str, tmp_path: Path) -> None:
    for _ in range(2):
        facts, _ = note_facts(tmp_path, False, env={**os.environ, variable: "ignore"}, stdout=subprocess.DEVNULL)
        seen = facts["flags"][1] if variable == "PYTHONWARNINGS" else [Path(place).name for place in facts["path"]]
        assert "ignore" in seen


@pytest.mark.requirement("TE-05")
def test_a_signal_ends_a_forked_program_as_a_started_one(tmp_path: Path) -> None:
    _, process = note_facts(tmp_path, False, env={**os.environ, "SLEEPS": "1"}, stdout=subprocess.DEVNULL)
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.requirement("TE-05")
def test_a_program_whose_parent_ends_is_no_child_of_the_tests(tmp_path: Path) -> None:
    """The process of the tests takes only forks as its children, and else nobody's."""
    subprocess.run([sys.executable, "-m", "toolwire", "--version"], check=True, stdout=subprocess.DEVNULL)
    reply = subprocess.run(
        ["sh", "-c", "(sleep 60 >/dev/null & echo $!)"], check=True, capture_output=True, text=True
    ).stdout
    status = Path(f"/proc/{int(reply)}/status").read_text(encoding="ascii")
    os.kill(int(reply), signal.SIGKILL)
    assert f"PPid:\t{os.getpid()}\n" not in status
