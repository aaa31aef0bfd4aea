"""Worker threads: shared fairly among callers, kept by what really runs, and gone when there is nothing to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from toolwire import Context, Problem, Secret, ServerLimits, Toolkit, Value, asgi, connect
from toolwire.core.model import Call, Json, Kind
from toolwire.server.access.api_keys import ApiKey
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.run.function_toolbox import PEER_ADDRESS, FunctionToolbox
from toolwire.server.run.service import Service
from toolwire.server.run.worker_threads import ThreadPool
from toolwire.testing.loopback import background

SIZE = 4
SHARE = 3
"""How many of SIZE threads one caller may hold."""

HANG_S = 20.0
WHO: ContextVar[str] = ContextVar("who", default="nobody")


class Gate:
    """Holds every job that comes to it until it is opened, and counts them."""

    def __init__(self) -> None:
        self._begun = threading.Semaphore(0)
        self._open = threading.Event()

    def pass_through(self) -> str:
        self._begun.release()
        assert self._open.wait(HANG_S)
        return "through"

    async def begun(self, number: int) -> None:
        """Wait until ``number`` more jobs have begun."""
        for _ in range(number):
            assert await asyncio.get_running_loop().run_in_executor(None, self._begun.acquire, True, HANG_S)

    def none_more(self) -> bool:
        return not self._begun.acquire(blocking=False)

    def open(self) -> None:
        self._open.set()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(HANG_S):
            await story()

    asyncio.run(within())


@pytest.mark.requirement("D-34", "AT-04")
def test_slow_jobs_of_one_caller_leave_threads_to_others() -> None:
    async def story() -> None:
        pool, gate = ThreadPool(SIZE), Gate()
        slow = [asyncio.create_task(pool.run("greedy", gate.pass_through)) for _ in range(256)]
        await gate.begun(SHARE)
        assert await pool.run("other", lambda: "at once") == "at once"
        assert gate.none_more()
        assert (pool.queue_length, pool.threads) == (256 - SHARE, SIZE)
        gate.open()
        assert await asyncio.gather(*slow) == ["through"] * 256
        assert pool.queue_length == 0

    run(story)


@pytest.mark.requirement("D-34")
def test_jobs_that_wait_start_round_robin_among_callers() -> None:
    async def story() -> None:
        pool, gate, order = ThreadPool(1), Gate(), list[str]()
        first = asyncio.create_task(pool.run("a", gate.pass_through))
        await gate.begun(1)
        jobs = [pool.run(name, lambda name=name: order.append(name)) for name in ("a", "a", "a", "b", "b", "c")]
        waiting = asyncio.gather(*jobs)
        await asyncio.sleep(0)
        gate.open()
        await asyncio.gather(first, waiting)
        assert sorted(order[:3]) == ["a", "b", "c"]
        assert sorted(order[3:5]) == ["a", "b"]
        assert order[5] == "a"

    run(story)


@pytest.mark.requirement("D-34")
def test_job_cancelled_while_waiting_is_removed_completely() -> None:
    async def story() -> None:
        pool, gate, ran = ThreadPool(SIZE), Gate(), list[int]()
        slow = [asyncio.create_task(pool.run("a", gate.pass_through)) for _ in range(SHARE)]
        await gate.begun(SHARE)
        waiting = [asyncio.create_task(pool.run("a", lambda: ran.append(1))) for _ in range(50)]
        await asyncio.sleep(0)
        assert pool.queue_length == 50
        for task in waiting:
            task.cancel()
        assert all(
            isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*waiting, return_exceptions=True)
        )
        assert pool.queue_length == 0
        gate.open()
        await asyncio.gather(*slow)
        assert await pool.run("a", lambda: len(ran)) == 0

    run(story)


@pytest.mark.requirement("D-34")
def test_job_cancelled_while_running_keeps_its_thread_until_it_ends() -> None:
    async def story() -> None:
        pool, gate = ThreadPool(SIZE, SIZE), Gate()
        stuck = [asyncio.create_task(pool.run("a", gate.pass_through)) for _ in range(50)]
        await gate.begun(SIZE)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        waiting = asyncio.create_task(pool.run("b", lambda: "done"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert gate.none_more()
        assert pool.threads == SIZE
        gate.open()
        assert await waiting == "done"

    run(story)


def test_threads_start_on_demand_and_end_when_idle() -> None:
    async def story() -> None:
        pool = ThreadPool(SIZE, idle_s=0.01)
        assert pool.threads == 0
        threads = await pool.run("a", threading.current_thread)
        assert threads.daemon, "it would keep the process from exiting"
        await asyncio.get_running_loop().run_in_executor(None, threads.join, HANG_S)
        assert (pool.threads, threads.is_alive()) == (0, False)
        assert await pool.run("a", lambda: "again") == "again"

    run(story)


def test_burst_of_short_jobs_completes_while_idle_threads_end() -> None:
    async def story() -> None:
        pool = ThreadPool(SIZE, idle_s=0.000_01)
        for number in range(300):
            jobs = [pool.run(caller, lambda number=number: number) for caller in range(number % 7)]
            assert await asyncio.gather(*jobs) == [number] * (number % 7)

    run(story)


def test_context_variables_reach_the_function() -> None:
    async def story() -> None:
        WHO.set("ada")
        assert await ThreadPool(1).run("a", WHO.get) == "ada"

    run(story)


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, StopIteration, SystemExit, ValueError])
def test_exception_in_a_function_ends_only_its_own_call(error: type[BaseException]) -> None:
    kit = Toolkit("Failing")

    def fail() -> None:
        raise error

    kit.add(fail)
    box = FunctionToolbox(kit)

    async def story() -> None:
        for _ in range(2):
            result = await box.run(Call(box.catalog().names["fail"], {}))
            assert isinstance(result, Problem)
            assert result.kind is Kind.TOOL_FAILED

    run(story)


def build_named_call(box: FunctionToolbox, name: str, principal: str = "anonymous", **arguments: Json) -> Call:
    return Call(box.catalog().names[name], arguments, context=Context(principal=principal))


@pytest.mark.requirement("D-34")
@pytest.mark.parametrize("by", ["name", "address"])
def test_callers_are_distinguished_by_name_or_else_by_address(by: str) -> None:
    gate, kit = Gate(), Toolkit("Gate")
    kit.add(gate.pass_through, name="slow")
    kit.add(lambda: 1, name="quick")
    box = FunctionToolbox(kit, threads=SIZE)

    def call(tool: str, number: int) -> Call:
        PEER_ADDRESS.set(f"192.0.2.{number}" if by == "address" else "192.0.2.1")
        return build_named_call(box, tool, f"caller {number}" if by == "name" else "anonymous")

    async def story() -> None:
        slow = [asyncio.create_task(box.run(call("slow", 1))) for _ in range(10)]
        await gate.begun(SHARE)
        assert await box.run(call("quick", 2)) == Value(1)
        same = asyncio.create_task(box.run(call("quick", 1)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not same.done()
        gate.open()
        await asyncio.gather(*slow, same)

    run(story)


@pytest.mark.requirement("D-34")
def test_cancelled_function_sees_the_cancellation_and_sends_no_progress() -> None:
    kit, begun, seen = Toolkit("Cancelled"), threading.Event(), list[bool]()
    ended = threading.Event()
    received: list[Any] = []

    @kit.tool
    def work(context: Context) -> str:
        seen.append(context.is_cancelled)
        begun.set()
        while not context.is_cancelled:
            pass
        context.progress("dropped")
        seen.append(context.is_cancelled)
        ended.set()
        return "dropped"

    box = FunctionToolbox(kit)

    async def hear(progress: Any) -> None:
        received.append(progress)

    async def story() -> None:
        wait = asyncio.get_running_loop().run_in_executor
        task = asyncio.create_task(box.run(build_named_call(box, "work"), hear))
        assert await wait(None, begun.wait, HANG_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await wait(None, ended.wait, HANG_S)

    run(story)
    assert (seen, received) == ([False, True], [])


def test_cancelled_generator_is_closed_and_releases_its_thread() -> None:
    kit, closed = Toolkit("Endless"), threading.Event()

    @kit.tool
    def endless():  # type: ignore[no-untyped-def]  # what it yields is found out by running it
        try:
            while True:
                yield 1
        finally:
            closed.set()

    box = FunctionToolbox(kit)
    heard = 0

    async def story() -> None:
        enough = asyncio.Event()

        async def hear(_: Any) -> None:
            nonlocal heard
            heard += 1
            enough.set()

        task = asyncio.create_task(box.run(build_named_call(box, "endless"), hear))
        await enough.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.get_running_loop().run_in_executor(None, closed.wait, HANG_S)

    run(story)
    assert heard < 10_000


@pytest.mark.requirement("D-34")
def test_deadline_of_a_call_starts_at_its_acceptance() -> None:
    gate, kit, ran = Gate(), Toolkit("Gate"), list[int]()
    kit.add(gate.pass_through, name="slow")

    @kit.tool(timeout_s=0.05, approval="auto")
    def late() -> None:
        ran.append(1)

    box = FunctionToolbox(kit, threads=1)
    service = Service(box, checks=(), limits=ServerLimits(), scheduler=DeadlineScheduler())

    async def story() -> None:
        slow = asyncio.create_task(service.run(build_named_call(box, "slow")))
        await gate.begun(1)
        result, _ = await service.run(build_named_call(box, "late"))
        assert isinstance(result, Problem)
        assert result.kind is Kind.TIMEOUT
        gate.open()
        await slow

    run(story)
    assert ran == []


@pytest.mark.requirement("D-34", "AT-04")
def test_one_callers_slow_calls_over_the_network_leave_threads_to_another() -> None:
    gate, kit = Gate(), Toolkit("Gate")
    kit.add(gate.pass_through, name="slow", approval="auto")
    kit.add(lambda: "at once", name="quick", approval="auto")
    names = ("greedy", "modest")
    keys = [ApiKey(key=Secret(f"the key of {name}"), name=name) for name in names]
    with background(asgi(kit, api_keys=keys, limits=ServerLimits(threads=SIZE))) as url:

        async def story() -> None:
            greeter, other = (connect(url, api_key=f"the key of {name}") for name in names)
            async with greeter as greedy, other as modest:
                slow = [asyncio.create_task(greedy.call("slow")) for _ in range(60)]
                await gate.begun(SHARE)
                assert await modest.call("quick") == Value("at once")
                gate.open()
                assert await asyncio.gather(*slow) == [Value("through")] * len(slow)

        run(story)
