"""One call, from what was read to how it ended."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from tests.interleaving import interrupt_each_await
from toolwire.core.catalog import Catalog
from toolwire.core.check import ALLOW, Allow, Ask, Check, Deny, KnownResult, Question, Verdict
from toolwire.core.model import Approval, Call, Context, Kind, Problem, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.server.asking.confirmation import DeferredVerdict
from toolwire.server.deadline_scheduler import DeadlineScheduler
from toolwire.server.limits import ServerLimits
from toolwire.server.run.service import Service

TOOL = Tool(name="x", toolkit="Kit")
CALL = Call(TOOL, {}, "c1")
NO = Problem(kind=Kind.FORBIDDEN, message="No.")


class Box:
    """A toolbox that does what its tool's name says."""

    def __init__(self) -> None:
        self.ran = 0
        self.started = asyncio.Event()

    def catalog(self) -> Catalog:
        return Catalog(tools=(TOOL,))

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        self.ran += 1
        self.started.set()
        match call.tool.name:
            case "crash":
                raise LookupError("inside")
            case "wait":
                await asyncio.Event().wait()
            case "stubborn":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    return Value("too late")
        return Value(1)


def build_service(box: Box, *checks: Check, limits: ServerLimits | None = None) -> Service:
    return Service(box, checks=checks, limits=limits or ServerLimits(), scheduler=DeadlineScheduler())


def run(call: Call, *checks: Check, limits: ServerLimits | None = None) -> tuple[Result, int]:
    async def once() -> tuple[Result, int]:
        box = Box()
        service = build_service(box, *checks, limits=limits)
        result, duration = await service.run(call)
        assert duration >= 0
        assert service.active_calls == 0
        return result, box.ran

    return asyncio.run(once())


def says(verdict: Verdict) -> Check:
    return lambda _: verdict


QUESTION = Question(CALL, "", "", Approval.PER_CALL)


@pytest.mark.parametrize(
    ("verdicts", "result", "ran"),
    [
        ([], Value(1), 1),
        ([ALLOW, Allow(), ALLOW], Value(1), 1),
        ([ALLOW, Deny(NO)], NO, 0),
        ([Allow(), Deny(NO), KnownResult(Value(2))], NO, 0),
        ([KnownResult(Value(2)), Deny(NO)], Value(2), 0),
    ],
)
def test_the_first_check_that_does_not_allow_decides(verdicts: list[Verdict], result: Result, ran: int) -> None:
    assert run(CALL, *[says(verdict) for verdict in verdicts]) == (result, ran)


@pytest.mark.requirement("XL-053")
def test_question_without_an_approver_is_a_denial() -> None:
    result, ran = run(CALL, says(Ask(QUESTION)))
    assert isinstance(result, Problem)
    assert (result.kind, result.details, ran) == (Kind.DENIED, {"denied": True}, 0)


def test_exception_in_a_toolbox_is_an_internal_problem_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "toolwire"):
        result, _ = run(Call(Tool(name="crash", toolkit="Kit"), {}, "c7"))
    assert isinstance(result, Problem)
    assert result.kind is Kind.INTERNAL
    assert "inside" not in repr(result)
    assert "Kit.crash@1.0.0 failed in call c7" in caplog.text
    assert "LookupError: inside" in caplog.text


@pytest.mark.requirement("D-34")
@pytest.mark.parametrize("name", ["wait", "stubborn"])
def test_a_call_is_cancelled_at_the_limit_of_the_server(name: str) -> None:
    result, _ = run(Call(Tool(name=name), {}), limits=ServerLimits(tool_s=0.05))
    assert isinstance(result, Problem)
    assert result.kind is Kind.TIMEOUT
    assert result.message == f"{name} was cancelled: it took longer than 0.05 seconds."


@pytest.mark.requirement("D-34")
def test_shorter_time_limit_of_a_tool_applies_first() -> None:
    result, _ = run(Call(Tool(name="wait", timeout_s=0.02), {}))
    assert isinstance(result, Problem)
    assert "longer than 0.02 seconds" in result.message


def test_external_cancellation_is_passed_on() -> None:
    async def leave() -> int:
        box = Box()
        service = build_service(box)
        task = asyncio.create_task(service.run(Call(Tool(name="wait"), {})))
        await box.started.wait()
        assert service.active_calls == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return service.active_calls

    assert asyncio.run(leave()) == 0


@pytest.mark.requirement("R1", "A-41")
def test_call_above_the_concurrency_limit_does_not_run() -> None:
    async def crowd() -> tuple[Result, int]:
        box = Box()
        service = build_service(box, limits=ServerLimits(running=1))
        first = asyncio.create_task(service.run(Call(Tool(name="wait"), {})))
        await box.started.wait()
        result, _ = await service.run(CALL)
        first.cancel()
        await asyncio.wait([first])
        assert service.build_refusal() is None
        return result, box.ran

    result, ran = asyncio.run(crowd())
    assert isinstance(result, Problem)
    assert (result.kind, result.can_retry, result.retry_after_ms, ran) == (Kind.OVERLOADED, True, 1_000, 1)


@pytest.mark.requirement("R15")
def test_a_call_that_comes_while_draining_does_not_run() -> None:
    async def late() -> tuple[Result, int]:
        box = Box()
        service = build_service(box)
        service.draining = True
        result, _ = await service.run(CALL)
        return result, box.ran

    result, ran = asyncio.run(late())
    assert isinstance(result, Problem)
    assert (result.kind, result.can_retry, ran) == (Kind.OVERLOADED, True, 0)


