"""What must not grow with the number of tools, sets of scopes or keys."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import toolwire
from toolwire.client.calls.session import Session
from toolwire.core.codec import Site
from toolwire.core.http import Request, Response
from toolwire.core.ledger import CallEnding, CallKey, CallState, Claim, Ledger, LedgerLimits, Ticket
from toolwire.core.model import Secret, Value
from toolwire.core.selection import Selection
from toolwire.protocols import BUILTIN
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.route_table import RouteTable
from toolwire.stores.ledger.memory import MemoryLedger
from toolwire.stores.ledger.sqlite import SqliteLedger

from .inprocess import once
from .requests import CALLS, Call

TOOLS = 1_000
_SCOPES = 50
_LISTS = (
    *(Request("GET", path) for path in ("/tools", "/openapi.json", "/opentool/load")),
    Request(
        "POST", "/mcp", [(b"content-type", b"application/json")], b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    ),
)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def scoped_toolkit(tools: int) -> toolwire.Toolkit:
    """Return a toolkit of that many tools, each of which needs one of fifty scopes."""
    kit = toolwire.Toolkit("Many")
    for number in range(tools):
        kit.add(add, name=f"add_{number}", approval="auto", scopes=(f"s{number % _SCOPES}",))
    return kit


class Lists:
    """Lists of a thousand tools for callers with ever other scopes."""

    def __init__(self) -> None:
        every = [f"s{number}" for number in range(_SCOPES)]
        self._sets = [frozenset(every) - {one, other} for one in every for other in every if one < other]
        keys = [
            ApiKey(key=Secret(f"key-{number}"), name=f"caller{number}", scopes=scopes)
            for number, scopes in enumerate(self._sets)
        ]
        self._app: Any = toolwire.asgi(scoped_toolkit(TOOLS), api_keys=keys)

    def list_ms(self, sets: int, requests: int = 200) -> float:
        """Return the milliseconds of one list, where ``sets`` sets of scopes take turns."""
        return asyncio.run(self._measure(sets, requests))

    async def _measure(self, sets: int, requests: int) -> float:
        calls = [
            CALLS["list"]._replace(headers=(("authorization", f"Bearer key-{number % sets}"),))
            for number in range(requests)
        ]
        await once(self._app, calls[0])
        figures = []
        for call in calls:
            started = time.process_time()
            status, _ = await once(self._app, call)
            figures.append((time.process_time() - started) * 1e3)
            if status != 200:
                raise RuntimeError(f"/tools answered {status}")
        return statistics.median(figures)


def one_more_tool_ms() -> float:
    """Return the milliseconds of the first list after one tool has come to a thousand."""

    async def measure() -> float:
        kit = scoped_toolkit(TOOLS)
        app: Any = toolwire.asgi(kit)
        await once(app, CALLS["list"])
        kit.add(add, name="one_more", approval="auto")
        started = time.process_time()
        await once(app, CALLS["list"])
        return (time.process_time() - started) * 1e3

    return asyncio.run(measure())


def key_us(keys: int) -> float:
    """Return the microseconds it takes to know a caller by one of that many keys."""
    known = ApiKeyCallers(f"key-{number}" for number in range(keys))
    fields = {b"x-api-key": f"key-{keys // 2}".encode()}
    started = time.process_time()
    for _ in range(20_000):
        known.find_caller(fields)
    return (time.process_time() - started) / 20_000 * 1e6


def define_s(tools: int) -> float:
    """Return the seconds until that many tools are defined and their lists are bytes."""
    started = time.process_time()
    table = RouteTable(scoped_toolkit(tools).catalog(), BUILTIN, Site(keys=True))
    for request in _LISTS:
        if not isinstance(table.find_entry(request.method, request.url).read(request), Response):
            raise TypeError(f"{request.url} is no list")
    return time.process_time() - started


async def _record(ledger: Ledger, number: int, principal: str = "bench") -> None:
    ticket = await ledger.claim(Claim(CallKey(principal, "Kit.pay", str(number)), b"f", can_rerun=False))
    if isinstance(ticket, Ticket):
        await ledger.finish(ticket, CallEnding(CallState.DONE, Value(number), pinned=True))


async def _slowest_ms(
    work: Callable[[int], Awaitable[None]], times: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    slowest = 0.0
    gc.collect()
    gc.disable()  # what a collection of all rows takes is not the ledger's work
    try:
        for number in range(times):
            started = clock()
            await work(number)
            slowest = max(slowest, clock() - started)
    finally:
        gc.enable()
    return slowest * 1e3


def lowered_limit_ms(rows: int = 100_000) -> float:
    """Return the milliseconds of the slowest call in SQLite after a limit of that many rows was lowered to 100."""

    async def measure(path: Path) -> float:
        ledger = SqliteLedger(path)
        for first in range(0, rows, 1_000):
            await asyncio.gather(*(_record(ledger, number) for number in range(first, first + 1_000)))
        await ledger.end()
        lowered = SqliteLedger(path, LedgerLimits(rows=100))
        slowest = await _slowest_ms(lambda number: _record(lowered, rows + number), 200)
        await lowered.end()
        return slowest

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measure(Path(folder) / "calls.sqlite"))


def expiry_ms(rows: int = 100_000) -> float:
    """Return the milliseconds of the slowest call in memory when the time of that many rows is over at once."""
    now = 0.0

    async def measure() -> float:
        nonlocal now
        ledger = MemoryLedger(LedgerLimits(rows=2 * rows), clock=lambda: now)
        for number in range(rows):
            await _record(ledger, number)
        now = 1e6
        return await _slowest_ms(lambda number: _record(ledger, rows + number), 2_000, time.thread_time)

    return asyncio.run(measure())


ROWS = [{"id": number, "name": f"row {number}", "amount": number / 7, "tags": ["a", "b"]} for number in range(14_000)]
"""A megabyte of JSON."""


def _rows_toolkit() -> toolwire.Toolkit:
    kit = toolwire.Toolkit("Calculator")

    @kit.tool(approval="auto")
    async def give(times: int = 1) -> list[dict[str, Any]]:
        """Give rows."""
        return ROWS * times

    @kit.tool(approval="auto")
    async def take(rows: list[dict[str, Any]]) -> int:
        """Take rows."""
        return len(rows)

    kit.add(add, name="add", approval="auto")
    return kit


def _call(method: str, params: str) -> Call:
    body = f'{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":"c1"}}'
    return Call("POST", "/opentool/call", body.encode())


def rows_ms() -> tuple[float, float]:
    """Return the milliseconds of CPU to take a megabyte of rows, and to give one."""
    from toolwire.framing import jsontext

    async def measure(call: Call) -> float:
        app: Any = toolwire.asgi(_rows_toolkit(), limits=toolwire.ServerLimits(body_bytes=16 << 20))
        figures = []
        for _ in range(7):
            started = time.process_time()
            status, _ = await once(app, call)
            figures.append((time.process_time() - started) * 1e3)
            if status != 200:
                raise RuntimeError(f"the call of rows answered {status}")
        return statistics.median(figures)

    sent = _call("take", jsontext.write({"rows": ROWS}).decode())
    return asyncio.run(measure(sent)), asyncio.run(measure(_call("give", "{}")))


def beside_large_results_ms() -> float:
    """Return the 99th percentile of a small call, in milliseconds, while results of 10 MB are made in turn."""

    async def measure() -> float:
        app: Any = toolwire.asgi(_rows_toolkit())
        small, large = _call("add", '{"a":1,"b":2}'), _call("give", '{"times":10}')
        await once(app, small)
        figures: list[float] = []
        ended = asyncio.Event()

        async def make_large() -> None:
            for _ in range(5):
                await once(app, large)
            ended.set()

        making = asyncio.create_task(make_large())
        while not ended.is_set():
            started = time.perf_counter()
            await asyncio.sleep(0.001)
            await once(app, small)
            figures.append((time.perf_counter() - started) * 1e3)
        await making
        return sorted(figures)[int(len(figures) * 0.99)] if figures else float("inf")

    return asyncio.run(measure())


def connect_stall_ms(document: Path) -> float:
    """Return the longest time, in milliseconds, that nothing else ran on the loop while ``document`` was connected."""

    async def measure() -> float:
        longest, ended = 0.0, False

        async def tick() -> None:
            nonlocal longest
            before = time.perf_counter()
            while not ended:
                await asyncio.sleep(0)
                now = time.perf_counter()
                longest, before = max(longest, now - before), now

        ticking = asyncio.create_task(tick())
        selection = Selection(include="all")
        async with toolwire.connect(str(document), selection=selection, session=Session(), agree=lambda _: True):
            pass
        ended = True
        await ticking
        return longest * 1e3

    return asyncio.run(measure())
