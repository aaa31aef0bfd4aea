"""Text that goes from one connection to another is known again from twenty-four characters on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.consent.data_flow import MIN_MATCH, DataFlow, list_texts

WORDS = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=MIN_MATCH, max_size=200)


@pytest.mark.requirement("D-33")
@given(WORDS, st.text(max_size=60), st.text(max_size=60), st.data())
def test_data_flow_finds_any_24_consecutive_characters_of_another_source(
    text: str, before: str, after: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text) - MIN_MATCH))
    traces = DataFlow()
    traces.add_texts("a", list_texts({"deep": [text]}))
    carried = before + text[start : start + MIN_MATCH].upper() + after
    assert traces.find_sources("b", {"x": [carried]}) == ("a",)
    assert traces.find_sources("a", {"x": [carried]}) == ()


@pytest.mark.requirement("D-33")
def test_data_flow_ignores_matches_shorter_than_24_characters() -> None:
    traces = DataFlow()
    traces.add_texts("a", list_texts("abcdefghijklmnopqrstuvwxyz0123456789"))
    assert traces.find_sources("b", "!" * 30 + "abcdefghijklmnopqrstuvw" + "?" * 30) == ()
    assert traces.find_sources("b", "abcdefghijklmnopqrstuvw") == ()


def test_data_flow_keeps_only_the_latest_texts_within_its_limit() -> None:
    traces = DataFlow()
    for number in range(30):
        traces.add_texts("a", list_texts(f"{number:05d}" * 10_000))
    assert traces.find_sources("b", "00003" * 10) == ()
    assert traces.find_sources("b", "00029" * 10) == ("a",)


def test_data_flow_finds_texts_in_any_json_data() -> None:
    traces = DataFlow()
    traces.add_texts("a", list_texts([None, 7, True, {"abcdefghijklmnopqrstuvwxyz": 1.5}]))
    assert traces.find_sources("b", [None, 7, {"a": "say ABCDEFGHIJKLMNOPQRSTUVWXYZ"}]) == ("a",)
