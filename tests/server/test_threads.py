"""Worker threads: a call that is given up keeps its place until its thread has ended."""

import asyncio
import threading

import pytest

from toolwire import Problem, Toolkit, Value
from toolwire.core.model import Call
from toolwire.server.functions import FunctionBox


@pytest.fixture
def free() -> threading.Event:
    return threading.Event()


@pytest.fixture
def begun() -> threading.Semaphore:
    return threading.Semaphore(0)


@pytest.fixture
def box(free: threading.Event, begun: threading.Semaphore) -> FunctionBox:
    kit = Toolkit("Threads")

    @kit.tool
    def stuck(number: int) -> int:
        """Wait until the test lets go."""
        begun.release()
        free.wait(30)
        return number

    @kit.tool
    def quick() -> str:
        """Answer at once."""
        return threading.current_thread().name

    return FunctionBox(kit, threads=3)


def call(box: FunctionBox, name: str, **arguments: object) -> Call:
    tool = box.catalog().find(name)
    assert not isinstance(tool, Problem)
    return Call(tool, arguments)


@pytest.mark.requirement("D-34")
def test_calls_that_were_given_up_cannot_fill_the_process_with_threads(
    box: FunctionBox, free: threading.Event, begun: threading.Semaphore
) -> None:
    async def story() -> int:
        await asyncio.to_thread(begun.acquire, timeout=0.001)  # its thread counts among those before
        before = threading.active_count()
        stuck = [asyncio.create_task(box.run(call(box, "stuck", number=number))) for number in range(50)]
        for _ in range(3):
            assert await asyncio.to_thread(begun.acquire, timeout=20)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        waiting = asyncio.create_task(box.run(call(box, "quick")))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        grown = threading.active_count() - before
        free.set()
        assert isinstance(await waiting, Value)
        return grown

    assert asyncio.run(story()) <= 12  # three of ours; the waiting of this test takes some itself


def test_a_place_is_free_again_after_each_call(box: FunctionBox) -> None:
    async def story() -> None:
        for _ in range(10):
            assert isinstance(await box.run(call(box, "quick")), Value)

    asyncio.run(story())
