"""Text from elsewhere made fit to show: nothing in it can move, hide or recolour other text.

Rules:
- A character without ink is written out: as ``<U+202E>`` in text, as ``\\u202e`` in JSON. [D-01, D-03]
"""

from __future__ import annotations

import json
import re
from typing import Final
from unicodedata import category

from toolwire.core.model import Json

_SUSPECT: Final = re.compile(r"[^ -~]")
# Not printable for Python are controls, formats (bidi, zero-width, tags), surrogates and what is not assigned.
# Printable and yet without ink are the fillers, joiners and variation selectors here.
_NO_INK: Final = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)


def visible(text: str) -> str:
    """Return ``text`` on one line, whatever could move, hide or recolour other text as ``<U+202E>``. [D-03, D-01]

    Line breaks and tabs become spaces. A space is a space, of whatever width.
    """
    return _SUSPECT.sub(_named, text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def visible_json(data: Json, *, indent: int | None = None) -> str:
    """Return ``data`` as JSON a person can read and a program can parse: what has no ink is written ``\\u202e``."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return _SUSPECT.sub(lambda match: _in_json(match[0]), text)


def hidden(text: str) -> int:
    """Return how many characters of ``text`` have no ink, line breaks and tabs aside."""
    return sum(not _has_ink(match[0]) and match[0] not in "\n\r\t" for match in _SUSPECT.finditer(text))


def _named(match: re.Match[str]) -> str:
    character = match[0]
    return character if _has_ink(character) else f"<U+{ord(character):04X}>"


def _in_json(character: str) -> str:
    return character if _has_ink(character) or character == "\n" else json.dumps(character)[1:-1]


def _has_ink(character: str) -> bool:
    return (character.isprintable() or category(character) == "Zs") and _NO_INK.match(character) is None
