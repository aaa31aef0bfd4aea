"""What data looks like on a page: nothing is left out, and no text can do anything."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.framing.html import NO_HTML
from toolwire.framing.html_page import build_html_page, build_notice, build_quote, build_table
from toolwire.framing.html_value import build_value

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "|", html))


@pytest.mark.requirement("FU-32")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "yes"),
        (None, "|nothing|"),
        ("", "|an empty text|"),
        ([], "|none|"),
        (3, "3"),
        (1.5, "1.5"),
        ("2027-03-01", "|Monday, 1 March 2027|"),
        ("2027-13-01", "|2027-13-01|"),
        ("2027-03-01T10:05:00Z", "|1 March 2027, 10:05 UTC|"),
        ("a\u202eb", "|a<U+202E>b|"),
        ({"street": "Main 1"}, "||street|||Main 1|||"),
        (["a", "b"], "|||a||||b|||"),
    ],
)
def test_html_value_is_readable_text(value: Any, shown: str) -> None:
    assert read(build_value(value)) == shown


@pytest.mark.requirement("FU-32")
def test_html_value_shows_objects_as_table_and_folds_long_text() -> None:
    table = build_value([{"sku": "tea", "qty": 2}, {"sku": "cup"}])
    assert re.findall(r"<th [^>]*>(.*?)</th>", table) == ["sku", "qty"]
    assert [read(cell).strip("|") for cell in re.findall(r"<td[^>]*>(.*?)</td>", table)] == ["tea", "2", "cup", ""]
    assert "<table" not in build_value([{str(name): 1} for name in range(9)])
    long = build_value("x\n" * 7)
    assert "<details" in long
    assert "14 characters: show all of it" in long
    deep: Any = "end"
    for _ in range(9):
        deep = {"a": deep}
    assert '"end"' in read(build_value(deep))


@pytest.mark.requirement("D-25", "D-03")
@given(DATA)
def test_html_value_contains_no_markup_from_data(value: Any) -> None:
    html = build_value(value)
    names = "dl|dt|dd|ul|li|span|pre|div|table|thead|tbody|tr|th|td|time|details|summary"
    allowed = rf'</?(?:{names})(?: [a-z-]+(?:="[^"<>]*")?)*>'
    assert "<" not in re.sub(allowed, "", html)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    for text in find_texts(value):
        if text.isalnum() and text.isascii() and not re.fullmatch(r"[\d-]+", text):
            assert text in read(html)


def find_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in find_texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in find_texts(one)]
    return [value] if isinstance(value, str) else [json.dumps(value)] if value and value is not True else []


@pytest.mark.requirement("D-25")
def test_each_page_part_escapes_its_text() -> None:
    evil = "<script>\"'</script>"
    page = build_html_page(evil, NO_HTML, product=evil, home=evil, place=evil, foot=evil, script=evil)
    parts = build_notice(evil) + build_quote(evil, evil) + build_table([evil], [["x"]])
    assert "<script>" not in page + parts
    assert page.count("&lt;script&gt;") == 6
