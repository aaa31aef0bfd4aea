"""Measure recorded calls on one state with 1, 2 and 4 servers, and what a thousand would do. ``make scale`` runs it.

Servers, PostgreSQL and wrk share the cores of this machine, so the rates are lower than on machines of their own. The
times of the processor are not, so the model is made of those: it is checked against the measured rates.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from spec.runs import describe_run
from tests.postgres import Postgres, run_postgres, wait_until_answering
from tests.programs import find_free_port

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scale.md"
MARK = "<!-- `make scale` writes what follows. -->"
SECONDS = int(os.environ.get("TOOLWIRE_SECONDS", "4"))
CONNECTIONS = 16
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1
KIT = """
from toolwire import Toolkit
kit = Toolkit("Bench")

@kit.tool(safe=False, approval="auto")
async def add(a: int, b: int) -> int:
    '''Add.'''
    return a + b
"""
SCRIPT = """
local seed, n = 0, 0
function setup(thread) thread:set("seed", math.random(1, 1e9)) end
function init() n = 0 end
function request()
  n = n + 1
  local head = {["content-type"] = "application/json"}
  if KEYED then head["idempotency-key"] = "SEED-" .. n end
  return wrk.format("POST", "/api/add", head, '{"a": 1, "b": 2}')
end
"""


_MODEL = (
    f"The model: a machine with C cores has C seconds of processor each second, so it takes C divided by what a call"
    f" costs there. A server with only {CONNECTIONS} calls at a time has nothing to do while the database writes them,"
    f" so it takes at most one divided by the costs of both. Checked here, where all share the same cores. A ratio"
    f" below 1 is time in which other programs had the processors:"
)


class Point(NamedTuple):
    """What was measured: calls a second of all servers, and microseconds of processor for each call."""

    name: str
    nodes: int
    rate: float
    node_us: float
    database_us: float
    wrk_us: float


def read_cpu_s(pid: int) -> float:
    """Return the processor time of a process and of those that it started."""
    total = 0.0
    for each in (pid, *list_children(pid)):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) * TICK_S
    return total


def list_children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@contextmanager
def serve(kit: Path, state: str) -> Iterator[tuple[int, int]]:
    """Give the port and the process of a server."""
    port = find_free_port()
    argv = [sys.executable, "-m", "toolwire", "serve", str(kit), "--port", str(port)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "TOOLWIRE_STATE": state})
    try:
        assert process.stdout is not None
        while "Ctrl-C" not in process.stdout.readline():
            assert process.poll() is None, "the server does not start"
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def measure(name: str, kit: Path, state: str, *, nodes: int, keyed: bool, database: int | None) -> Point:
    with ExitStack() as stack:
        servers = [stack.enter_context(serve(kit, state)) for _ in range(nodes)]
        script = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".lua"))
        for seconds in (1, SECONDS):  # the first is to warm up
            before = [read_cpu_s(pid) for _, pid in servers]
            database_before = read_cpu_s(database) if database is not None else 0.0
            wrk_before = os.times().children_user + os.times().children_system
            running = []
            for number, (port, _) in enumerate(servers):
                text = SCRIPT.replace("KEYED", str(keyed).lower()).replace("SEED", f"{time.time_ns()}-{number}")
                file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".lua"))
                file.write(text)
                file.flush()
                argv = ["wrk", "-t1", f"-c{max(CONNECTIONS // nodes, 4)}", f"-d{seconds}s", "-s", file.name]
                running.append(subprocess.Popen([*argv, f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True))
            said = [process.communicate(timeout=seconds + 60)[0] for process in running]
        assert not any("Non-2xx" in one for one in said), said
        calls = sum(int(re.search(r"(\d+) requests in", one)[1]) for one in said)  # type: ignore[index]
        rate = sum(float(re.search(r"Requests/sec:\s+([\d.]+)", one)[1]) for one in said)  # type: ignore[index]
        used = sum(read_cpu_s(pid) for _, pid in servers) - sum(before)
        database_used = read_cpu_s(database) - database_before if database is not None else 0.0
        wrk_used = os.times().children_user + os.times().children_system - wrk_before
        script.close()
    return Point(name, nodes, rate, used / calls * 1e6, database_used / calls * 1e6, wrk_used / calls * 1e6)


def measure_all() -> list[Point]:
    with tempfile.TemporaryDirectory() as folder, run_postgres() as server:
        kit = Path(folder) / "kit.py"
        kit.write_text(KIT)
        wait_until_answering(server)
        pid = find_postgres(server)
        points = [
            measure("not recorded", kit, "memory", nodes=1, keyed=False, database=None),
            measure("recorded in memory", kit, "memory", nodes=1, keyed=True, database=None),
            measure("recorded in SQLite", kit, f"{folder}/state", nodes=1, keyed=True, database=None),
        ]
        for nodes in (1, 2, 4):
            state = server.create_database()
            points.append(measure("recorded in PostgreSQL", kit, state, nodes=nodes, keyed=True, database=pid))
    return points


def find_postgres(server: Postgres) -> int:
    return int((server.folder / "data" / "postmaster.pid").read_text().split()[0])


def predict(point: Point, *, nodes: int, cores: float, database_cores: float) -> float:
    """Return calls a second of ``nodes`` servers with ``cores`` each, and a database with ``database_cores``."""
    by_nodes = nodes * cores / (point.node_us * 1e-6)
    by_database = database_cores / (point.database_us * 1e-6)
    return min(by_nodes, by_database)


def write_page(points: list[Point], run: dict[str, Any]) -> str:
    raw = points[0]
    rows = [
        f"| {one.name} | {one.nodes} | {one.rate:,.0f} | {one.rate / raw.rate:.2f} | {one.node_us:.0f}"
        f" | {one.database_us:.0f} |"
        for one in points
    ]
    single = next(one for one in points if one.name == "recorded in PostgreSQL" and one.nodes == 1)
    shared = [one for one in points if one.name == "recorded in PostgreSQL"]
    cost = statistics.median(one.node_us for one in shared)
    database = statistics.median(one.database_us for one in shared)
    typical = single._replace(node_us=cost, database_us=database)
    checks = []
    for one in shared:
        # All share the cores of this machine, and a server with so few calls at a time works or waits for its answer.
        by_cores = CORES / ((one.node_us + one.database_us + one.wrk_us) * 1e-6)
        by_turns = one.nodes / ((one.node_us + one.database_us) * 1e-6)
        expected = min(by_cores, by_turns)
        checks.append(f"| {one.nodes} | {expected:,.0f} | {one.rate:,.0f} | {one.rate / expected:.2f} |")
    thousand = [
        f"| {nodes:,} | {cores} | {predict(typical, nodes=nodes, cores=1, database_cores=cores):,.0f}"
        f" | {'servers' if nodes / cost < cores / database else 'database'} |"
        for nodes, cores in ((1, 8), (10, 8), (100, 8), (1_000, 8), (1_000, 32), (1_000, 96))
    ]
    sqlite = next(one for one in points if one.name == "recorded in SQLite")
    steps = [
        ("a call that is not recorded", raw.node_us),
        ("recording it in memory", points[1].node_us - raw.node_us),
        ("recording it in SQLite", sqlite.node_us - raw.node_us),
        ("recording it in PostgreSQL, in the server", cost - raw.node_us),
        ("recording it in PostgreSQL, in the database", database),
    ]
    measured = (
        f"Measured on {run['date']} at commit {run['commit']}: {run['machine']}, shared by servers, PostgreSQL"
        f" (fsync off) and wrk ({CONNECTIONS} connections); {SECONDS} s each."
        f" The load of the machine was {os.getloadavg()[0]:.0f} in the last minute."
    )
    return "\n".join(
        [
            measured,
            "",
            "| calls | servers | calls a second | of those not recorded | server, µs of processor | database, µs |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "| step | µs of processor |",
            "|---|---|",
            *(f"| {name} | {us:.0f} |" for name, us in steps),
            "",
            _MODEL,
            "",
            "| servers | calls a second by the model | measured | measured / model |",
            "|---|---|---|---|",
            *checks,
            "",
            "The same at other sizes, with one core for each server and a machine of its own for the database:",
            "",
            "| servers | cores of the database | calls a second | what limits |",
            "|---|---|---|---|",
            *thousand,
        ]
    )


def main() -> None:
    points = measure_all()
    figures = {f"{one.name}, {one.nodes}": round(one.rate) for one in points}
    figures |= {f"{one.name}, {one.nodes}, server us": round(one.node_us) for one in points}
    figures |= {f"{one.name}, {one.nodes}, database us": round(one.database_us) for one in points if one.database_us}
    run = describe_run("make scale", figures)
    (ROOT / "spec" / "runs" / "scale.json").write_text(json.dumps(run, indent=2) + "\n")
    above, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{above}{MARK}\n\n{write_page(points, run)}\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8").partition(MARK)[2])


if __name__ == "__main__":
    main()
