"""Read the fenced blocks of a page, and compare output.

CONTRIBUTING.md has the convention for authors of pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^```(?P<language>\w*) ?(?P<name>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_LINES = r"(?:\n.*)*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: its language, the word after it (a file's name, or ``output``), its text, its line."""

    language: str
    name: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a console block, and its expected output."""

    command: str
    expected: str


def read_blocks(text: str) -> list[Block]:
    """Return the blocks of a page in order."""
    assert text.count("```") % 2 == 0, "a block is not closed"
    found = [
        Block(
            language=match["language"],
            name=match["name"].strip(),
            text=match["text"],
            line=text.count("\n", 0, match.start()) + 1,
        )
        for match in _FENCE.finditer(text)
    ]
    assert len(found) * 2 == text.count("```"), "a block does not stand at the left edge"
    return found


def read_steps(text: str) -> list[Step]:
    """Return the commands of a console block, each with the lines below it."""
    first, *parts = re.split(r"(?m)^\$ ", text)
    assert not first.strip(), "a console block begins with a command"
    steps = [part.partition("\n") for part in parts]
    return [Step(command=command, expected=expected) for command, _, expected in steps]


def matches_output(expected: str, printed: str) -> bool:
    """Return whether ``printed`` is the output that a page has.

    ``...`` stands for anything, and for any number of lines where it stands alone. Gaps between columns may differ.
    """
    lines = _normalize_spaces(expected).split("\n")
    pattern = "".join(_ANY_LINES if line == "..." else f"\n{re.escape(line)}" for line in lines)
    return re.fullmatch(pattern.replace(re.escape("..."), ".*"), f"\n{_normalize_spaces(printed)}") is not None


def _normalize_spaces(text: str) -> str:
    return "\n".join(re.sub(" +", " ", line.rstrip()) for line in text.strip("\n").split("\n"))
