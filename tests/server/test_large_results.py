"""Large results are checked and converted in a thread, so that other calls are answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from toolwire import Toolkit
from toolwire.core.model import Call, Problem, Result, Value
from toolwire.define.native_values import PIECE
from toolwire.server.run.function_toolbox import LARGE_ITEMS, FunctionToolbox

_other_was_answered = threading.Event()
_waits: list[bool] = []
_threads: set[int] = set()


class Row(BaseModel):
    number: int

    @field_serializer("number")
    def note(self, number: int) -> int:
        _threads.add(threading.get_ident())
        if number == LARGE_ITEMS:  # in the middle of a large result: go on only when another call has been answered
            _waits.append(_other_was_answered.wait(20))
        return number


KIT = Toolkit("Rows")


@KIT.tool(approval="auto")
async def rows(count: int) -> list[Row]:
    """Give rows."""
    return [Row(number=number) for number in range(count)]


@KIT.tool(approval="auto")
async def plain_rows(count: int, last: float, wrapped: bool = False) -> Any:
    """Give rows of which the last one holds a number of the caller's choice, or infinity instead of -1."""
    found = [{"number": float(number)} for number in range(count - 1)]
    found.append({"number": float("inf") if last == -1 else last})
    return {"rows": found} if wrapped else found


@KIT.tool(approval="auto")
async def small() -> int:
    """Answer."""
    _other_was_answered.set()
    return 1


def call(name: str, **arguments: Any) -> Call:
    tool = KIT.catalog().names.get(name)
    assert tool is not None
    return Call(tool=tool, arguments=arguments, call_id="c1")


def test_another_call_is_answered_in_the_middle_of_a_large_result() -> None:
    result = asyncio.run(_call_beside_a_large_result())
    assert isinstance(result, Value)
    assert isinstance(result.value, list)
    assert result.value[-1] == {"number": LARGE_ITEMS + 9}
    assert _waits == [True]


async def _call_beside_a_large_result() -> Result:
    _other_was_answered.clear()
    _waits.clear()
    toolbox = FunctionToolbox(KIT)
    large = asyncio.create_task(toolbox.run(call("rows", count=LARGE_ITEMS + 10)))
    await asyncio.sleep(0)
    assert await toolbox.run(call("small")) == Value(1)
    return await large


def test_a_small_result_needs_no_thread() -> None:
    _threads.clear()
    asyncio.run(FunctionToolbox(KIT).run(call("rows", count=LARGE_ITEMS)))
    assert _threads == {threading.get_ident()}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("count", [LARGE_ITEMS, LARGE_ITEMS + 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1])
def test_each_row_of_a_large_result_is_checked(count: int, wrapped: bool) -> None:
    toolbox = FunctionToolbox(KIT)
    good = asyncio.run(toolbox.run(call("plain_rows", count=count, last=1.0, wrapped=wrapped)))
    assert isinstance(good, Value)
    bad = asyncio.run(toolbox.run(call("plain_rows", count=count, last=-1, wrapped=wrapped)))
    assert isinstance(bad, Problem)
