"""A guide and a page of the reference stay short enough to be read: one task a guide, its prose on a few screens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .page import ROOT

pytestmark = pytest.mark.requirement("FD-02")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
GUIDES = sorted((ROOT / "docs" / "how-to").rglob("*.md"))
GENERATED = {ROOT / "docs" / "reference" / "cli.md"}
"""A page with a table of all options, which a reader searches."""


def count_words(page: Path) -> int:
    """Return the words of a page outside code; a cell of a table counts like a sentence, and its bars do not."""
    return len(re.findall(r"[A-Za-z0-9`]\S*", _FENCED.sub("", page.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guide_has_one_heading_and_at_most_700_words_outside_code(page: Path) -> None:
    assert len(re.findall("^# ", _FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)) == 1
    assert count_words(page) <= 700


def test_page_of_the_reference_has_at_most_4000_words_outside_code() -> None:
    pages = set((ROOT / "docs" / "reference").rglob("*.md")) - GENERATED
    assert [page.name for page in pages if count_words(page) > 4_000] == []


@pytest.mark.parametrize("name", ["secrets", "many-tools", "progress", "backup", "behind-a-proxy", "receipts"])
def test_each_task_that_users_look_for_has_a_guide_that_the_index_links(name: str) -> None:
    assert f"](how-to/{name}.md)" in (ROOT / "docs" / "README.md").read_text(encoding="utf-8")


def test_deploying_begins_with_whether_you_need_it() -> None:
    text = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    assert text.startswith("# Deploy a server\n\nDo you need this?")


def test_one_table_tells_the_words_for_a_yes_apart() -> None:
    (rows,) = re.findall(
        r"## Which word means what\n\n(.*?)\n\n", (ROOT / "docs/concepts/consent.md").read_text("utf-8"), re.S
    )
    for word in ("--agree", "approve=", "--yes", '"always"', "approvals set", 'approval="auto"'):
        assert word in rows
