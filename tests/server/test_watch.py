"""One timer for every deadline."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from toolwire.server.watch import Watch


async def waiting(watch: Watch, seconds: float) -> bool:
    """Wait for ever under a deadline; return whether it was the deadline that ended it."""
    task = watch.start(seconds)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        expired = watch.stop(task)
        if not expired:
            raise
        return expired
    return False


def timed(work: Callable[[Watch], Awaitable[object]]) -> object:
    async def within() -> object:
        async with asyncio.timeout(10):
            return await work(Watch())

    return asyncio.run(within())


def test_a_task_is_cancelled_at_its_deadline_and_goes_on() -> None:
    assert timed(lambda watch: waiting(watch, 0.01)) is True


def test_a_cancelled_deadline_is_taken_back() -> None:
    async def work(watch: Watch) -> int:
        await waiting(watch, 0.01)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert timed(work) == 0


def test_a_task_that_ends_in_time_is_left_alone() -> None:
    async def work(watch: Watch) -> bool:
        task = watch.start(0.01)
        expired = watch.stop(task)
        assert await waiting(watch, 0.02)
        return expired

    assert timed(work) is False


def test_deadlines_pass_in_their_own_order() -> None:
    ended: list[float] = []

    async def one(watch: Watch, seconds: float) -> None:
        await waiting(watch, seconds)
        ended.append(seconds)

    async def work(watch: Watch) -> None:
        async with asyncio.TaskGroup() as group:
            for seconds in (0.06, 0.02, 0.04):
                group.create_task(one(watch, seconds))

    timed(work)
    assert ended == [0.02, 0.04, 0.06]


def test_a_cancellation_from_elsewhere_is_not_a_deadline() -> None:
    async def work(watch: Watch) -> bool:
        task = asyncio.create_task(waiting(watch, 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert timed(work) is True


def test_a_watch_serves_one_event_loop_after_another() -> None:
    watch = Watch()
    for _ in range(2):
        assert asyncio.run(waiting(watch, 0.01)) is True


def test_a_deadline_needs_a_task() -> None:
    async def work(watch: Watch) -> None:
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def start() -> None:
            try:
                watch.start(1)
            except RuntimeError as error:
                failed.set_result(str(error))

        asyncio.get_running_loop().call_soon(start)
        assert "needs a task" in await failed

    timed(work)
