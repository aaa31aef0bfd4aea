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
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
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


async def send_recorded(port: int, until: float, numbers: Callable[[], int]) -> Counter[int]:
    """Send a call that must be recorded every 10 ms, whether or not the ones before were answered."""
    statuses: Counter[int] = Counter()
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(body: bytes) -> None:
        pair = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
        head = b"POST /api/order HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        key = b"idempotency-key: %d\r\ncontent-length: %d\r\n\r\n" % (numbers(), len(body))
        statuses[await ask(*pair, head + key + body)] += 1
        idle.append(pair)

    tasks: list[Awaitable[None]] = []
    while time.perf_counter() < until:
        tasks.append(asyncio.create_task(send(json.dumps({"what": "tea"}).encode())))
        await asyncio.sleep(RECORDED_S)
    await asyncio.gather(*tasks)
    for _, writer in idle:
        writer.close()
    return statuses


async def run_phase(port: int, numbers: Callable[[], int]) -> tuple[dict[str, list[float]], Counter[int]]:
    until = time.perf_counter() + PHASE_S
    recorded = asyncio.create_task(send_recorded(port, until, numbers))
    took = await asyncio.gather(*(measure_route(port, request, until) for request in ROUTES.values()))
    return dict(zip(ROUTES, took, strict=True)), await recorded


def find_p99(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=100)[98]


async def compare(port: int, postgres: Postgres, phases: int) -> dict[str, list[tuple[list[float], list[float]]]]:
    """Return for each round the microseconds of each route while the database answers, and while it hangs."""
    found: dict[str, list[tuple[list[float], list[float]]]] = {name: [] for name in ROUTES}
    numbers = count(1).__next__
    await run_phase(port, numbers)  # until everything is loaded
    for _ in range(phases):
        before, statuses = await run_phase(port, numbers)
        assert set(statuses) == {200}, statuses
        with postgres.stopped():
            hanging, statuses = await run_phase(port, numbers)
        assert set(statuses) <= {200, 503}, statuses
        assert statuses[503], statuses
        for name in ROUTES:
            found[name].append((before[name], hanging[name]))
        until = time.perf_counter() + 30.0
        while time.perf_counter() < until:  # until calls are recorded again
            with suppress(ConnectionError):
                if set(await send_recorded(port, time.perf_counter() + 0.5, numbers)) == {200}:
                    break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--phases", type=int, default=PHASES)
    phases: int = parser.parse_args().phases
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
