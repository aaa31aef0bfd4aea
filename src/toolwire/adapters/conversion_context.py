"""What is known while one schema is written: the dialect, the definitions that wait, and what was lost so far.

Rules:
- A schema inside another is written by ``Work.inner``, so that no file has to import the one that calls it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from toolwire.core.model import Json, Schema
from toolwire.framing.subschemas import LISTED, NAMED, SINGLE

from .dialects import SchemaDialect
from .schema_walk import Nulls, recursive

_NODES: Final = 20_000
_LEVELS: Final = 100
_CHARACTERS: Final = 2_000_000
_WORD_CHARACTERS: Final = 300
_SUBSCHEMAS: Final = frozenset((*LISTED, *NAMED, *SINGLE))


class SchemaLoss(NamedTuple):
    """What a provider's schema does not say: where it stood, and what it was, as ``keyword: value``.

    ``narrows`` marks what would have kept somebody from saying a value that is legal; the rest is only unsaid.
    """

    pointer: str
    what: str
    narrows: bool = False


class WriterPosition(NamedTuple):
    """Where the writer is: the pointer to it, and the references it came through where they are not taken."""

    pointer: str = ""
    through: tuple[str, ...] = ()

    def at(self, *steps: str | int) -> WriterPosition:
        """Return the place that ``steps`` lead to."""
        said = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
        return self._replace(pointer=self.pointer + said)


class ConversionContext:
    """One schema on its way into a dialect. ``names`` are the keys to write anew; ``write`` writes one node of it."""

    def __init__(self, root: Schema, dialect: SchemaDialect, names: Mapping[str, str], write: WriteNode) -> None:
        self.root = root
        self.dialect = dialect
        self.names = names
        self.recursive = recursive(root)
        self.waiting: deque[str] = deque()
        self.definitions: dict[str, str] = {}
        self.losses: list[SchemaLoss] = []
        self.nulls: Nulls = {}
        self._used: set[str] = set()
        self._counts: defaultdict[str, int] = defaultdict(lambda: 1)
        self._write = write
        self._room = _NODES
        self._letters = _CHARACTERS
        self._sizes: dict[int, tuple[Json, int]] = {}
        self._level = 0

    def inner(self, node: Json, place: WriterPosition) -> dict[str, Json]:
        """Return one schema of the whole, written."""
        self._room -= 1
        self._letters -= self._weigh(node) if self._letters >= 0 and isinstance(node, Mapping) else 0
        self._level += 1
        try:
            return self._write(self, node, place)
        finally:
            self._level -= 1

    @property
    def is_full(self) -> bool:
        """Whether the schema is larger or deeper than one is written."""
        return self._room < 0 or self._letters < 0 or self._level > _LEVELS

    def lost(self, place: WriterPosition, key: str, value: Json, *, narrows: bool = False) -> str:
        """Remember what is not said, and return it in words."""
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        self._letters -= len(said)  # the work is that of all of it, though little is kept
        text = f"{key}: {said}" if len(said) <= _WORD_CHARACTERS else f"{key}: {said[:_WORD_CHARACTERS]}..."
        if key not in ("default", "examples"):
            self.losses.append(SchemaLoss(place.pointer, text, narrows))
        return text

    def pointed(self, reference: str) -> str:
        """Return the reference to write for ``reference``, whose definition is written later."""
        if reference == "#":
            return reference
        if reference not in self.definitions:
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2])[:64] or "definition"
            self.definitions[reference] = self._unused_name(plain)
            self.waiting.append(reference)
        return f"#/$defs/{self.definitions[reference]}"

    def _weigh(self, node: Schema) -> int:
        """Return about how many characters ``node`` itself adds to what is written: not the schemas inside it."""
        total = 0
        for key, value in node.items():
            if isinstance(value, str):
                total += len(value)
            elif isinstance(value, list | tuple | Mapping) and key not in _SUBSCHEMAS:
                if id(value) not in self._sizes:
                    self._sizes[id(value)] = value, _count_characters(value)  # kept, so that no other has its id
                total += self._sizes[id(value)][1]
        return total

    def _unused_name(self, plain: str) -> str:
        """Return ``plain``, with a number behind it where a definition has that name, and take it."""
        name = plain
        while name in self._used:
            self._counts[plain] += 1  # kept, so that thousands of like names are not tried again from the first
            name = f"{plain}_{self._counts[plain]}"
        self._used.add(name)
        return name


WriteNode: TypeAlias = Callable[[ConversionContext, Json, WriterPosition], dict[str, Json]]
"""Writes one node of a schema."""


def _count_characters(data: Json) -> int:
    """Return about how many characters ``data`` has as JSON."""
    count = 0
    waiting = [data]
    while waiting:
        node = waiting.pop()
        count += len(node) if isinstance(node, str) else 1
        if isinstance(node, Mapping):
            count += sum(map(len, node))
            waiting.extend(node.values())
        elif isinstance(node, list | tuple):
            waiting.extend(node)
    return count
