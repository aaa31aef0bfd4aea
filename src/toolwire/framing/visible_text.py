"""Make untrusted text fit to show: it cannot move, hide or recolour other text.

Rules:
- A character without ink is written out: as ``<U+202E>`` in text, as ``\\u202e`` in JSON.
"""
# D-01, D-03: the rules above.

from __future__ import annotations

import json
import re
from typing import Final
from unicodedata import category

from toolwire.core.model import Json

from .text_cleaning import is_hidden
from .unicode_tables import IGNORABLE

_SUSPECT: Final = re.compile(r"[^ -~]")
# Not printable for Python are controls, formats (bidi, zero-width, tags), surrogates and what is not assigned.
# Printable and yet without ink are fillers, joiners and variation selectors, but for those that an emoji has.
_NO_INK: Final = re.compile(rf"[{IGNORABLE}\u2800\U0001d159\U00013441\U00013442]")
_SELECTORS: Final = "\ufe0e\ufe0f"
_MAX_MARKS: Final = 8
"""More accents above each other would be drawn over other lines. No script has as many."""


def make_visible(text: str) -> str:
    """Return ``text`` on one line; a character that could move, hide or recolour text becomes ``<U+202E>``.

    Line breaks and tabs become spaces. A space is a space, of whatever width.
    """
    # D-03, D-01
    return _SUSPECT.sub(_name_character, text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def make_visible_json(data: Json, *, indent: int | None = None) -> str:
    """Return ``data`` as JSON a person can read and a program can parse: what has no ink is written ``\\u202e``."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return _SUSPECT.sub(_escape_character, text)


def count_hidden(text: str) -> int:
    """Return how many characters of ``text`` have no ink, line breaks and tabs aside."""
    return sum(not _has_ink(match) and match[0] not in "\n\r\t" for match in _SUSPECT.finditer(text))


def _name_character(match: re.Match[str]) -> str:
    character = match[0]
    return character if _has_ink(match) else f"<U+{ord(character):04X}>"


def _escape_character(match: re.Match[str]) -> str:
    character = match[0]
    return character if _has_ink(match) or character == "\n" else json.dumps(character)[1:-1]


def _has_ink(match: re.Match[str]) -> bool:
    character = match[0]
    if character in _SELECTORS:
        return not is_hidden(match.string, match.start())
    kind, before = category(character), match.string[max(match.start() - _MAX_MARKS, 0) : match.start()]
    if kind[0] == "M" and len(before) == _MAX_MARKS and all(category(one)[0] == "M" for one in before):
        return False
    return (character.isprintable() or kind == "Zs") and _NO_INK.match(character) is None
