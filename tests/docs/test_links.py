"""Every link between the pages of the repository leads to a file, and to a heading where it names one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from spec import decisions

from .page import PAGES, ROOT

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_ANYWHERE_ELSE = re.compile(r"[a-z]+:")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    assert [link for link in find_links(path.read_text(encoding="utf-8")) if not is_target(path, link)] == []


def find_links(text: str) -> Iterator[str]:
    """Yield the links of a page that stay in the repository."""
    for match in _LINK.finditer(_CODE.sub("``", _FENCED.sub("", text))):
        if not _ANYWHERE_ELSE.match(match[1]):
            yield match[1]


def is_target(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    return target.exists() and (not anchor or anchor in find_anchors(target))


@cache
def find_anchors(path: Path) -> frozenset[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    anchors: list[str] = []
    for match in _HEADING.finditer(_FENCED.sub("", path.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", match[1])
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        before = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", one) is not None for one in anchors)
        anchors.append(f"{anchor}-{before}" if before else anchor)
    return frozenset(anchors)


@pytest.mark.requirement("FU-41")
def test_the_index_has_every_page() -> None:
    docs = ROOT / "docs"
    index = docs / "README.md"
    linked = {(docs / link.partition("#")[0]).resolve() for link in find_links(index.read_text(encoding="utf-8"))}
    pages = {page for page in docs.rglob("*.md") if not {"decisions", "python"} & set(page.parts)}  # they have indexes
    assert pages - linked == {index}


def test_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`: three\n\n## Again\n\n## Again\n\n[a](#one-two-three) [b](#again-1) [c](#again-2) [d](other.md)"
        " [e](https://a.example/x) `[f](none.md)`\n\n```text\n# not a heading\n[g](none.md)\n```\n"
        "[h](#not-a-heading)\n",
        encoding="utf-8",
    )
    links = list(find_links(page.read_text(encoding="utf-8")))
    assert links == ["#one-two-three", "#again-1", "#again-2", "other.md", "#not-a-heading"]
    assert [link for link in links if not is_target(page, link)] == ["#again-2", "other.md", "#not-a-heading"]


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")]
    assert sorted(set(numbers)) == sorted(numbers)


def test_index_has_each_decision_with_its_status() -> None:
    assert decisions.INDEX.read_text(encoding="utf-8") == decisions.write_index(), "run `make reference`"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=lambda path: path.name)
def test_heading_of_a_decision_has_its_number(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}. ")