@pytest.mark.requirement("R15")
def test_a_call_that_is_cancelled_while_draining_still_has_an_answer() -> None:
    async def stop() -> Result:
        box = Box()
        service = build_service(box)
        task = asyncio.create_task(service.run(Call(Tool(name="wait"), {})))
        await box.started.wait()
        service.draining = True
        task.cancel()
        result, _ = await task
        return result

    result = asyncio.run(stop())
    assert isinstance(result, Problem)
    assert (result.kind, result.message) == (Kind.CANCELLED, "wait was cancelled because the server stopped.")


def test_generator_exit_is_passed_on_and_leaves_no_deadline() -> None:
    class Leaving:
        def catalog(self) -> Catalog:
            return Catalog()

        async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
            raise GeneratorExit

    async def leave() -> int:
        service = Service(Leaving(), checks=(), limits=ServerLimits(tool_s=0.01), scheduler=DeadlineScheduler())
        with pytest.raises(GeneratorExit):
            await service.run(CALL)
        await asyncio.sleep(0.03)
        return service.active_calls

    assert asyncio.run(leave()) == 0


@pytest.mark.requirement("D-34", "AT-04")
def test_one_caller_cannot_occupy_all_running_calls() -> None:
    def of(principal: str) -> Call:
        return Call(Tool(name="wait"), {}, "c", Context(principal=principal))

    async def crowd() -> list[Result]:
        box = Box()
        service = build_service(box, limits=ServerLimits(running=4))
        first = [asyncio.create_task(service.run(of("greedy"))) for _ in range(2)]
        await asyncio.sleep(0)
        refused, _ = await service.run(of("greedy"))
        other = asyncio.create_task(service.run(of("modest")))
        await asyncio.sleep(0)
        running = service.active_calls
        for task in (*first, other):
            task.cancel()
        await asyncio.wait([*first, other])
        again, _ = await service.run(CALL._replace(context=Context(principal="greedy")))
        assert (running, service.active_calls) == (3, 0)
        return [refused, again]

    refused, again = asyncio.run(crowd())
    assert isinstance(refused, Problem)
    assert (refused.kind, refused.can_retry, refused.retry_after_ms) == (Kind.RATE_LIMITED, True, 1_000)
    assert again == Value(1)


@pytest.mark.requirement("A-53", "OTC-029")
@pytest.mark.parametrize("debug", [False, True])
def test_developer_message_is_sent_only_in_debug_and_without_traceback(debug: bool) -> None:
    reply = "KeyError: 'x'\nTraceback (most recent call last):\n  File \"secret.py\", line 1"
    problem = Problem(kind=Kind.TOOL_FAILED, message="It failed.", developer_message=reply)

    class Failing(Box):
        async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
            return problem

    async def once() -> Result:
        service = Service(Failing(), checks=(), limits=ServerLimits(), scheduler=DeadlineScheduler(), debug=debug)
        return (await service.run(CALL))[0]

    result = asyncio.run(once())
    assert isinstance(result, Problem)
    assert result.message == "It failed."
    assert result.details == ({"developer_message": "KeyError: 'x'"} if debug else {})


@pytest.mark.requirement("AT-58", "D-34")
@pytest.mark.parametrize("limits", [ServerLimits(running=3, running_each=3), ServerLimits(running=100, running_each=3)])
def test_calls_that_wait_for_a_database_count_as_running(limits: ServerLimits) -> None:
    asked, go = threading.Semaphore(0), threading.Event()

    def decide() -> Verdict:
        asked.release()
        assert go.wait(20)
        return ALLOW

    async def flood() -> tuple[list[Result], int]:
        box = Box()
        service = Service(
            box, checks=(lambda _: DeferredVerdict(decide),), limits=limits, scheduler=DeadlineScheduler()
        )
        call = CALL._replace(context=Context(principal="key:ann"))
        first = [asyncio.ensure_future(service.run(call)) for _ in range(3)]
        for _ in range(3):
            assert await asyncio.to_thread(asked.acquire, timeout=20)
        late = [await service.run(call) for _ in range(5)]
        go.set()
        done = await asyncio.gather(*first)
        assert service.active_calls == 0
        assert [result for result, _ in done] == [Value(1)] * 3
        return [result for result, _ in late], box.ran

    refused, ran = asyncio.run(flood())
    assert ran == 3
    assert {one.kind for one in refused if isinstance(one, Problem)} <= {Kind.OVERLOADED, Kind.RATE_LIMITED}
    assert not any(isinstance(one, Value) for one in refused)


@pytest.mark.requirement("AT-58")
def test_refused_call_frees_its_place_whatever_changes_while_it_waits() -> None:
    def make() -> Any:
        service = Service(
            Box(),
            checks=(lambda _: DeferredVerdict(lambda: Deny(NO)),),
            limits=ServerLimits(running=1),
            scheduler=DeadlineScheduler(),
        )

        async def first() -> tuple[Result, int]:
            result, _ = await service.run(CALL)
            return result, service.active_calls

        async def rival() -> None:
            result, _ = await service.run(CALL)
            assert isinstance(result, Problem)
            assert result.kind is Kind.OVERLOADED

        return first(), rival

    def check(found: tuple[Result, int]) -> None:
        assert found == (NO, 0)

    assert asyncio.run(interrupt_each_await(make, check)) >= 1
