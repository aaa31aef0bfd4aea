"""Text that goes from one connection to another is known again from twenty-four characters on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.consent.data_flow import MIN_MATCH, DataFlow, list_texts

WORDS = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=MIN_MATCH, max_size=200)


@pytest.mark.requirement("D-33")
@given(WORDS, st.text(max_size=60), st.text(max_size=60), st.data())
def test_any_twenty_four_characters_in_a_row_are_found(text: str, before: str, after: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - MIN_MATCH))
    traces = DataFlow()
    traces.add_texts("a", list_texts({"deep": [text]}))
    carried = before + text[start : start + MIN_MATCH].upper() + after
    assert traces.find_sources("b", {"x": [carried]}) == ("a",)
    assert traces.find_sources("a", {"x": [carried]}) == ()


@pytest.mark.requirement("D-33")
def test_less_than_that_is_not() -> None:
    traces = DataFlow()
    traces.add_texts("a", list_texts("abcdefghijklmnopqrstuvwxyz0123456789"))
    assert traces.find_sources("b", "!" * 30 + "abcdefghijklmnopqrstuvw" + "?" * 30) == ()
    assert traces.find_sources("b", "abcdefghijklmnopqrstuvw") == ()


def test_what_is_kept_is_bounded_and_the_latest() -> None:
    traces = DataFlow()
    for number in range(30):
        traces.add_texts("a", list_texts(f"{number:05d}" * 10_000))
    assert traces.find_sources("b", "00003" * 10) == ()
    assert traces.find_sources("b", "00029" * 10) == ("a",)


def test_texts_are_found_among_data_of_any_kind() -> None:
    traces = DataFlow()
    traces.add_texts("a", list_texts([None, 7, True, {"abcdefghijklmnopqrstuvwxyz": 1.5}]))
    assert traces.find_sources("b", [None, 7, {"a": "say ABCDEFGHIJKLMNOPQRSTUVWXYZ"}]) == ("a",)
