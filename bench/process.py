"""What a process costs: imports, commands, the first good call, memory at rest."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from .requests import Call
from .wire import served

_BIN = Path(sys.executable).parent


def command_s(*command: str, times: int = 7) -> float:
    """Return the median wall seconds of a whole command."""
    figures = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        figures.append(time.perf_counter() - started)
    return statistics.median(figures)


def import_s() -> float:
    """Return the seconds that ``import toolwire`` adds to a bare interpreter."""
    return command_s(sys.executable, "-c", "import toolwire") - command_s(sys.executable, "-c", "pass")


def tools_s(url: str) -> float:
    """Return the seconds of ``toolwire tools URL``, interpreter included."""
    return command_s(str(_BIN / "toolwire"), "tools", url)


def help_s() -> float:
    """Return the seconds of ``toolwire --help``, interpreter included."""
    return command_s(str(_BIN / "toolwire"), "--help")


def first_call_s(app: str, call: Call, *, times: int = 3) -> float:
    """Return the median seconds from starting the process to its first good answer."""
    figures = []
    for _ in range(times):
        started = time.perf_counter()
        with served(app) as port:
            _ask(f"http://127.0.0.1:{port}{call.path}", call.body)
            figures.append(time.perf_counter() - started)
    return statistics.median(figures)


def idle_mb(app: str, env: dict[str, str]) -> float:
    """Return the resident megabytes of a server that has answered one request and waits."""
    with served(app, env=env) as port:
        _ask(f"http://127.0.0.1:{port}/tools", b"")
        pid = subprocess.run(
            ["pgrep", "-f", f"port {port}"], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def packages(extra: str) -> int:
    """Return how many packages ``pip install toolwire[extra]`` would bring, toolwire included."""
    name = f".[{extra}]" if extra else "."
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        "-",
        name,
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    import json

    return len(json.loads(said)["install"])


def _ask(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, data=body or None, headers={"content-type": "application/json"})
    for _ in range(200):
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.02)
    raise RuntimeError(f"{url} gave no good answer")
