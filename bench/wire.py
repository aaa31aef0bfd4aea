"""Rate over real sockets: the server on one core, wrk on another."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from .requests import Call

CONNECTIONS = 32
_OURS = """
import sys
from bench import apps
from toolwire.server.http.process import ListenSettings, serve
serve(getattr(apps, sys.argv[1])(), ListenSettings(port=int(sys.argv[3]), announce=lambda _: None))
"""
_WE_MADE = frozenset(("ours", "busy", "console", "gateway", "full_gateway", "hung"))
_HERE = Path(__file__).parent


@contextlib.contextmanager
def served(
    app: str, *, python: str = sys.executable, env: dict[str, str] | None = None, plain: bool = False
) -> Iterator[int]:
    """Yield the port on which ``app`` (a factory in bench.apps) is served, pinned to core 0.

    Ours as ``toolwire serve`` does it, unless ``plain``; every other on uvicorn with uvloop and httptools.
    """
    port = find_port()
    if app in _WE_MADE and not plain:
        how = ["-c", _OURS, app, "--port", str(port)]
    else:
        how = [
            *("-m", "uvicorn", f"bench.apps:{app}", "--port", str(port), "--loop", "uvloop", "--http", "httptools"),
            *("--log-level", "critical", "--no-access-log"),
            *([] if app == "raw" else ["--factory"]),
        ]
    command = ["taskset", "-c", "0", python, *how]
    server = subprocess.Popen(command, cwd=_HERE.parent, env={**os.environ, **(env or {})})
    try:
        wait(port, server)
        yield port
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:  # LiteLLM's gateway waits for its streams
            server.kill()
            server.wait(10)


def rate(
    port: int,
    call: Call,
    *,
    seconds: int = 4,
    headers: dict[str, str] | None = None,
    connections: int = CONNECTIONS,
) -> float:
    """Return requests per second at 32 or so many ``connections``, wrk pinned to core 1; only 2xx answers may come."""
    fields = {"Content-Type": "application/json"} if call.body else {}
    fields |= {name.title(): value for name, value in call.headers} | (headers or {})
    lines = [f'wrk.method = "{call.method}"', f"wrk.body = [[{call.body.decode()}]]" if call.body else ""]
    if call.numbered:
        lines += [
            f"local n = {time.time_ns() // 1_000}",  # no other run has these: a number again is a call again
            "function request() n = n + 1; return wrk.format(nil, nil, nil, wrk.body:format(n)) end",
        ]
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in fields.items()]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write("\n".join(lines))
        script.flush()
        url = f"http://127.0.0.1:{port}{call.path}"
        wrk = [
            "taskset",
            "-c",
            "1",
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds}s",
            "--timeout",
            "20s",
            "-s",
            script.name,
            url,
        ]
        said = subprocess.run(wrk, capture_output=True, text=True, check=True, timeout=seconds + 30).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"{call.path}: {said}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if found is None:
        raise RuntimeError(said)
    return float(found[1])


def hop_us(call: Call, *, seconds: int = 4) -> float:
    """Return the CPU microseconds that a gateway adds to ``call``: those of both servers, less those of one."""
    with served("ours") as port, served("gateway", env={"BENCH_UPSTREAM": f"http://127.0.0.1:{port}"}) as hop:
        rate(hop, call, seconds=1)  # everything is loaded and connected
        return cpu_us(hop, call, seconds, [hop, port]) - cpu_us(port, call, seconds, [port])


def cpu_us(port: int, call: Call, seconds: int, servers: Sequence[int], *, connections: int = CONNECTIONS) -> float:
    """Return the CPU microseconds of all ``servers`` for one ``call`` to ``port``."""
    return sum(cpu_each_us(port, call, seconds, servers, connections=connections))


def cpu_each_us(
    port: int, call: Call, seconds: int, servers: Sequence[int], *, connections: int = CONNECTIONS
) -> list[float]:
    """Return the CPU microseconds of each of ``servers`` for one ``call`` to ``port``."""
    before = list(map(_cpu_s, servers))
    calls = rate(port, call, seconds=seconds, connections=connections) * seconds
    return [(_cpu_s(server) - then) / calls * 1e6 for server, then in zip(servers, before, strict=True)]


def _cpu_s(port: int) -> float:
    found = subprocess.run(["pgrep", "-f", f"port {port}"], capture_output=True, text=True, check=True)
    fields = Path(f"/proc/{found.stdout.split()[0]}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_RECORDED = """
import os
import time

from toolwire import Toolkit

kit = Toolkit("Calculator")


@kit.tool(safe=False)
async def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    end = time.thread_time() + BUSY_S
    while time.thread_time() < end:
        pass
    return a + b


@kit.tool(approval="auto")
async def name_process() -> int:
    \"\"\"Return the number of the process that answers.\"\"\"
    return os.getpid()
"""


def workers_ratio(call: Call, *, busy_s: float = 0.0) -> float:
    """Return the rate of ``call`` with two workers on one SQLite ledger, relative to that with one.

    The tool uses ``busy_s`` seconds of CPU in each call. All cores are for the server and for wrk: on two cores, wrk
    takes the time of the second worker, the more so the shorter a call is.
    """
    return statistics.median(_workers_rate(2, call, busy_s) / _workers_rate(1, call, busy_s) for _ in range(5))


def _workers_rate(workers: int, call: Call, busy_s: float) -> float:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        kit = Path(folder) / "kit.py"
        kit.write_text(_RECORDED.replace("BUSY_S", str(busy_s)))
        options = ["--port", str(port), "--workers", str(workers), "--ledger", f"{folder}/calls.sqlite"]
        command = [sys.executable, "-m", "toolwire", "serve", str(kit), *options]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait(port, server)
            _wait_for_workers(port, workers)
            rate(port, call, seconds=1)
            return rate(port, call, seconds=2)
        finally:
            server.terminate()
            server.wait(20)


def _wait_for_workers(port: int, workers: int) -> None:
    """Return once each of the workers has answered: one starts later than the other."""
    url = f"http://127.0.0.1:{port}/call"
    body = b'{"request":{"tool_id":"Calculator.name_process@1.0.0","input":{}}}'
    processes: set[int] = set()
    deadline = time.monotonic() + 30
    while len(processes) < workers:
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {len(processes)} of {workers} workers serve")
        fields = {"Content-Type": "application/json", "Connection": "close"}
        with urllib.request.urlopen(urllib.request.Request(url, body, fields), timeout=5) as response:
            processes.add(json.load(response)["output"]["value"])


def find_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait(port: int, server: subprocess.Popen[bytes]) -> None:
    """Return once ``server`` listens at ``port``.

    Raises:
        RuntimeError: it ends, or does not listen within 30 seconds.
    """
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.005)  # both sides of a ratio are seen to begin to within that
    raise RuntimeError("the server did not start")
