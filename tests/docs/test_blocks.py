"""Everything a page shows is run: its Python, its commands, and what they print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.frameworks.packages import INSTALLED, MISSING

from .blocks import Step, matches_output, read_blocks, read_steps
from .page import FRAMEWORKS, ROOT, Page, run_blocks

_AT_THE_TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "VERSIONING.md")]
_RECORDS = (ROOT / "docs" / "decisions", ROOT / "docs" / "benchmarks.md")
PAGES = [
    *_AT_THE_TOP,
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if not any(map(path.is_relative_to, _RECORDS))),
]


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    page = Page(tmp_path)
    try:
        yield page
    finally:
        page.close()


@pytest.mark.requirement("FU-41")
@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_every_code_block_does_what_its_page_states(path: Path, page: Page) -> None:
    blocks = read_blocks(path.read_text(encoding="utf-8"))
    if any(block.name in FRAMEWORKS for block in blocks) and not INSTALLED:
        pytest.skip(MISSING)
    run_blocks(page, blocks)


def test_dots_match_any_text_and_nothing_else_does() -> None:
    assert matches_output("one\n...\nfour\n", "one\ntwo\nthree\nfour\n")
    assert matches_output("one\n...\n", "one\ntwo")
    assert matches_output("1 of ... tools", "1 of 12 tools\n")
    assert not matches_output("one\nfour", "one\ntwo\nfour")
    assert not matches_output("one", "one.")
    assert not matches_output("a...d", "a\nd")


def test_console_block_is_read_as_commands_and_their_output() -> None:
    assert read_steps("$ one\n1\n2\n$ two\n") == [
        Step(command="one", expected="1\n2\n"),
        Step(command="two", expected=""),
    ]
    with pytest.raises(AssertionError):
        read_steps("no command\n")


def test_a_block_that_is_not_closed_or_indented_is_refused() -> None:
    for text in ("```python\n1\n", "- list\n\n  ```python\n  1\n  ```\n"):
        with pytest.raises(AssertionError):
            read_blocks(text)
