"""Where things stand in a JSON text: pointers, names that repeat, and where a text stops being JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.model import Problem
from toolwire.framing import jsontext
from toolwire.framing.positions import (
    PathStep,
    TextPosition,
    ValuePosition,
    build_pointer,
    find_duplicates,
    find_syntax_fault,
    has_duplicates,
    locate,
)

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def every(data: Any, steps: tuple[PathStep, ...] = ()) -> Iterator[tuple[tuple[PathStep, ...], Any]]:
    yield steps, data
    if isinstance(data, dict):
        for name, value in data.items():
            yield from every(value, (*steps, name))
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from every(value, (*steps, place))


def test_locate_returns_line_and_column_of_a_value_and_its_name() -> None:
    text = '{\n  "ü📚": [1,\n   {"b": "x"}]}'
    assert locate(text, ["", "/ü📚", "/ü📚/0", "/ü📚/1/b"]) == {
        "": ValuePosition(TextPosition(1, 1)),
        "/ü📚": ValuePosition(TextPosition(2, 9), TextPosition(2, 3)),
        "/ü📚/0": ValuePosition(TextPosition(2, 10)),
        "/ü📚/1/b": ValuePosition(TextPosition(3, 10), TextPosition(3, 5)),
    }


def test_locate_omits_a_pointer_to_an_absent_place() -> None:
    assert locate('{"a": [1]}', ["/b", "/a/1", "/a/0/x", "/a/-"]) == {}


def test_names_with_slashes_tildes_and_escapes_are_found() -> None:
    text = r'{"a/b": {"~": 1, "\u0041\"{": 2}}'
    assert set(locate(text, ["/a~1b/~0", '/a~1b/A"{'])) == {"/a~1b/~0", '/a~1b/A"{'}


def test_locate_does_not_confuse_an_array_item_with_a_member() -> None:
    assert locate('[{"0": 1}]', ["/0", "/0/0"]) == {
        "/0": ValuePosition(TextPosition(1, 2)),
        "/0/0": ValuePosition(TextPosition(1, 8), TextPosition(1, 3)),
    }


@given(data=DATA, indent=st.sampled_from([None, 1]), is_ascii=st.booleans())
def test_locate_finds_the_position_of_every_value(data: Any, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=is_ascii)
    lines = text.split("\n")
    values = {build_pointer(steps): value for steps, value in every(data)}
    places = locate(text, values)
    assert set(places) == set(values)
    for one, value in values.items():
        line, column = places[one].value
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == value


def test_locate_returns_the_last_of_repeated_names() -> None:
    assert locate('{"a": 1,\n"a": 2}', ["/a"]) == {"/a": ValuePosition(TextPosition(2, 6), TextPosition(2, 1))}


@pytest.mark.requirement("D-16")
def test_find_duplicates_reports_repeated_names_at_every_depth() -> None:
    text = '{"a": [{"b": 1,\n "b": {"c": 1, "\\u0063": 2}}],\n"a": 3}'
    assert has_duplicates(text)
    assert [(one.pointer, one.spot, one.first) for one in find_duplicates(text)] == [
        ("/a/0/b", TextPosition(2, 2), TextPosition(1, 9)),
        ("/a/0/b/c", TextPosition(2, 16), TextPosition(2, 8)),
        ("/a", TextPosition(3, 1), TextPosition(1, 2)),
    ]


@pytest.mark.parametrize(
    "text", ['[{"a": 1}, {"a": 1}]', '{"a": {"a": {"a": "a"}}, "b": "b"}', "[]", '"a"', "1" * 4_000]
)
def test_same_name_in_different_objects_is_no_duplicate(text: str) -> None:
    assert not has_duplicates(text)
    assert find_duplicates(text) == []


def test_find_duplicates_returns_the_first_ones_up_to_its_limit() -> None:
    text = "{" + ",".join(['"a": 1'] * 1_000) + "}"
    assert len(find_duplicates(text)) == 100
    assert len(find_duplicates(text, limit=7)) == 7


@given(data=DATA)
def test_serialized_json_contains_no_duplicate_names(data: Any) -> None:
    text = json.dumps(data)
    assert not has_duplicates(text)
    assert find_duplicates(text) == []


@pytest.mark.parametrize(
    ("text", "spot", "reason"),
    [
        (b"", TextPosition(1, 1), "Expecting value"),
        (b'{"a": 1,\n "b" 2}', TextPosition(2, 6), "Expecting ':' delimiter"),
        (b"[1, 2", TextPosition(1, 6), "Expecting ',' delimiter"),
        (b'["a",\n "\xff"]', TextPosition(2, 3), "it is not UTF-8 from here on"),
        ('["é",\n NaN]'.encode(), TextPosition(2, 2), "NaN is not allowed"),
        ('{"é": -Infinity}'.encode(), TextPosition(1, 7), "-Infinity is not allowed"),
        (b"[1, 1e999]", TextPosition(1, 5), "1e999 is not allowed"),
        (b'{"a": "\\ud800"}', TextPosition(1, 7), '"\\ud800" is not allowed'),
        (b"[" * 201 + b"]" * 201, TextPosition(1, 201), "it is nested deeper than 200 levels"),
        (b"[" * 100_000, TextPosition(1, 201), "it is nested deeper than 200 levels"),
        (b"[\n" + b"9" * 4_301 + b"]", TextPosition(2, 1), "9" * 40 + "... is not allowed"),
    ],
)
@pytest.mark.requirement("D-16")
def test_find_syntax_fault_returns_position_and_reason_for_invalid_json(
    text: bytes, spot: TextPosition, reason: str
) -> None:
    assert isinstance(jsontext.read(text), Problem)
    assert find_syntax_fault(text) == (spot, reason)


@given(text=st.binary(max_size=60) | st.text(alphabet='[]{}",:\\u0d8\n 1eNa', max_size=60).map(str.encode))
def test_any_text_is_valid_json_or_has_a_syntax_fault_position(text: bytes) -> None:
    if isinstance(jsontext.read(text), Problem):
        line, column = find_syntax_fault(text).spot
        assert 1 <= line <= text.count(b"\n") + 1
        assert 1 <= column <= len(text) + 1
    else:
        assert "" in locate(text.decode(), [""])


def test_find_syntax_fault_on_valid_json_points_to_the_start() -> None:
    assert find_syntax_fault(b'{"a": [1]}') == (TextPosition(1, 1), "it cannot be read")
