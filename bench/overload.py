"""``make overload``: more calls than a server can take, in an open loop: what is done, what is refused, how soon. [R1]

Calls are sent when they are due, whether or not the ones before were answered, and their time counts from then on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import uvloop

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import wire  # noqa: E402 - the path first
from bench.apps import BUSY_RUNNING, BUSY_S  # noqa: E402 - the path first
from bench.requests import CALLS, Call  # noqa: E402 - the path first
from spec.runs import record_run  # noqa: E402 - the path first

LOADS = (1, 2, 4, 10)
PROTOCOLS = ("opentool", "otc", "oxp", "mcp")
PAGE = ROOT / "docs" / "overload.md"

_LENGTH = re.compile(rb"content-length: (\d+)")
_RETRY_AFTER = re.compile(rb"retry-after: [1-9]")


class Answered(NamedTuple):
    """An answer: its status, the seconds from when its call was due, and whether it is one that we promise."""

    status: int
    seconds: float
    good: bool


class Peer(asyncio.Protocol):
    """One connection, with one call at a time."""

    def __init__(self, idle: list[Peer]) -> None:
        self._idle = idle
        self._transport: asyncio.WriteTransport | None = None
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's are of no class of asyncio's

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or length is None or len(body) < int(length[1]):
            return
        assert self._answer is not None
        answer, self._answer, said, self._received = self._answer, None, self._received, b""
        if not answer.done():
            answer.set_result((int(said[9:12]), said))
        self._idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._idle:
            self._idle.remove(self)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server hung up"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send ``request``; what comes back is a status and the whole answer."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Hang up."""
        assert self._transport is not None
        self._transport.close()


class Loader:
    """Sends calls to ``port``, over as many connections as it takes."""

    def __init__(self, port: int, call: Call) -> None:
        fields = (("Host", f"127.0.0.1:{port}"), ("Content-Type", "application/json"), *call.headers)
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        start = f"{call.method} {call.path} HTTP/1.1\r\n{head}Content-Length: {len(call.body)}\r\n\r\n"
        self._request = start.encode() + call.body
        self._port = port
        self._idle: list[Peer] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def one(self, due: float) -> Answered:
        """Send a call that was due at ``due`` and return its answer."""
        if self._idle:
            peer = self._idle.pop()
        else:
            _, peer = await asyncio.get_running_loop().create_connection(
                lambda: Peer(self._idle), "127.0.0.1", self._port
            )
        status, said = await peer.ask(self._request)
        return Answered(status, time.perf_counter() - due, good(status, said))

    async def load(self, rate: float, seconds: float) -> list[Answered]:
        """Return the answers to ``rate`` calls a second, for so many seconds."""
        answers: list[Answered] = []

        async def ask(due: float) -> None:
            answers.append(await self.one(due))

        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            task = asyncio.create_task(ask(due))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*self._tasks)
        return answers

    async def capacity(self, seconds: float) -> float:
        """Return how many calls a second are done where each of those that may run is followed by the next."""
        end = time.perf_counter() + seconds

        async def follow() -> int:
            done = 0
            while time.perf_counter() < end:
                done += (await self.one(time.perf_counter())).status == 200
            return done

        return sum(await asyncio.gather(*(follow() for _ in range(BUSY_RUNNING)))) / seconds

    def close(self) -> None:
        """Hang up everywhere."""
        while self._idle:
            self._idle.pop().close()


def good(status: int, said: bytes) -> bool:
    """Return whether an answer is a result, or a refusal in JSON that says when to come back."""
    head, _, body = said.partition(b"\r\n\r\n")
    if status == 200:
        return b"3" in body
    return status == 503 and _RETRY_AFTER.search(head) is not None and "did not run" in json.dumps(json.loads(body))


