"""A server that begins again marks the thousands of long calls that its process before left, without long pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from toolwire import Toolkit
from toolwire.core.call_status import LongCallState
from toolwire.core.long_call import Lease, NewCall
from toolwire.core.model import Kind, Problem
from toolwire.server.limits import ServerLimits
from toolwire.server.long_calls.long_calls import LongCalls
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.stores.ledger.sqlite_long_calls import SqliteLongCalls

CALLS = 3_000
CALLERS = 30
AT_ONCE = 64


class WatchedCalls(SqliteLongCalls):
    """Counts how often a server looks for calls that are ready, and how many it gets each time."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[int] = []

    async def find_ready(self, limit: int) -> Sequence[str] | Problem:
        found = await super().find_ready(limit)
        assert not isinstance(found, Problem)
        self.looks.append(len(found))
        return found


def build_call(number: int) -> NewCall:
    return NewCall(
        principal=f"caller-{number % CALLERS}",
        id=f"call-{number}",
        key="",
        tool="Desk.print",
        fingerprint=b"",
        request=b"{}",
        can_rerun=False,
        keep_s=86_400.0,
        is_queued=False,
    )


@pytest.mark.requirement("GR-06")
def test_three_thousand_interrupted_calls_are_marked_in_steps_without_long_pauses() -> None:
    kit = Toolkit("Desk")
    ran: list[str] = []

    @kit.tool(approval="auto", safe=False, idempotent=False, long=True)
    async def print_all() -> None:
        ran.append("print")

    async def leave(store: SqliteLongCalls) -> None:
        """Leave all calls as a process does that died while they ran."""
        for first in range(0, CALLS, 100):
            numbers = range(first, first + 100)
            await asyncio.gather(*(store.accept(build_call(number)) for number in numbers))
            leases = await asyncio.gather(*(store.claim(f"call-{number}") for number in numbers))
            assert all(isinstance(lease, Lease) for lease in leases)
        await store.end()  # of a store in memory, the next owner is another process

    async def run() -> tuple[list[Any], list[int]]:
        store = WatchedCalls()
        await leave(store)
        box = FunctionToolbox(kit)
        calls = LongCalls(
            open_store=lambda: store,
            engine=None,
            toolbox=box,
            execute=box.run,
            limits=ServerLimits(),
        )
        calls.prepare()
        await calls.begin()
        try:
            # The last one is found last; whoever asks for it waits until it is over.
            for number in range(CALLS):
                await calls.read(f"caller-{number % CALLERS}", f"call-{number}", 60.0)
            looks = list(store.looks)
            return [await store.read(f"caller-{n % CALLERS}", f"call-{n}") for n in range(CALLS)], looks
        finally:
            await calls.end()

    found, looks = asyncio.run(run())
    assert {one.state for one in found} == {LongCallState.INTERRUPTED}
    assert {one.result.kind for one in found} == {Kind.INTERRUPTED}
    assert ran == []
    assert max(looks) == AT_ONCE  # the work of one step is bounded
    assert len(looks) <= CALLS // AT_ONCE + 20
