"""JSON text: strict, exact, bounded, and never an exception for what came over the wire."""

import json
import math
import sys
from collections.abc import Callable
from types import FrameType, MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolwire.core.http import Request
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)
LONG = b"12345678901234567890"


def read_refusal(text: bytes) -> str:
    found = jsontext.read(text)
    assert isinstance(found, Problem)
    assert found.kind is Kind.MALFORMED
    return found.message


@pytest.mark.requirement("CV-33")
@given(DATA)
@example({"a": 2**64, "b": [-(2**200), 10**400, 0.1, "é\u2028\x00😀"]})
def test_written_json_is_read_back_unchanged(data: Any) -> None:
    assert jsontext.read(jsontext.write(data)) == data


@pytest.mark.requirement("D-16", "R5")
@given(st.binary(max_size=60) | st.text('[]{}",:0123456789eE+-.\\ udDfnN', max_size=60).map(str.encode))
@example(b'"\\ud800"')
@example(b'["\\ud800",' + LONG + b"]")
@example(b"\xef\xbb\xbf" + LONG)
def test_any_bytes_are_read_as_json_or_a_problem(text: bytes) -> None:
    found = jsontext.read(text)
    if isinstance(found, Problem):
        assert found.kind is Kind.MALFORMED
        assert found.message.endswith(".")
    else:
        assert json.loads(text) == found


@pytest.mark.requirement("S-16", "D-16", "R10")
@pytest.mark.parametrize(
    "text",
    [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b'"\xff"', b'"\\ud800"', b'"\\udc00\\ud800"', b"", b" ",
     b"{,}", b"[1,]", b"{'a':1}", b"01", b"+1", b"1.", b".5", b"0x10", b'"\n"', b"[1] 2", b"nul"],
)  # fmt: skip
def test_invalid_json_is_refused_with_and_without_long_numbers(text: bytes) -> None:
    assert "not valid JSON" in read_refusal(text)
    assert "not valid JSON" in read_refusal(b"[" + LONG + b"," + text + b"]")


@pytest.mark.requirement("D-16", "CV-33")
@pytest.mark.parametrize("sign", [b"", b"-"])
def test_an_integer_is_exact_up_to_4300_digits(sign: bytes) -> None:
    assert jsontext.read(sign + b"7" * 4_300) == int(sign + b"7" * 4_300)
    assert read_refusal(sign + b"7" * 4_301).endswith("a number has more than 4,300 digits.")


def test_a_float_next_to_a_long_integer_is_finite() -> None:
    assert jsontext.read(b"[1e308," + LONG + b"]") == [1e308, int(LONG)]
    assert "too large" in read_refusal(b"[1e309," + LONG + b"]")
    found = jsontext.read(LONG + b".5")
    assert isinstance(found, float)
    assert math.isfinite(found)


@pytest.mark.requirement("XL-012", "R10")
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_200_levels_are_read_and_201_are_not(opening: bytes, closing: bytes) -> None:
    found: Any = jsontext.read(opening * 200 + b"1" + closing * 200)
    for _ in range(200):
        (found,) = found.values() if isinstance(found, dict) else found
    assert found == 1
    assert "deeper than 200" in read_refusal(opening * 201 + b"1" + closing * 201)


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("text", [b"[" * 1_000_000, b"[" * 500_000 + b"]" * 500_000, b'{"":' * 200_000 + LONG])
def test_a_million_levels_are_refused(text: bytes) -> None:
    assert "deeper than 200" in read_refusal(text)


def count_c_calls(run: Callable[[], object]) -> int:
    """Return how many functions in C ``run`` calls."""
    calls = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.requirement("AT-38")
@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (b"[" * 1_000_000, 2),  # refused in the second block, whatever follows
        (b"[" * 500_000 + b"]" * 500_000, 2),
        (b'{"a":[' + b",".join([b"[" * 199 + b"]" * 199] * 2_500) + b"]}", 7_800),
        (b"[" * 199 + b"[1," * 100_000, 2),
        (b"[" + b"[[],[]]," * 120_000 + b"1]", 3_800),
    ],
)
def test_depth_is_found_in_one_pass_over_the_brackets(text: bytes, blocks: int) -> None:
    """Six calls for each block of 128 brackets and some for the whole: 202 passes made 200 times as many steps."""
    assert count_c_calls(lambda: jsontext.read(text)) <= 6 * blocks + 60


@pytest.mark.requirement("AT-38")
def test_digits_of_a_long_string_are_looked_at_in_one_step() -> None:
    text = b'{"a":"' + b"1" * 1_000_000 + b'"}'
    assert jsontext.read(text) == {"a": "1" * 1_000_000}
    assert count_c_calls(lambda: jsontext.read(text)) <= 60


def test_brackets_in_strings_are_not_levels() -> None:
    text = ["[" * 300, '"{' * 300, "\\" * 301 + "["]
    assert jsontext.read(json.dumps(text).encode()) == text


def test_wide_json_is_not_counted_as_deep() -> None:
    assert jsontext.read(b"[" + b",".join([b"[{}]"] * 1_000) + b"]") == [[{}]] * 1_000


