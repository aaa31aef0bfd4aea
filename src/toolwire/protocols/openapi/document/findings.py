"""What was left out of a document, or taken otherwise than it says: one finding each, with its place."""

from __future__ import annotations

from typing import NamedTuple

SHOWN = 200


class Note(NamedTuple):
    """One finding: where it is for a person, what it is as the end of a sentence, and its JSON pointer.

    ``operations`` is how many operations are no tools because of it, so that nothing is lost without a word. [XL-088]
    """

    where: str
    text: str
    pointer: str = ""
    operations: int = 0

    def __str__(self) -> str:
        return f"{self.where}: {self.text}." if self.where else f"{self.text}."
