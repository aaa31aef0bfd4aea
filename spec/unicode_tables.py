"""Write the character classes that text cleaning needs, from Unicode's own properties.

Run `.venv/bin/python spec/unicode_tables.py` after a new version of Unicode; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

import regex  # type: ignore[import-untyped]  # it has no types

TARGET = Path(__file__).parent.parent / "src/toolwire/framing/unicode_tables.py"
CLASSES = {
    "IGNORABLE": (r"\p{Default_Ignorable_Code_Point}", "What is shown as nothing where it is not understood."),
    "EMOJI": (
        r"[\p{Emoji}--[0-9#*]--\p{Emoji_Modifier}--\p{Regional_Indicator}]",
        "Pictures that a variation selector or a joiner may follow.",
    ),
    "VIRAMA": (r"\p{Canonical_Combining_Class=9}", "Signs of Indic scripts after which a joiner decides on the shape."),
    "JOINS_BOTH": (r"\p{Joining_Type=D}", "Letters that join the letter before and the one after them."),
    "JOINS": (r"[\p{Joining_Type=D}\p{Joining_Type=R}]", "Letters that join the letter before them."),
}


def ranges(pattern: str) -> list[tuple[int, int]]:
    """Return the ranges of code points that ``pattern`` matches."""
    matches = regex.compile(pattern, flags=regex.V1)
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if not matches.match(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def escaped(code: int) -> str:
    """Return a code point as an escape of Python."""
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def written() -> str:
    """Return the text of the module."""
    lines = [
        '"""Characters by Unicode property, as the inside of a class of `re`. Made by `spec/unicode_tables.py`."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
    ]
    for name, (pattern, sentence) in CLASSES.items():
        parts = [escaped(first) + (f"-{escaped(last)}" if last > first else "") for first, last in ranges(pattern)]
        rows = [""]
        for part in parts:
            if len(rows[-1]) + len(part) > 110:
                rows.append("")
            rows[-1] += part
        lines += ["", f"{name}: Final = (", *(f'    "{row}"' for row in rows), ")", f'"""{sentence}"""']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf-8")
