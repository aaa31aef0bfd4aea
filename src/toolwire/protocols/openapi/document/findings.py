"""Describe findings: each says what of a document was left out or changed, and where."""

from __future__ import annotations

from typing import NamedTuple

SHOWN = 200


class Note(NamedTuple):
    """One finding: its place for people, its text as the end of a sentence, and its JSON Pointer.

    ``operations`` counts the operations that are no tools for this reason: each operation is a tool or is counted.
    """

    # XL-088

    where: str
    text: str
    pointer: str = ""
    operations: int = 0

    def __str__(self) -> str:
        return f"{self.where}: {self.text}." if self.where else f"{self.text}."