def quantile(figures: Iterable[float], share: float) -> float:
    """Return the figure below which ``share`` of ``figures`` are; 0 of none."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def rss_kib(port: int) -> int:
    """Return the resident KiB of the server on ``port``."""
    found = subprocess.run(["pgrep", "-f", f"port {port}"], capture_output=True, text=True, check=True).stdout.split()
    text = Path(f"/proc/{found[0]}/status").read_text(encoding="utf-8")
    kib = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert kib is not None
    return int(kib[1])


class Row(NamedTuple):
    """What came of one load; ratios are to what the server does where it is not overloaded."""

    protocol: str
    load: int
    offered: float
    goodput: float
    accepted: float
    refused_share: float
    refused_ms: float
    memory: float
    recovery_ms: float
    bad: int

    def met(self) -> bool:
        """Return whether this is what R1 asks for."""
        calm = self.goodput >= 0.95 and self.accepted <= 1.5 and self.refused_ms <= 50 and self.recovery_ms <= 1_000
        return calm and abs(self.memory - 1) <= 0.1 and self.bad == 0


async def measured(protocol: str, port: int, seconds: float) -> list[Row]:
    """Return a row for each load of a server that has just begun."""
    loader = Loader(port, CALLS[protocol])
    alone = [await loader.one(time.perf_counter()) for _ in range(40)]
    unloaded = quantile((one.seconds for one in alone), 0.99)
    capacity = await loader.capacity(min(seconds, 5.0))
    await loader.load(capacity * max(LOADS), 1.0)  # as many connections as it takes, before memory is looked at
    before = rss_kib(port)
    rows = []
    for load in LOADS:
        answers = await loader.load(capacity * load, seconds)
        ended = time.perf_counter()
        while (await loader.one(time.perf_counter())).status != 200:
            pass
        recovery_ms = (time.perf_counter() - ended - BUSY_S) * 1e3
        done = [one for one in answers if one.status == 200]
        refused = [one.seconds * 1e3 for one in answers if one.status != 200]
        rows.append(
            Row(
                protocol=protocol,
                load=load,
                offered=len(answers) / seconds,
                goodput=len(done) / seconds / capacity,
                accepted=quantile((one.seconds for one in done), 0.99) / unloaded,
                refused_share=len(refused) / len(answers),
                refused_ms=quantile(refused, 0.99),
                memory=rss_kib(port) / before,
                recovery_ms=max(0.0, recovery_ms),
                bad=sum(not one.good for one in answers),
            )
        )
    loader.close()
    return rows


_COLUMNS = (
    *("protocol", "load", "offered a second", "goodput", "p99 done", "refused", "p99 refused"),
    *("memory", "recovery", "other answers", "met"),
)


def written(rows: Sequence[Row], seconds: float) -> str:
    """Return the page that says what came of it."""
    text = f"""# More calls than a server can take

`make overload` writes this page. A tool takes {BUSY_S * 1e3:.0f} ms, and {BUSY_RUNNING} calls may run at once; how
many calls per second that allows is measured first. Each load lasts {seconds:.0f} s, on two cores: the server on one,
an open loop on the other, which sends each call when it is due, whether or not earlier calls ended.

- Goodput: the number of completed calls, divided by the number of calls that the server can complete.
- p99 done: the time of completed calls, relative to a single call.
- Refused: each refusal must be a 503 of its protocol with `Retry-After`, and the tool must not have run. Any other
  response is counted as "other".
- Memory: relative to the memory before the load. Recovery: the time from the last call until the server accepts a call.

The targets (R1): a goodput of 0.95, completion within 1.5 times, a refusal within 50 ms, memory within a tenth, and
recovery within a second.

"""
    table = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_cells, rows)]
    return text + "".join(f"| {' | '.join(cells)} |\n" for cells in table)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.protocol,
        f"{row.load} x",
        f"{row.offered:,.0f}",
        f"{row.goodput:.3f}",
        f"{row.accepted:.2f} x",
        f"{row.refused_share:.0%}",
        f"{row.refused_ms:.1f} ms",
        f"{row.memory:.2f} x",
        f"{row.recovery_ms:.0f} ms",
        str(row.bad),
        "yes" if row.met() else "NO",
    )


def summarize(rows: Sequence[Row]) -> dict[str, float | int]:
    """Return the worst of each figure over all protocols and loads."""
    return {
        "least goodput": round(min(row.goodput for row in rows), 3),
        "slowest accepted, times the quiet p99": round(max(row.accepted for row in rows), 2),
        "slowest refusal, ms": round(max(row.refused_ms for row in rows), 1),
        "most memory, times the quiet one": round(max(row.memory for row in rows), 2),
        "slowest recovery, ms": round(max(row.recovery_ms for row in rows)),
        "loads met": sum(row.met() for row in rows),
        "loads": len(rows),
    }


def main() -> int:
    """Measure each protocol, print the page, and write it where that is asked for; 1 where something is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="the seconds of each load (15)")
    parser.add_argument("--write", action="store_true", help="write docs/overload.md")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    rows: list[Row] = []
    for protocol in PROTOCOLS:
        with wire.served("busy") as port:
            rows += uvloop.run(measured(protocol, port, options.seconds))
        print(f"{protocol}: {sum(one.met() for one in rows[-len(LOADS) :])} of {len(LOADS)} loads met", file=sys.stderr)
    text = written(rows, options.seconds)
    print(text)
    good = all(one.met() for one in rows)
    record_run("overload", "make overload", summarize(rows), passed=good)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
