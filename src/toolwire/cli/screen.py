"""What reaches a screen: text from elsewhere made harmless, and colour where a terminal wants it.

Rules:
- Text that came from elsewhere goes through ``escaped``, ``escaped_lines`` or ``json_text`` before a person sees it.
- Only our own words are coloured, and only on a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Final, TextIO
from unicodedata import category

from toolwire.core.model import Json

_SUSPECT: Final = re.compile(r"[^ -~]")
# Not printable for Python are controls, formats (bidi, zero-width, tags), surrogates and what is not assigned.
# Printable and yet without ink are the fillers, joiners and variation selectors here.
_NO_INK: Final = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)
_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def escaped(text: str) -> str:
    """Return ``text`` on one line, whatever could move, hide or recolour other text as ``<U+202E>``. [D-03, D-01]

    Line breaks and tabs become spaces. A space is a space, of whatever width.
    """
    return _SUSPECT.sub(_named, text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def escaped_lines(text: str) -> str:
    """Return ``text`` like ``escaped``, with its line breaks and tabs."""
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n"))


def first_line(text: str) -> str:
    """Return the first line of ``text`` like ``escaped``."""
    return escaped(text.strip().partition("\n")[0])


def json_text(data: Json, *, indent: int | None = None) -> str:
    """Return ``data`` as JSON a person can read and a program can parse: what has no ink is written ``\\u202e``."""
    text = json.dumps(data, ensure_ascii=False, indent=indent)
    return _SUSPECT.sub(lambda match: _in_json(match[0]), text)


def coloured(stream: TextIO) -> bool:
    """Return whether ``stream`` is a terminal whose owner did not ask for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO) -> str:
    """Return ``text`` in bold, dim, red, green or yellow where ``stream`` shows colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if coloured(stream) else text


def complain(sentence: str) -> None:
    """Say ``sentence`` on standard error."""
    label = styled("toolwire:", "red", sys.stderr)
    print(f"{label} {escaped(sentence)}", file=sys.stderr)


def warn(sentence: str) -> None:
    """Say ``sentence`` on standard error, as something that does not stop us."""
    label = styled("toolwire: warning:", "yellow", sys.stderr)
    print(f"{label} {escaped(sentence)}", file=sys.stderr)


def _named(match: re.Match[str]) -> str:
    character = match[0]
    return character if _has_ink(character) else f"<U+{ord(character):04X}>"


def _in_json(character: str) -> str:
    return character if _has_ink(character) or character == "\n" else json.dumps(character)[1:-1]


def _has_ink(character: str) -> bool:
    return (character.isprintable() or category(character) == "Zs") and _NO_INK.match(character) is None
