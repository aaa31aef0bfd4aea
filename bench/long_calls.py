"""What long calls cost: to accept one, to read one, and to find one among many that are open, on SQLite.

``python -m bench.long_calls`` prints microseconds, and the ratios that the project holds itself to.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from toolwire.core.ledger import CallEnding, CallKey, CallState, Claim, Ticket
from toolwire.core.long_call import LongCallLimits, NewCall
from toolwire.core.model import Value
from toolwire.stores.ledger.sqlite import SqliteLedger
from toolwire.stores.ledger.sqlite_long_calls import SqliteLongCalls

CALLS = 1_000
ROUNDS = 11
MANY = 100_000
AT_ONCE = 32
WIDE = LongCallLimits(each=10 * MANY, each_bytes=1 << 40, open_each=10 * MANY)


async def measure(step: Callable[[int], Awaitable[object]], at_once: int = 1) -> float:
    """Return the microseconds of one ``step``, of ``CALLS``."""

    async def work(first: int) -> None:
        for number in range(first, CALLS, at_once):
            await step(number)

    began = time.perf_counter()
    await asyncio.gather(*(work(first) for first in range(at_once)))
    return (time.perf_counter() - began) / CALLS * 1e6


def build_call(name: str) -> NewCall:
    return NewCall("ada", name, "", "Kit.work@1.0.0", b"f" * 32, b"{}" * 50, can_rerun=False, keep_s=86_400.0)


async def fill(store: SqliteLongCalls, calls: int) -> None:
    async def work(first: int) -> None:
        for number in range(first, calls, 256):
            await store.accept(build_call(f"{number:040d}"))

    await asyncio.gather(*(work(first) for first in range(min(256, calls))))


async def compare(folder: Path) -> dict[str, float]:
    ledger, store = SqliteLedger(folder / "ledger.sqlite"), SqliteLongCalls(folder / "accepted.sqlite", WIDE)
    few, many = SqliteLongCalls(folder / "few.sqlite", WIDE), SqliteLongCalls(folder / "many.sqlite", WIDE)
    await fill(few, 100)
    await fill(many, MANY)
    made = iter(range(10**9))

    async def record(_: int) -> None:
        ticket = await ledger.claim(Claim(CallKey("ada", "Kit.work", str(next(made))), b"f" * 32, can_rerun=False))
        assert isinstance(ticket, Ticket)
        await ledger.finish(ticket, CallEnding(CallState.DONE, Value(1), pinned=True))

    steps: dict[str, tuple[Callable[[int], Awaitable[object]], int]] = {
        "recorded": (record, 1),
        "accepted": (lambda _: store.accept(build_call(f"a{next(made)}")), 1),
        f"recorded, {AT_ONCE} at once": (record, AT_ONCE),
        f"accepted, {AT_ONCE} at once": (lambda _: store.accept(build_call(f"a{next(made)}")), AT_ONCE),
        "read, 100 open": (lambda number: few.read("ada", f"{number % 100:040d}"), 1),
        f"read, {MANY:,} open": (lambda number: many.read("ada", f"{number * 7_919 % MANY:040d}"), 1),
        "list of 20": (lambda _: few.list_calls("ada", 20), 1),
        f"look for work, {MANY:,} open": (lambda _: many.find_ready(64), 1),
    }
    took: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):  # in turns, so that a slow moment of the machine meets all of them
        for name, (step, at_once) in steps.items():
            took[name].append(await measure(step, at_once))
    for one in (ledger, store, few, many):
        await one.end()
    return {name: statistics.median(figures) for name, figures in took.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        took = asyncio.run(compare(Path(folder)))
    for name, figure in took.items():
        print(f"{name:32} {figure:9.1f} us")
    accepted, at_once = took["accepted"] / took["recorded"], f"{AT_ONCE} at once"
    print(f"accepted / recorded              {accepted:9.2f}  (at most 2)")
    print(f"the same, {at_once:22} {took[f'accepted, {at_once}'] / took[f'recorded, {at_once}']:9.2f}  (at most 2)")
    print(f"read / list                      {took['read, 100 open'] / took['list of 20']:9.2f}  (at most 1.3)")
    ratio = took[f"read, {MANY:,} open"] / took["read, 100 open"]
    print(f"read, {MANY:,} / 100 open        {ratio:9.2f}  (at most 1.2)")


if __name__ == "__main__":
    main()
