"""The page at / for any number of tools: without any input it is built once, and it is small for thousands."""

from __future__ import annotations

import pytest

from toolwire import Toolkit
from toolwire.core.catalog import Catalog
from toolwire.core.model import Tool
from toolwire.server.page.index_page import IndexPage, View

MAX_BYTES = 60_000


def build_catalog(count: int, tags: tuple[str, ...] = (), about: str = "Do it.") -> Catalog:
    """Return a catalog with ``count`` tools, which have ``tags`` in turn."""
    hints = [{"openapi": {"tags": [tag, "other"]}} for tag in tags] or [{}]
    named = ((f"tool_{one}", hints[one % len(hints)]) for one in range(count))
    return Catalog(title="Pets", tools=tuple(Tool(name=name, description=about, hints=hint) for name, hint in named))


@pytest.mark.requirement("GR-06")
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


@pytest.mark.requirement("FD-06")
def test_more_than_twenty_tools_are_grouped_by_tag_with_counts() -> None:
    view = View(base="http://a.example/")
    few = IndexPage(build_catalog(20, ("pets", "shop")), ()).build(view).body
    assert b"pets (" not in few
    many = IndexPage(build_catalog(45, ("pets", "shop", "<b>")), ())
    page = many.build(view).body.decode()
    for title in ("pets (15)", "shop (15)", "&lt;b&gt; (15)"):
        assert f'<details class="group"><summary>{title}</summary>' in page
    chosen = many.build(View(base="http://a.example/", name="tool_1")).body.decode()
    assert '<details class="group" open><summary>shop (15)</summary>' in chosen
    assert chosen.count('<details class="group" open>') == 1
    assert b"Others (" not in IndexPage(build_catalog(45), ()).build(view).body


@pytest.mark.requirement("FD-06", "FU-32")
@pytest.mark.parametrize("about", ["Do it.", "Does <everything> & more. " * 40])
def test_page_of_thousands_of_tools_is_small_and_says_what_it_left_out(about: str) -> None:
    catalog = build_catalog(3_000, tuple(f"tag {one}" for one in range(40)), about)
    page = IndexPage(catalog, ())
    for view in (View(base="http://a.example/"), View(base="http://a.example/", name="tool_7")):
        body = page.build(view).body
        assert len(body) <= MAX_BYTES
        shown = body.count(b'<a href="/?tool=')
        assert f"{3_000 - shown:,} more: search for them.".encode() in body
