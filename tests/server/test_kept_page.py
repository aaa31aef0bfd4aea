"""The page at / without any input is built once, and not again for a request that has its tag."""

from __future__ import annotations

import pytest

from toolwire import Toolkit
from toolwire.server.page.index_page import IndexPage, View

pytestmark = pytest.mark.requirement("GR-06")


def test_page_without_input_is_kept() -> None:
    kit = Toolkit("Shop")
    page = IndexPage(kit.catalog(), ())
    plain = page.build(View(base="http://a.example"))
    assert page.build(View(base="http://a.example")) is plain
    other = page.build(View(base="http://b.example"))
    assert b"http://b.example" in other.body
    assert b"http://b.example" not in plain.body
    searched = page.build(View(base="http://a.example", words="tea"))
    assert page.build(View(base="http://a.example", words="tea")) is not searched
