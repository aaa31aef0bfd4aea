"""The pages use the words of the glossary, and none of the words that it replaces."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .page import PAGES, ROOT

_REPLACED = re.compile(
    r"\b(?:nobody|somebody|whoever|anybody|everybody|on the wire|each wire|every wire|the wires?)\b",
    re.IGNORECASE,
)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_GENERATED = "<!-- Everything below is generated"
_REPORTS = [ROOT / "docs" / name for name in ("benchmarks.md", "reference/corpus.md", "reference/conformance.md")]


@pytest.mark.parametrize("path", [path for path in PAGES if path not in _REPORTS], ids=lambda path: path.name)
def test_pages_contain_no_replaced_words(path: Path) -> None:
    assert find_replaced_words(path.read_text(encoding="utf-8")) == []


def find_replaced_words(page: str) -> list[str]:
    """Return the words of a page that have a plain word in the glossary; code and generated parts do not count."""
    text = _FENCED.sub("", page.partition(_GENERATED)[0])
    return [match[0] for match in _REPLACED.finditer(re.sub(r"`[^`\n]*`", "", text))]


def test_replaced_word_is_found() -> None:
    assert find_replaced_words("Somebody calls on every wire.\n") == ["Somebody", "every wire"]
    assert find_replaced_words("A user calls `nobody`.\n\n```text\nnobody\n```\n") == []
