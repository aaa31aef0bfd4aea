"""Patterns of ECMA-262 in the words of Python's ``re``, exact for text that is ASCII."""

from __future__ import annotations

import re
from functools import lru_cache

_CLASSES = {
    "ASCII": r"\x00-\x7f",
    "Alnum": "0-9A-Za-z",
    "Alpha": "A-Za-z",
    "Alphabetic": "A-Za-z",
    "Blank": r" \t",
    "C": r"\x00-\x1f\x7f",
    "Cntrl": r"\x00-\x1f\x7f",
    "Digit": "0-9",
    "Graph": "!-~",
    "IsLetter": "A-Za-z",
    "L": "A-Za-z",
    "Letter": "A-Za-z",
    "Ll": "a-z",
    "Lu": "A-Z",
    "M": "",
    "N": "0-9",
    "Nd": "0-9",
    "Not C": " -~",
    "Not M": r"\x00-\x7f",
    "P": r"!-#%-*,-/:;?@\[-\]_{}",
    "Pd": r"\-",
    "Print": " -~",
    "S": r"$+<->\^`|~",
    "Upper": "A-Z",
    "Z": " ",
    "Zs": " ",
}
"""The ASCII characters that have a Unicode property."""

_PIECE = re.compile(r"\\([pP])\{(\w+)\}|\\x\{([0-9a-fA-F]{2})\}|\\.|[\[\]]|\(\?<(?=[A-Za-z_])", re.DOTALL)


@lru_cache(maxsize=10_000)
def translate(pattern: str) -> str | None:
    """Return ``pattern`` as Python has it, or None where Python has no word for it."""
    within = False

    def word(found: re.Match[str]) -> str:
        nonlocal within
        if found[1] is not None:
            members = _CLASSES[found[2] if found[1] == "p" else f"Not {found[2]}"]
            return members if within else f"[{members}]" if members else "(?!)"
        if found[0] == r"\z":
            return r"\Z"
        if found[3] is not None:
            return f"\\x{found[3]}"
        if found[0] == "(?<":
            return found[0] if within else "(?P<"
        within = (within or found[0] == "[") and found[0] != "]"
        return found[0]

    try:
        written = _PIECE.sub(word, pattern)
        re.compile(written)
    except (re.error, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return written


def matches(pattern: str, text: str) -> bool | None:
    """Return whether ``text`` matches somewhere; None where that cannot be said."""
    written = translate(pattern)
    if written is None or (written != pattern and not text.isascii()):
        return None
    return re.search(written, text, re.ASCII) is not None
