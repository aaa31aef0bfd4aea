"""Functions as a toolbox: where each kind runs, and what becomes of what it gives or raises."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Generator

import pytest

from toolwire import Context, ToolError, Toolkit
from toolwire.core.model import AFTER_START, Call, Json, Kind, Problem, Progress, Result, Tool, Value
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.server.run.stored_items import MAX_ITEMS

KIT = Toolkit("Kinds")
HERE = threading.get_ident


@KIT.tool
async def on_the_loop() -> int:
    """Run on the event loop."""
    return HERE()


@KIT.tool
def in_a_thread() -> int:
    """Run in a thread."""
    return HERE()


@KIT.tool(inline=True)
def inline() -> int:
    """Run on the event loop, too."""
    return HERE()


@KIT.tool
async def count(to: int) -> AsyncGenerator[int, None]:
    """Count."""
    for number in range(to):
        yield number


@KIT.tool
def count_in_a_thread(to: int) -> Generator[int, None, None]:
    """Count in a thread."""
    yield from range(to)


@KIT.tool
def fail() -> str:
    """Say why it cannot."""
    raise ToolError("No milk.", developer_message="fridge 7", can_retry=True, retry_after_ms=5)


@KIT.tool
async def crash() -> str:
    """Have a bug."""
    raise LookupError("inside")


@KIT.tool
async def infinite() -> float:
    """Return what JSON cannot say."""
    return float("inf")


@KIT.tool
async def some_infinite() -> AsyncGenerator[float, None]:
    """Send what JSON cannot say."""
    yield 1.0
    yield float("inf")


@KIT.tool
def some_infinite_in_a_thread() -> Generator[float, None, None]:
    """Send what JSON cannot say, from a thread."""
    yield float("inf")


@KIT.tool
async def whose(context: Context) -> str:
    """Say who calls."""
    return context.principal


@KIT.tool
async def double(number: int) -> int:
    """Double a number."""
    return number * 2


def run(name: str, arguments: dict[str, Json] | None = None, heard: list[Json] | None = None) -> Result:
    box = FunctionToolbox(KIT)
    tool = box.catalog().find(name)
    assert isinstance(tool, Tool)

    async def notify(progress: Progress) -> None:
        if heard is not None:
            heard.append(progress.value)

    return asyncio.run(box.run(Call(tool, arguments or {}, "c9", Context(principal="ada")), notify))


def problem(result: Result) -> Problem:
    assert isinstance(result, Problem)
    return result


def test_coroutines_and_inline_functions_run_on_the_event_loop_and_others_in_threads() -> None:
    assert run("on_the_loop") == run("inline") == Value(HERE())
    assert run("in_a_thread") != Value(HERE())


@pytest.mark.parametrize("name", ["count", "count_in_a_thread"])
def test_generator_items_are_sent_as_progress_and_returned_as_a_list(name: str) -> None:
    received: list[Json] = []
    assert run(name, {"to": 3}, received) == Value([0, 1, 2])
    assert received == [0, 1, 2]


@pytest.mark.parametrize("name", ["count", "count_in_a_thread"])
def test_endless_generator_is_stopped(name: str) -> None:
    found = problem(run(name, {"to": MAX_ITEMS + 1}))
    assert (found.kind, found.message) == (Kind.TOOL_FAILED, f"{name} sent more than 10,000 items.")


@pytest.mark.requirement("OTC-028", "OTC-029", "OTC-030", "OTC-032")
def test_tool_error_becomes_a_problem_with_its_fields() -> None:
    found = problem(run("fail"))
    assert (found.kind, found.message, found.developer_message) == (Kind.TOOL_FAILED, "No milk.", "fridge 7")
    assert (found.can_retry, found.retry_after_ms) == (True, 5)


def test_other_exception_is_logged_with_the_call_and_hidden(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "toolwire"):
        found = problem(run("crash"))
    assert (found.kind, found.message) == (Kind.TOOL_FAILED, "crash failed. See the server's log.")
    assert found.developer_message == "LookupError: inside"
    assert "tool Kinds.crash@1.0.0 failed in call c9" in caplog.text


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("error", [SystemExit(3), SystemExit(), asyncio.CancelledError()])
def test_exit_or_cancellation_raised_by_a_tool_is_a_tool_failure(error: BaseException, inline: bool) -> None:
    kit = Toolkit("Kit")

    def leave() -> None:
        raise error

    async def leave_too() -> None:
        raise error

    def leave_between() -> Generator[int, None, None]:
        yield 1
        raise error

    kit.add(leave, inline=inline)
    kit.add(leave_too)
    kit.add(leave_between)
    box = FunctionToolbox(kit)
    for tool in box.catalog().tools:
        found = asyncio.run(box.run(Call(tool, {})))
        assert isinstance(found, Problem)
        assert found.kind is Kind.TOOL_FAILED


def test_cancelled_call_cancels_its_tool() -> None:
    kit = Toolkit("Kit")

    async def wait() -> None:
        await asyncio.Event().wait()

    kit.add(wait)
    box = FunctionToolbox(kit)

    async def story() -> None:
        task = asyncio.create_task(box.run(Call(box.catalog().tools[0], {})))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())


@pytest.mark.requirement("S-16")
@pytest.mark.parametrize("name", ["infinite", "some_infinite", "some_infinite_in_a_thread"])
def test_result_without_json_equivalent_is_a_failure_of_the_tool(name: str) -> None:
    assert problem(run(name)).kind in AFTER_START


def test_tool_can_read_its_call_context() -> None:
    assert run("whose") == Value("ada")


@pytest.mark.requirement("S-15")
def test_invalid_arguments_are_named() -> None:
    found = problem(run("double", {"number": "many"}))
    assert found.kind is Kind.INVALID_ARGUMENTS
    assert list(found.parameter_errors) == ["number"]


def test_equal_tool_object_is_found_by_its_id() -> None:
    box = FunctionToolbox(KIT)
    result = asyncio.run(box.run(Call(Tool(name="double", toolkit="Kinds"), {"number": 2})))
    assert result == Value(4)


def test_a_tool_of_another_toolkit_is_unknown() -> None:
    found = problem(asyncio.run(FunctionToolbox(KIT).run(Call(Tool(name="double", toolkit="Other"), {}))))
    assert found.kind is Kind.UNKNOWN_TOOL


def test_a_tool_that_is_added_later_can_be_called() -> None:
    kit = Toolkit("Growing")
    box = FunctionToolbox(kit)
    before = box.catalog()
    assert box.catalog() is before

    @kit.tool
    async def late() -> str:
        """Come late."""
        return "here"

    (tool,) = box.catalog().tools
    assert asyncio.run(box.run(Call(tool, {}))) == Value("here")


def test_worker_threads_do_not_exceed_their_limit() -> None:
    kit = Toolkit("Threads")
    both = threading.Barrier(2)

    @kit.tool
    def meet() -> bool:
        """Meet another call."""
        try:
            both.wait(timeout=0.05)
        except threading.BrokenBarrierError:
            return False
        return True

    (tool,) = kit.catalog().tools

    async def twice(threads: int) -> list[Result]:
        both.reset()
        box = FunctionToolbox(kit, threads=threads)
        return list(await asyncio.gather(box.run(Call(tool, {})), box.run(Call(tool, {}))))

    assert asyncio.run(twice(1)) == [Value(False)] * 2
