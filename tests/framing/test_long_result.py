"""A long result comes in parts, and every value of it can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Problem
from toolwire.framing.long_result import cut_result, describe_shape, read_part
from toolwire.framing.truncate_json import truncate

pytestmark = pytest.mark.requirement("QF-10")

ORDERS = {
    "orders": [{"id": number, "total": number * 2, "note, long": "x" * 60, "lines": [{"sku": f"s{number}"}]}
               for number in range(500)],
    "next": "abc",
    "log": "one line\n" * 2_000,
}  # fmt: skip
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def measure(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def read(value: Any, characters: int = 10_000, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    part = read_part(value, arguments, characters)
    assert not isinstance(part, Problem), part
    assert measure(part.value) <= characters + 2
    return part.value, dict(part.notes)


def refuse(value: Any, **arguments: Any) -> str:
    part = read_part(value, arguments, 1_000)
    assert isinstance(part, Problem)
    return part.message


@pytest.mark.requirement("XL-103")
@pytest.mark.parametrize(
    "data",
    [
        list(range(5_000)),
        ORDERS,
        {"text": "line\n" * 5_000, "id": 7},
        {"a": ["é" * 9_000, "b"], "c": {"d": ['"' * 9_000]}},
        [{"only": "y" * 20_000}],
        "z" * 20_000,
        "many\nlines\n" * 5_000,
        {f"k{number}": number for number in range(3_000)},
    ],
)
def test_the_first_part_has_the_shape_of_the_whole_and_says_that_it_is_a_part(data: Any) -> None:
    value, notes = cut_result(data, 10_000, "read_result", "h1")
    assert type(value) is type(data)
    assert 5_000 < measure(value) <= 8_002
    whole = len(data) if isinstance(data, str) else measure(data)
    assert (notes["truncated"], notes["handle"], notes["total_characters"]) == (True, "h1", whole)
    assert "read_result" in str(notes["advice"])
    if data is ORDERS:
        assert (value["next"], value["orders"][0]) == ("abc", ORDERS["orders"][0])  # type: ignore[index]  # a dict
        assert notes["shape"] == "{orders: 500 of {id, total, note, long, lines: 1 of {sku}}, next, log}"
    elif isinstance(data, list | str) and "next" in notes:
        rest, _ = read(data, **{"from": notes["next"], "count": 1})
        assert rest == data[len(value) : len(value) + len(rest)]


def test_a_path_leads_to_a_value_a_column_or_several_columns() -> None:
    assert read(ORDERS, path="/orders/3/total") == (6, {})
    assert read(ORDERS, path="orders/3/total") == (6, {})
    assert read(ORDERS, path="/orders/*/id", **{"from": 2, "count": 3}) == (
        [2, 3, 4],
        {"from": 2, "count": 3, "total": 500, "next": 5},
    )
    assert read(ORDERS, path="/orders/*/id,total", count=1)[0] == [{"id": 0, "total": 0}]
    assert read(ORDERS, path="/orders/*/note, long", count=1)[0] == ["x" * 60]
    assert read(ORDERS, path="/orders/*/lines/*/sku", count=1)[0] == [["s0"]]
    assert read([{"a": 1}, {}], path="/*/a")[0] == [1, None]
    assert read({"a": 1, "b": 2, "c": 3}, **{"from": 1, "count": 1})[0] == {"b": 2}
    assert read(ORDERS, path="/log", **{"from": 10, "count": 2})[0] == "one line\n" * 2


def test_a_part_that_leads_nowhere_says_what_there_is() -> None:
    assert "orders: 500 of {id" in refuse(ORDERS, path="/order")
    assert "This result has no '/orders/*/ids'" in refuse(ORDERS, path="/orders/*/ids")
    assert refuse([1, 2], **{"from": 2}) == "'' has 2 items. \"from\" must be 0 to 1."
    assert '"count"' in refuse([1], count=0)
    assert '"from"' in refuse([1], **{"from": -1})
    assert '"path"' in refuse([1], path=3)


def test_what_is_too_long_for_a_part_is_named_with_its_path() -> None:
    data = {"rows": [{"text": "line\n" * 900}, {"text": "short"}]}
    value, notes = read(data, 1_000, path="/rows")
    assert notes == {"from": 0, "count": 1, "total": 2, "next": 1, "truncated": True, "path_of_whole": "/rows/0"}
    assert value[0]["text"].startswith("line\n")
    column, notes = read(data, 1_000, path="/rows/*/text")
    assert (len(column), notes["path_of_whole"]) == (1, "/rows/0")
    text, notes = read(data, 1_000, path="/rows/0/text")
    assert text == "line\n" * notes["count"]
    assert notes["total"] == 900


@given(st.lists(st.text(max_size=300)) | st.text() | st.text(alphabet="a\n\u2028\r", max_size=3_000))
def test_the_parts_together_are_the_whole(whole: Any) -> None:
    found, start = whole[:0], 0
    while start is not None:
        value, notes = read(whole, 1_000, **{"from": start})
        assert "truncated" not in notes
        found, start = found + value, notes.get("next")
    assert found == whole


@given(JSON_VALUES, st.integers(40, 400))
def test_any_data_can_be_truncated_to_its_limit(value: Any, characters: int) -> None:
    assert measure(truncate([value], characters)) <= max(characters, 2)
    assert measure(cut_result(value, characters, "read_result", "h").value) <= characters + 2


@given(JSON_VALUES)
def test_the_shape_of_any_value_is_short(value: Any) -> None:
    assert isinstance(describe_shape(value), str)
