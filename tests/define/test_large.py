"""Large data: judged in passes that run in C, with the verdict of a look at each value."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire import Problem, Toolkit, Value
from toolwire.define.native_values import build_matcher, is_plain_json, match_anything
from toolwire.define.plain_types import build_core_schema

ROWS = [
    {"id": i, "name": f"name {i}", "price": i * 1.5, "ok": True, "note": None, "tags": ["a", "b"]} for i in range(5_000)
]


class Row(TypedDict):
    id: int
    name: str
    price: float
    ok: bool
    note: str | None
    tags: list[str]


@dataclass
class Item:
    id: int
    name: str
    price: float
    ok: bool
    note: str | None
    tags: list[str]


def of_any(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


def of_typed_dicts(rows: list[Row]) -> list[Row]:
    return rows


def of_dataclasses(rows: list[Item]) -> list[Item]:
    return rows


def calls(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return what ``work`` returns, and how many functions of Python it called."""
    called = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal called
        called += event == "call"

    gc.collect()
    gc.disable()  # what other tests left would be counted where it is let go of
    sys.setprofile(count)
    try:
        return work(), called
    finally:
        sys.setprofile(None)
        gc.enable()


@pytest.mark.parametrize("tool", [of_any, of_typed_dicts, of_dataclasses])
def test_rows_are_read_and_written_without_a_call_for_each(tool: Callable[..., Any]) -> None:
    function = Toolkit("Rows").add(tool)
    read, reading = calls(lambda: function.read({"rows": ROWS}))
    assert not isinstance(read, Problem)
    returned = function.call(**read)
    written, writing = calls(lambda: function.write(returned))
    assert written == Value(ROWS)
    assert reading < 100
    assert writing < 100


class Text(str):
    """A text that is no JSON data yet."""

    __slots__ = ()


SCALARS = st.sampled_from([1, "a", "é", 1.5, True, None])
ODD = st.sampled_from([float("nan"), "\ud800", Text("x"), (1,), b"x", {1: 2}, {Text("k"): 1}, {"\ud800": 1}, 10**30])
VALUES = st.recursive(
    st.one_of(SCALARS, SCALARS, SCALARS, ODD),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(
    [
        *(Any, int, str, float, bool, str | None, int | str | None, float | list[int], list[str], list[Any]),
        *(dict[str, Any], dict[str, float | None], list[dict[str, int]], dict[str, list[Any]]),
    ]
)


@given(TYPES, st.lists(VALUES, min_size=1, max_size=3), st.sampled_from([is_plain_json, match_anything]))
def test_matcher_of_a_list_agrees_with_the_matcher_of_each_item(
    kind: Any, values: list[Any], of: Callable[[Any], bool]
) -> None:
    one, every = (build_core_schema(each) for each in (kind, list[kind]))
    assert one is not None
    assert every is not None
    each, together = build_matcher(one, of), build_matcher(every, of)
    assert each is not None
    assert together is not None
    assert together(values * 40) is all(map(each, values))


@pytest.mark.parametrize(("depth", "fits"), [(199, True), (200, False)])
def test_depth_limit_is_the_same_for_one_and_for_many_values(depth: int, fits: bool) -> None:
    value: Any = [1]
    for _ in range(depth):
        value = [value]
    assert is_plain_json(value) is fits
    assert is_plain_json([*value] * 50) is fits
