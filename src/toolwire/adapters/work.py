"""What is known while one schema is written: the dialect, the definitions that wait, and what was lost so far.

Rules:
- A schema inside another is written by ``Work.inner``, so that no file has to import the one that calls it.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from toolwire.core.model import Json, Schema

from .dialects import Dialect
from .walking import recursive

_NODES: Final = 20_000
_LEVELS: Final = 100
_WORD_CHARACTERS: Final = 300


class Loss(NamedTuple):
    """What a provider's schema does not say: where it stood, and what it was, as ``keyword: value``.

    ``narrows`` marks what would have kept somebody from saying a value that is legal; the rest is only unsaid.
    """

    pointer: str
    what: str
    narrows: bool = False


class Place(NamedTuple):
    """Where the writer is: the pointer to it, and the references it came through where they are not taken."""

    pointer: str = ""
    through: tuple[str, ...] = ()

    def at(self, *steps: str | int) -> Place:
        """Return the place that ``steps`` lead to."""
        said = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
        return self._replace(pointer=self.pointer + said)


class Work:
    """One schema on its way into a dialect. ``names`` are the keys to write anew; ``write`` writes one node of it."""

    def __init__(self, root: Schema, dialect: Dialect, names: Mapping[str, str], write: WriteNode) -> None:
        self.root = root
        self.dialect = dialect
        self.names = names
        self.recursive = recursive(root)
        self.waiting: deque[str] = deque()
        self.definitions: dict[str, str] = {}
        self.losses: list[Loss] = []
        self._write = write
        self._room = _NODES
        self._level = 0

    def inner(self, node: Json, place: Place) -> dict[str, Json]:
        """Return one schema of the whole, written."""
        self._room -= 1
        self._level += 1
        try:
            return self._write(self, node, place)
        finally:
            self._level -= 1

    @property
    def is_full(self) -> bool:
        """Whether the schema is larger or deeper than one is written."""
        return self._room < 0 or self._level > _LEVELS

    def lost(self, place: Place, key: str, value: Json, *, narrows: bool = False) -> str:
        """Remember what is not said, and return it in words."""
        text = f"{key}: {_short(value)}"
        if key not in ("default", "examples"):
            self.losses.append(Loss(place.pointer, text, narrows))
        return text

    def pointed(self, reference: str) -> str:
        """Return the reference to write for ``reference``, whose definition is written later."""
        if reference == "#":
            return reference
        if reference not in self.definitions:
            name = plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2])[:64] or "definition"
            number = 2
            while name in self.definitions.values():
                name, number = f"{plain}_{number}", number + 1
            self.definitions[reference] = name
            self.waiting.append(reference)
        return f"#/$defs/{self.definitions[reference]}"


WriteNode: TypeAlias = Callable[[Work, Json, Place], dict[str, Json]]
"""Writes one node of a schema."""


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _WORD_CHARACTERS else text[:_WORD_CHARACTERS] + "..."
