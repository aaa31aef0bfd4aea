"""A worker to be started as a process: it runs the calls that an engine brings, if the ledger lets it, and says so.

``python -m tests.process.engine_worker KIND ENGINE_URL STATE_URL FILE``; each run is one line in FILE.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from toolwire.core.ledger import CallEnding, CallKey, CallState, Claim, Ticket
from toolwire.core.long_call import CallEngine
from toolwire.core.model import Value
from toolwire.stores.ledger.postgres import PostgresLedger


class Work:
    """Runs a call that must not run twice: the ledger decides."""

    def __init__(self, ledger: PostgresLedger, file: Path) -> None:
        self._ledger, self._file = ledger, file

    async def run(self, call_id: str) -> None:
        ticket = await self._ledger.claim(Claim(CallKey("ada", "Kit.pay", call_id), b"f", False))
        if not isinstance(ticket, Ticket):
            return
        handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{call_id}\n".encode())
        os.close(handle)
        await asyncio.sleep(0.02)  # a tool that takes a while, so that a kill finds some of them running
        await self._ledger.finish(ticket, CallEnding(CallState.DONE, Value(call_id), pinned=True))


def open_engine(kind: str, url: str, *, is_worker: bool) -> CallEngine:
    if kind == "docket":
        from toolwire.engines.docket import DocketEngine

        return DocketEngine(url, is_worker=is_worker, most=8)
    from toolwire.engines.dbos import DbosEngine

    return DbosEngine(url, is_worker=is_worker, most=8)


async def main(kind: str, url: str, state: str, file: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    ledger, engine = PostgresLedger(state), open_engine(kind, url, is_worker=True)
    await engine.begin(Work(ledger, Path(file)))
    print("ready", flush=True)
    await stop.wait()
    await engine.end(20.0)
    await ledger.end()
    print("drained", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
