"""Large results are checked and converted in a thread, so that other calls are answered meanwhile."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, field_serializer

from toolwire import Approval, Session, Toolkit, asgi, connect_sync
from toolwire.core.catalog import Catalog
from toolwire.core.codec import Codec
from toolwire.core.interpreter import INTERVAL_S
from toolwire.core.model import Call, Json, Problem, Result, Tool, Value
from toolwire.core.toolbox import Notify, ignore_progress
from toolwire.define.native_values import PIECE
from toolwire.framing import jsontext
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.server.run.large_results import LARGE_ITEMS, is_large, split_value
from toolwire.testing.loopback import background

_other_was_answered = threading.Event()
_is_written = threading.Event()
_waits: list[bool] = []
_threads: set[int] = set()
_intervals: set[float] = set()


class Row(BaseModel):
    number: int

    @field_serializer("number")
    def note(self, number: int) -> int:
        _threads.add(threading.get_ident())
        _intervals.add(round(sys.getswitchinterval(), 4))
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


@pytest.mark.requirement("P-07")
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


def test_small_result_is_converted_without_a_thread() -> None:
    _threads.clear()
    asyncio.run(FunctionToolbox(KIT).run(call("rows", count=LARGE_ITEMS)))
    assert _threads == {threading.get_ident()}


@pytest.mark.parametrize("more", [0, 1])
def test_threads_take_turns_more_often_while_a_large_result_is_converted(more: int) -> None:
    before = sys.getswitchinterval()
    _intervals.clear()
    _other_was_answered.set()
    asyncio.run(FunctionToolbox(KIT).run(call("rows", count=LARGE_ITEMS + more)))
    assert _intervals == {INTERVAL_S if more else round(before, 4)}
    assert sys.getswitchinterval() == before > INTERVAL_S


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("count", [LARGE_ITEMS, LARGE_ITEMS + 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1])
def test_each_row_of_a_large_result_is_checked(count: int, wrapped: bool) -> None:
    toolbox = FunctionToolbox(KIT)
    good = asyncio.run(toolbox.run(call("plain_rows", count=count, last=1.0, wrapped=wrapped)))
    assert isinstance(good, Value)
    bad = asyncio.run(toolbox.run(call("plain_rows", count=count, last=-1, wrapped=wrapped)))
    assert isinstance(bad, Problem)


class OneRow(Mapping[str, Json]):
    """A row of a Toolbox of another author, which JSON is written from by asking for its members."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __getitem__(self, name: str) -> Json:
        return self._number

    def __iter__(self) -> Iterator[str]:
        if self._number == LARGE_ITEMS:
            _is_written.set()
            _waits.append(_other_was_answered.wait(20))
        return iter(["number"])

    def __len__(self) -> int:
        return 1


class ForeignToolbox:
    """A Toolbox of another author, whose result is as large as its caller says."""

    def __init__(self) -> None:
        rows = Tool(name="rows", toolkit="Rows", approval=Approval.AUTO, safe=True)
        self._catalog = Catalog(title="Rows", tools=(rows, Tool(name="other", toolkit="Rows", safe=True)))

    def catalog(self) -> Catalog:
        return self._catalog

    async def run(self, call: Call, notify: Notify = ignore_progress) -> Result:
        if call.tool.name == "other":
            _other_was_answered.set()
            return Value("here")
        return Value({"found": {"rows": [OneRow(number) for number in range(LARGE_ITEMS + 10)]}})


@pytest.mark.requirement("D-34", "P-07")
def test_another_call_is_answered_while_a_large_result_is_written(codec: Codec) -> None:
    _other_was_answered.clear()
    _is_written.clear()
    _waits.clear()
    with (
        background(asgi(ForeignToolbox())) as url,
        ThreadPoolExecutor(1) as pool,
        connect_sync(url, protocol=codec.name, approve=lambda _: True, session=Session(traced=False)) as first,
        connect_sync(url, protocol=codec.name, approve=lambda _: True) as second,
    ):
        large = pool.submit(first.call, "rows")
        assert _is_written.wait(20)
        assert second.call("other") == Value("here")
        result = large.result(30)
    assert isinstance(result, Value)
    assert set(_waits) == {True}  # a call that is recorded is written twice


_rows = st.dictionaries(st.text(max_size=3), st.integers() | st.text() | st.none(), max_size=4)


@settings(max_examples=30)
@given(
    st.recursive(
        _rows | st.lists(st.integers()) | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
    )
)
def test_large_value_written_in_parts_equals_the_whole_text(value: Json) -> None:
    many: Json = [value] * (LARGE_ITEMS + 1)
    for large in (many, {"rows": many}, {"data": {"rows": many}}, [many, value], {"a": value, "b": [many] * 2}):
        assert jsontext.write(split_value(large)) == jsontext.write(large)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], False),
        ({}, False),
        ([1] * LARGE_ITEMS, False),
        ([1] * (LARGE_ITEMS + 1), True),
        ([[1] * 50] * 50, True),
        ([{"a": 1}] * 900, False),
        ({"data": {"items": [1] * (LARGE_ITEMS + 1)}}, True),
        ({str(number): 1 for number in range(LARGE_ITEMS + 1)}, True),
        ("a" * 100_000, False),
    ],
)
def test_result_is_large_by_its_number_of_items(value: Any, expected: bool) -> None:
    assert (type(value) in (list, dict) and is_large(value)) is expected
