"""A large response is read in a thread: the event loop of the caller goes on meanwhile."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from bench.call_path import PROTOCOLS, CallPath, record_path
from toolwire import Session, Toolkit, asgi, connect
from toolwire.client.transport.drivers import arun, run
from toolwire.core.codec import BlockingTask, Flow
from toolwire.core.interpreter import INTERVAL_S
from toolwire.framing.jsontext import LARGE_BYTES
from toolwire.testing.loopback import background

LOREM = "lorem ipsum dolor sit amet"


async def record_call(url: str, protocol: Any, count: int) -> CallPath:
    """Return what the thread of the event loop runs while one call brings ``count`` rows."""
    async with connect(
        url, protocol=protocol, session=Session(), approve=lambda _: True, agree=lambda _: True
    ) as remote:
        with record_path() as path:
            result = await remote.call("rows", {"count": count})
    assert result.ok is True
    return path


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_large_response_is_processed_outside_the_event_loop(protocol: str) -> None:
    kit = Toolkit("Rows")

    @kit.tool(safe=True, approval="auto")
    def rows(count: int) -> list[dict[str, str]]:
        """Return rows."""
        return [{"text": f"{LOREM} {number}"} for number in range(count)]

    with background(asgi(kit)) as url:
        many = LARGE_BYTES // len(LOREM)
        small, large = (asyncio.run(record_call(url, protocol, count)) for count in (10, many))
    reading = {("framing/jsontext.py", "read"), ("consent/data_flow.py", "list_texts")}
    assert reading <= {(step.file, step.function) for step in small.steps}
    assert reading.isdisjoint((step.file, step.function) for step in large.steps)


def test_asynchronous_driver_runs_work_in_a_thread_and_blocking_driver_inline() -> None:
    def flow() -> Flow[int]:
        ident: int = yield BlockingTask(threading.get_ident)
        return ident

    here = threading.get_ident()
    assert asyncio.run(arun(flow(), None)) != here  # type: ignore[arg-type]  # nothing is sent
    assert run(flow(), None) == here  # type: ignore[arg-type]  # nothing is sent


def test_threads_switch_every_millisecond_during_work() -> None:
    def flow() -> Flow[float]:
        interval: float = yield BlockingTask(sys.getswitchinterval)
        return interval

    before = sys.getswitchinterval()
    assert asyncio.run(arun(flow(), None)) == pytest.approx(INTERVAL_S)  # type: ignore[arg-type]  # nothing is sent
    assert sys.getswitchinterval() == before > INTERVAL_S