@given(st.integers(0, 230), st.integers(0, 230))
def test_depth_of_json_is_the_depth_of_its_deepest_part(one: int, other: int) -> None:
    text = b'["]",' + b"[" * one + b"]" * one + b"," + b'{"":' * other + b"1" + b"}" * other + b"]"
    found = jsontext.read(text.replace(b",,", b","))
    assert isinstance(found, Problem) == (max(one, other) > 199)


def test_writing_a_non_json_object_raises_type_error() -> None:
    with pytest.raises(TypeError, match="object is not JSON data"):
        jsontext.write({"a": object()})


def test_numeric_keys_are_written_as_strings() -> None:
    assert jsontext.write({1: 2}) == b'{"1":2}'


def request(body: bytes, content_type: str | None) -> Request:
    headers = () if content_type is None else ((b"content-type", content_type.encode()),)
    return Request("POST", "/", headers, body)


@pytest.mark.requirement("A-29")
@pytest.mark.parametrize(
    "media",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "text/json",
        "application/problem+json",
        "application/json ",
    ],
)
def test_every_json_media_type_is_accepted(media: str) -> None:
    assert jsontext.read_object(request(b'{"a":1}', media)) == {"a": 1}


@pytest.mark.requirement("A-29")
@pytest.mark.parametrize("media", [None, "", "text/plain", "application/x-www-form-urlencoded", "image/x+json", "json"])
def test_every_other_type_is_refused(media: str | None) -> None:
    found = jsontext.read_object(request(b'{"a":1}', media))
    assert isinstance(found, Problem)
    assert found.kind is Kind.UNSUPPORTED_TYPE


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"null", "null"), (b"true", "a boolean"), (b"1.5", "a number"), (b'"x"', "a string"), (b"[]", "an array")],
)
def test_non_object_json_is_refused_with_its_json_type(body: bytes, said: str) -> None:
    found = jsontext.read_object(request(body, "application/json"))
    assert isinstance(found, Problem)
    assert found.message == f"The body must be a JSON object, not {said}."


def test_json_syntax_is_checked_before_the_type() -> None:
    found = jsontext.read_object(request(b"{", "application/json"))
    assert isinstance(found, Problem)
    assert found.kind is Kind.MALFORMED


def test_get_object_returns_an_empty_object_for_other_types() -> None:
    assert jsontext.get_object({"a": {"b": 1}}, "a") == {"b": 1}
    assert jsontext.get_object({"a": [1]}, "a") == jsontext.get_object({}, "a") == {}
    assert jsontext.describe_type({}) == "an object"


def test_json_write_accepts_any_mapping_but_no_set() -> None:
    assert jsontext.write(MappingProxyType({"a": MappingProxyType({})})) == b'{"a":{}}'
    with pytest.raises(TypeError, match="set is not JSON data"):
        jsontext.write({1})


@pytest.mark.parametrize("odd", [2**70, -(2**70), "\ud800", "é", None])
def test_equal_data_has_the_same_canonical_json(odd: Any) -> None:
    one, other = jsontext.write_canonical({"b": odd, "a": [1]}), jsontext.write_canonical({"a": [1], "b": odd})
    assert one == other
    assert json.loads(one) == {"a": [1], "b": odd}
    assert one != jsontext.write_canonical({"a": [2], "b": odd})


_MEBIBYTE = 1_048_576


@pytest.mark.requirement("S-16", "D-16")
@pytest.mark.parametrize("before", range(_MEBIBYTE - 14, _MEBIBYTE + 2))
def test_large_json_is_read_the_same_at_any_chunk_boundary(before: int) -> None:
    odd = '\\"é\\\\"[[{{"\\\\\\\\日😀' + "[" * 300
    data = {"a": "x" * before + odd, "b": [odd, {"c": odd}]}
    for text in (json.dumps(data), json.dumps(data, ensure_ascii=False)):
        assert jsontext.read_without_duplicates(text.encode()) == data
        assert jsontext.read(text.encode()) == data
        too_deep = text[:-1] + ',"d":' + "[" * 200 + "]" * 200 + "}"
        assert isinstance(jsontext.read_without_duplicates(too_deep.encode()), Problem)


def test_a_large_text_that_is_not_utf_8_is_refused() -> None:
    for at in (_MEBIBYTE - 3, _MEBIBYTE - 2, _MEBIBYTE):
        found = jsontext.read_without_duplicates(b'{"a":"' + b"x" * at + b'\xc3"}')
        assert isinstance(found, Problem)
        assert "UTF-8" in found.message


@pytest.mark.requirement("D-16")
def test_last_of_repeated_names_counts_in_a_text_of_any_size() -> None:
    text = b'{"what": "first", "wh\\u0061t": "last"%s}'
    assert jsontext.read(text % b"") == {"what": "last"}
    assert jsontext.read(text % (b" " * jsontext.LARGE_BYTES)) == {"what": "last"}
    assert isinstance(jsontext.read_without_duplicates(text % b""), Problem)
