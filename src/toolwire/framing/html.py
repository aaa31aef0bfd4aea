"""Tell text from HTML by type: ``Html`` comes from a literal, or from text that ``escape_text`` has escaped.

``Html`` takes a literal or an f-string. The plugin ``spec/html_types.py`` of mypy refuses all else, and each part of an
f-string that is neither ``Html``, a number nor a literal.
"""
# D-25

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final, NewType

from .visible_text import make_visible

Html = NewType("Html", str)
"""Text that a browser may read as HTML: what stands between tags, or attributes with their quotes."""

NO_HTML: Final = Html("")


def escape_text(text: str) -> Html:
    """Return ``text`` for a place between tags, or between the quotes of an attribute."""
    return Html(escape(text))


def join_html(parts: Iterable[Html]) -> Html:
    """Return ``parts``, one after the other."""
    return Html("".join(parts))


def read_html_file(file: Path) -> Html:
    """Return the text of a file of this package, which may stand in a page as it is."""
    return Html(file.read_text(encoding="utf-8").strip())


def show_text(text: str) -> Html:
    """Return ``text`` of anybody, with all that could move or hide a part of it made visible."""
    return escape_text(make_visible(text))


def show_lines(text: str) -> Html:
    """Return the same, with the line breaks of ``text``."""
    return escape_text("\n".join(make_visible(line) for line in text.split("\n")))
