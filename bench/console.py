"""The console with a log of 10,000 decisions: the time of its first page, and the memory of 500 open event streams.

``python -m bench.console`` prints both, and records them with ``TOOLWIRE_RECORD=1``.
"""

from __future__ import annotations

import http.client
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.wire import served  # noqa: E402 - the path first
from spec.runs import record_run  # noqa: E402 - the path first

RECORDS, STREAMS, TIMES = 10_000, 500, 31
KEY = "key-of-the-benchmark"
PAGES = ("/", "/log")
MAX_MS, MAX_KB, MAX_STREAM_KB = 150.0, 60.0, 20.0


class ConsoleFigures(NamedTuple):
    """The slowest and the largest of the first pages, and the memory of one open stream in the whole process."""

    page_ms: float
    page_kb: float
    stream_kb: float


def measure() -> ConsoleFigures:
    """Return the figures of a console in a process of its own, which signs in one operator."""
    with tempfile.TemporaryDirectory() as folder, _serve(Path(folder)) as port:
        cookie = _sign_in(port)
        pages = [_time_page(port, path, cookie) for path in PAGES]
        return ConsoleFigures(
            max(taken for taken, _ in pages), max(size for _, size in pages) / 1_000, _weigh_streams(port, cookie)
        )


def fill_log(folder: Path, count: int) -> None:
    """Write ``count`` decisions in one transaction: one for each, as a user makes them, would take minutes."""
    from toolwire.consent.decision_record import FIRST_DIGEST, Decision, compute_chain_digest
    from toolwire.stores.consent.open import open_decisions

    open_decisions(folder).last_number()  # makes the tables
    digest, rows = FIRST_DIGEST, []
    for number in range(1, count + 1):
        tool = f"A rather long name of a toolkit.and_a_tool_with_a_long_name_{number % 7}@1.0.0"
        record = Decision(
            at=1_795_500_000.0 + number,
            connection="shop",
            binding="ab" * 32,
            channel="page",
            principal="key:ann",
            site="https://shop.example",
            tool=tool,
            decision="allowed",
        )
        digest = compute_chain_digest(digest, number, record)
        rows.append((number, json.dumps(asdict(record)), digest))
    with closing(sqlite3.connect(folder / "audit.sqlite3")) as database, database:
        database.executemany("INSERT INTO audit VALUES (?, ?, ?)", rows)


@contextmanager
def _serve(folder: Path) -> Iterator[int]:
    folder.chmod(0o700)
    fill_log(folder, RECORDS)
    with served("console", env={"BENCH_STATE": str(folder), "BENCH_KEY": KEY}) as port:
        yield port


def _sign_in(port: int) -> str:
    status, headers, _ = _send(port, "POST", "/sign-in", body=urlencode({"key": KEY, "next": "/"}))
    if status != 303:
        raise RuntimeError(f"the console signed nobody in: {status}")
    return headers["set-cookie"].partition(";")[0]


def _time_page(port: int, path: str, cookie: str) -> tuple[float, int]:
    """Return the median milliseconds of one page, with a connection of its own, and its bytes."""
    figures, size = [], 0
    for _ in range(TIMES):
        started = time.perf_counter()
        status, _, body = _send(port, "GET", path, cookie=cookie)
        figures.append((time.perf_counter() - started) * 1_000)
        if status != 200:
            raise RuntimeError(f"{path} came with {status}")
        size = len(body)
    return statistics.median(figures), size


def _weigh_streams(port: int, cookie: str) -> float:
    """Return by how many kilobytes of resident memory one open event stream makes the process larger."""
    pid = subprocess.run(["pgrep", "-f", f"port {port}"], capture_output=True, text=True, check=True).stdout.split()[0]
    with ExitStack() as opened:
        for _ in range(10):  # what the first ones load is no memory of a stream
            _open_stream(port, cookie, opened)
        before = _read_memory_kb(pid)
        for _ in range(STREAMS):
            _open_stream(port, cookie, opened)
        return (_read_memory_kb(pid) - before) / STREAMS


def _open_stream(port: int, cookie: str, opened: ExitStack) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    opened.callback(connection.close)
    connection.request("GET", "/events", headers={"cookie": cookie})
    answer = connection.getresponse()
    if answer.status != 200 or not answer.read1(16):
        raise RuntimeError(f"a stream came with {answer.status}")


def _read_memory_kb(pid: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1.024


def _send(port: int, method: str, path: str, *, body: str = "", cookie: str = "") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        fields = {"content-type": "application/x-www-form-urlencoded"} if body else {}
        connection.request(method, path, body or None, fields | ({"cookie": cookie} if cookie else {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def main() -> int:
    """Print the figures, record them, and return 1 where one is too large."""
    figures = measure()
    print(f"first page   {figures.page_ms:.1f} ms   {figures.page_kb:.1f} kB   with {RECORDS:,} records")
    print(f"a stream     {figures.stream_kb:.1f} kB   of {STREAMS}")
    record = {
        "records": RECORDS,
        "first page, ms": round(figures.page_ms, 1),
        "first page, kB": round(figures.page_kb, 1),
        "streams": STREAMS,
        "a stream, kB": round(figures.stream_kb, 1),
    }
    good = figures.page_ms <= MAX_MS and figures.page_kb <= MAX_KB and figures.stream_kb <= MAX_STREAM_KB
    record_run("console", "python -m bench.console", record, passed=good)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
