"""One timer for every deadline."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from toolwire.server.deadline_scheduler import DeadlineExceeded, DeadlineScheduler


async def wait_under_deadline(watch: DeadlineScheduler, seconds: float) -> bool:
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


def run_with_timeout(work: Callable[[DeadlineScheduler], Awaitable[object]]) -> object:
    async def within() -> object:
        async with asyncio.timeout(10):
            return await work(DeadlineScheduler())

    return asyncio.run(within())


def test_task_is_interrupted_at_its_deadline_and_can_continue() -> None:
    assert run_with_timeout(lambda watch: wait_under_deadline(watch, 0.01)) is True


def test_expired_deadline_leaves_no_pending_cancellation() -> None:
    async def work(watch: DeadlineScheduler) -> int:
        await wait_under_deadline(watch, 0.01)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run_with_timeout(work) == 0


def test_task_that_ends_in_time_is_not_cancelled() -> None:
    async def work(watch: DeadlineScheduler) -> bool:
        task = watch.start(0.01)
        expired = watch.stop(task)
        assert await wait_under_deadline(watch, 0.02)
        return expired

    assert run_with_timeout(work) is False


def test_deadlines_expire_in_time_order() -> None:
    ended: list[float] = []

    async def one(watch: DeadlineScheduler, seconds: float) -> None:
        await wait_under_deadline(watch, seconds)
        ended.append(seconds)

    async def work(watch: DeadlineScheduler) -> None:
        async with asyncio.TaskGroup() as group:
            for seconds in (0.06, 0.02, 0.04):
                group.create_task(one(watch, seconds))

    run_with_timeout(work)
    assert ended == [0.02, 0.04, 0.06]


def test_external_cancellation_is_not_reported_as_a_deadline() -> None:
    async def work(watch: DeadlineScheduler) -> bool:
        task = asyncio.create_task(wait_under_deadline(watch, 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert run_with_timeout(work) is True


def test_scheduler_works_in_successive_event_loops() -> None:
    watch = DeadlineScheduler()
    for _ in range(2):
        assert asyncio.run(wait_under_deadline(watch, 0.01)) is True


def test_deadline_outside_a_task_raises_runtime_error() -> None:
    async def work(watch: DeadlineScheduler) -> None:
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def start() -> None:
            try:
                watch.start(1)
            except RuntimeError as error:
                failed.set_result(str(error))

        asyncio.get_running_loop().call_soon(start)
        assert "needs a task" in await failed

    run_with_timeout(work)


def test_work_that_never_waits_needs_no_timer_and_no_loop() -> None:
    async def at_once() -> int:
        return 3

    with pytest.raises(StopIteration) as end:
        DeadlineScheduler().run_within(at_once(), 60).send(None)
    assert end.value.value == 3


def test_work_above_its_time_limit_is_cancelled() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    async def work(watch: DeadlineScheduler) -> int:
        with pytest.raises(DeadlineExceeded):
            await watch.run_within(endless(), 0.01)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run_with_timeout(work) == 0
    assert ended == ["cleaned up"]


def test_work_that_suppresses_its_cancellation_still_exceeds_the_deadline() -> None:
    async def stubborn() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done"

    async def work(watch: DeadlineScheduler) -> None:
        with pytest.raises(DeadlineExceeded):
            await watch.run_within(stubborn(), 0.01)

    run_with_timeout(work)


def test_results_exceptions_and_sent_values_pass_through() -> None:
    async def told(first: asyncio.Future[int], second: asyncio.Future[int]) -> list[object]:
        replies: list[object] = [await first]
        try:
            await second
        except KeyError as error:
            replies.append(error.args[0])
        await asyncio.sleep(0)
        return replies

    async def failing() -> None:
        await asyncio.sleep(0)
        raise LookupError("as it was")

    async def work(watch: DeadlineScheduler) -> object:
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()
        loop.call_soon(first.set_result, 1)
        loop.call_later(0.01, second.set_exception, KeyError("two"))
        replies = await watch.run_within(told(first, second), 60)
        with pytest.raises(LookupError, match="as it was"):
            await watch.run_within(failing(), 60)
        third: asyncio.Future[str] = loop.create_future()
        loop.call_soon(third.set_result, "an awaitable of any kind")
        return [*replies, await watch.run_within(third, 60)]

    assert run_with_timeout(work) == [1, "two", "an awaitable of any kind"]


def test_externally_cancelled_work_is_not_reported_as_late() -> None:
    async def work(watch: DeadlineScheduler) -> bool:
        async def endless() -> None:
            await asyncio.Event().wait()

        async def under() -> None:
            await watch.run_within(endless(), 60)

        task = asyncio.create_task(under())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert run_with_timeout(work) is True


def test_abandoned_work_is_closed() -> None:
    closed: list[bool] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def work(watch: DeadlineScheduler) -> None:
        outer = watch.run_within(endless(), 60)
        outer.send(None)
        outer.close()

    run_with_timeout(work)
    assert closed == [True]
