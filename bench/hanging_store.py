"""What a database that hangs costs the routes that need none: the p99 of a tool that only reads, and of ``/health``.

``python -m bench.hanging_store`` starts a server and a PostgreSQL of its own. Calls that must be recorded keep coming
all the time; in every second phase the database is stopped (SIGSTOP). It prints microseconds, and the ratio of the
phases, which the project holds itself to: at most 1.2. Run it on a quiet machine, or with ``nice -n -20``.
"""
# ST-05

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from bench.scale import serve
from tests.postgres import Postgres, run_postgres, wait_until_answering

KIT = '''
    from toolwire import Toolkit

    kit = Toolkit("Shop")

    @kit.tool(safe=True, approval="auto", inline=True)
    def price(what: str) -> int:
        """Read a price."""
        return len(what)

    @kit.tool(safe=False, approval="auto", inline=True)
    def order(what: str) -> str:
        """Order something."""
        return what
'''
ROUTES = {
    "read": b"GET /api/price?what=tea HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "/health": b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
}
PHASES = 15
"""Of each kind, in turns, so that a slow moment of the machine meets both."""
PHASE_S = 2.0
RECORDED_S = 0.01
"""A recorded call comes every 10 ms."""
CONNECTIONS = 200
"""More calls do not wait for a database at the same time: after a second they are refused."""
START_S = 1.0
"""How long the process that sends recorded calls has to start before anything is measured."""
READ_S = 0.002
_LENGTH = re.compile(rb"content-length: (\d+)")


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Return the status of the response to ``request``."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head[9:12])


async def measure_route(port: int, request: bytes, until: float) -> list[float]:
    """Return the microseconds of each request to one route, sent one after another until a time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took: list[float] = []
    while time.perf_counter() < until:
        began = time.perf_counter()
        status = await ask(reader, writer, request)
        took.append((time.perf_counter() - began) * 1e6)
        assert status == 200, status
        await asyncio.sleep(READ_S)
    writer.close()
    return took


async def send_recorded(port: int, until: float, first: int) -> Counter[int]:
    """Send a call that must be recorded every 10 ms, whether or not the ones before were answered.

    ``first`` is the number of the first call. The connections are there before it, so that the server opens none while
    it is measured.
    """
    statuses: Counter[int] = Counter()
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    body = json.dumps({"what": "tea"}).encode()

    async def send(number: int) -> None:
        pair = idle.pop()
        head = b"POST /api/order HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        key = b"idempotency-key: %d\r\ncontent-length: %d\r\n\r\n" % (number, len(body))
        statuses[await ask(*pair, head + key + body)] += 1
        idle.append(pair)

    tasks: list[Awaitable[None]] = []
    for number in count(first):
        if time.perf_counter() >= until:
            break
        tasks.append(asyncio.create_task(send(number)))
        await asyncio.sleep(RECORDED_S)
    await asyncio.gather(*tasks)
    for _, writer in idle:
        writer.close()
    return statuses


async def send_beside(port: int, until: float) -> Counter[int]:
    """Do ``send_recorded`` in a process of its own: in this one, its work would delay what is measured."""
    arguments = ("--send", str(port), str(until), str(time.time_ns()))
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.hanging_store", *arguments, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await sender.communicate()
    return Counter({int(status): number for status, number in json.loads(said).items()})


async def run_phase(port: int) -> tuple[dict[str, list[float]], Counter[int]]:
    began = time.perf_counter() + START_S
    until = began + PHASE_S
    recorded = asyncio.create_task(send_beside(port, until))
    await asyncio.sleep(START_S)
    took = await asyncio.gather(*(measure_route(port, request, until) for request in ROUTES.values()))
    return dict(zip(ROUTES, took, strict=True)), await recorded


def find_p99(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=100)[98]


async def compare(port: int, postgres: Postgres, phases: int) -> dict[str, list[tuple[list[float], list[float]]]]:
    """Return for each round the microseconds of each route while the database answers, and while it hangs."""
    found: dict[str, list[tuple[list[float], list[float]]]] = {name: [] for name in ROUTES}
    await run_phase(port)  # until everything is loaded
    for _ in range(phases):
        before, statuses = await run_phase(port)
        assert set(statuses) == {200}, statuses
        with postgres.stopped():
            hanging, statuses = await run_phase(port)
        assert set(statuses) <= {200, 503}, statuses
        assert statuses[503], statuses
        for name in ROUTES:
            found[name].append((before[name], hanging[name]))
        until = time.perf_counter() + 30.0
        while time.perf_counter() < until:  # until calls are recorded again
            with suppress(ConnectionError):
                if set(await send_beside(port, time.perf_counter() + START_S)) == {200}:
                    break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--phases", type=int, default=PHASES)
    parser.add_argument("--send", nargs=3, metavar=("PORT", "UNTIL", "FIRST"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.send:
        port, until, first = arguments.send
        print(json.dumps(asyncio.run(send_recorded(int(port), float(until), int(first)))))
        return
    phases: int = arguments.phases
    with tempfile.TemporaryDirectory() as folder, run_postgres() as postgres:
        wait_until_answering(postgres)
        kit = Path(folder, "shop.py")
        kit.write_text(textwrap.dedent(KIT))
        with serve(kit, postgres.create_database()) as (port, _):
            found = asyncio.run(compare(port, postgres, phases))
    print(f"{'':10} {'calls':>7} {'p50':>8} {'p99':>8}   then, with a database that hangs")
    for name, rounds in found.items():
        before, hanging = ([one for each in rounds for one in each[kind]] for kind in (0, 1))
        for label, took in ((name, before), ("  hanging", hanging)):
            print(f"{label:10} {len(took):7} {statistics.median(took):8.0f} {find_p99(took):8.0f} us")
        ratios = sorted(find_p99(after) / find_p99(earlier) for earlier, after in rounds)
        print(
            f"  ratio of p99     {statistics.median(ratios):9.2f}  (at most 1.2; {ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
