"""A bad upstream: whatever it does to an answer, the caller gets a Problem in time, and nothing is left running."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from tests.client.faulty_proxy import Fault, Writer, start_proxy, swallow
from toolwire import Kind, Problem, Toolkit, Value, asgi, connect
from toolwire.testing.loopback import background

HANG_S = 10.0
DEADLINE_S = 0.5


async def reset(to: Writer, answer: bytes) -> None:
    """Send half of the answer, then a reset."""
    to.write(answer[: len(answer) // 2])
    await to.drain()
    linger = struct.pack("ii", 1, 0)
    to.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    to.transport.abort()


async def truncate(to: Writer, answer: bytes) -> None:
    """Send all but the end of the answer, and close."""
    to.write(answer[:-3])
    to.close()


async def drip(to: Writer, answer: bytes) -> None:
    """Send a byte a second."""
    for byte in answer:
        to.write(bytes([byte]))
        await to.drain()
        await asyncio.sleep(1.0)


async def garbage(to: Writer, answer: bytes) -> None:
    """Send what is no HTTP."""
    to.write(bytes(range(256)) * 8)
    to.close()


async def refuse_to_speak(to: Writer, answer: bytes) -> None:
    """Close without a byte."""
    to.close()


FAULTS: tuple[Fault, ...] = (reset, truncate, drip, garbage, swallow, refuse_to_speak)


def kit() -> Toolkit:
    kit = Toolkit("Shop")

    @kit.tool(approval="auto")
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}, how are you today?"

    return kit


def yes(_: object) -> bool:
    return True


@pytest.mark.requirement("R12")
@pytest.mark.parametrize("protocol", ["openapi", "opentool", "otc", "mcp"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faulty_upstream_gives_a_problem_in_time_and_leaks_nothing(protocol: str, fault: Fault) -> None:
    async def story(upstream: str) -> None:
        async with start_proxy(upstream) as (url, proxy), asyncio.timeout(HANG_S):
            before = len(asyncio.all_tasks())
            async with connect(
                url, protocol=protocol, timeout_s=DEADLINE_S, retries=0, approve=lambda _: True
            ) as remote:
                assert await remote.call("greet", {"name": "Ada"}) == Value("Hello, Ada, how are you today?")
                proxy.fault = fault
                problem = await remote.call("greet", {"name": "Ada"})
                assert isinstance(problem, Problem)
                assert problem.kind in (Kind.UNREACHABLE, Kind.BAD_ANSWER)
                assert problem.message.endswith(".")
                assert "Traceback" not in repr(problem)
                proxy.fault = None
                assert await remote.call("greet", {"name": "Bo"}) == Value("Hello, Bo, how are you today?")
            await proxy.end()
            assert len(asyncio.all_tasks()) == before

    with background(asgi(kit())) as upstream:
        asyncio.run(story(upstream))
