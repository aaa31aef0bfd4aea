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


IDENTIFIERS = [
    ("Her account is DE89 3704 0044 0532 0130 00.", "DE89370400440532013000"),
    ("DE89370400440532013000", "pay to de89 3704 0044 0532 0130 00 today"),
    ("NO93 8601 1117 947", "NO9386011117947"),
    ("4111 1111 1111 1111", "card=4111-1111-1111-1111"),
    (4111111111111111, "4111 1111 1111 1111"),
    ("call +49 (170) 123-4567", "491701234567"),
    ("+1 415 555 0132", 14155550132),
    ("ann.miller@example.org", "Ann.Miller@example.org"),
    ("C01X00T478", "passport c01x00t478"),
    ("078-05-1120-9", "0780511209"),
]


@pytest.mark.requirement("AT-54")
@pytest.mark.parametrize(("said", "sent"), IDENTIFIERS)
def test_identifier_that_is_shorter_than_a_copy_is_found(said: object, sent: object) -> None:
    for value in (said, {"deep": [said, "x"]}):
        traces = DataFlow()
        traces.add_texts("a", list_texts(value))
        assert traces.find_sources("b", {"to": {"it": [sent]}}) == ("a",)
        assert traces.find_sources("a", {"to": sent}) == ()
    streamed = DataFlow()
    streamed.add_piece("a", {"said": said, "name": "x"})
    streamed.add_piece("a", "and more")
    streamed.end_stream("a")
    assert streamed.find_sources("b", sent) == ("a",)


@pytest.mark.requirement("AT-54")
@pytest.mark.parametrize(
    "text",
    [
        "2026-11-26",
        "2026-11-26T10:00:00Z",
        "2026-11-26 10:00",
        "a lamp",
        "version 1.0.0",
        "blue-green",
        "12345",
        123456789,
    ],
)
def test_dates_words_and_short_numbers_identify_nobody(text: object) -> None:
    traces = DataFlow()
    traces.add_texts("a", list_texts(text))
    assert traces.find_sources("b", {"x": text}) == ()


@pytest.mark.requirement("AT-54")
def test_identifiers_of_a_hostile_text_are_found_in_linear_work() -> None:
    traces = DataFlow()
    for text in ("1 " * 400_000, "a1" * 400_000, "a.b@" * 200_000, "aa11 " * 150_000, "a" * 800_000):
        traces.add_texts("a", list_texts(text))
    assert traces.find_sources("b", "4111 1111 1111 1112") == ()
