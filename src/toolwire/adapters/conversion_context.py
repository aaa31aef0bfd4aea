"""Hold the state of one schema conversion: the dialect, the definitions to write, and how much may still be written.

Rules:
- A schema inside another is written by ``write_inner``, so that no module imports the one that calls it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from toolwire.core.model import Json, Schema
from toolwire.core.subschemas import LISTED, NAMED, SINGLE

from .dialects import SchemaDialect
from .schema_walk import find_recursive_references

_NODES: Final = 20_000
_LEVELS: Final = 100
_CHARACTERS: Final = 2_000_000
_NOTE_CHARACTERS: Final = 300
_EXAMPLE_CHARACTERS: Final = 1_200
"""The examples of an argument are data, which is of no use when it is cut."""
_SUBSCHEMAS: Final = frozenset((*LISTED, *NAMED, *SINGLE))

References: TypeAlias = tuple[str, ...]
"""The references that were followed up to a schema, each replaced by its target."""


class ConversionContext:
    """The conversion of one schema for a dialect. ``names`` maps keys to new keys; ``write`` writes one node."""

    def __init__(self, root: Schema, dialect: SchemaDialect, names: Mapping[str, str], write: WriteNode) -> None:
        self.root = root
        self.dialect = dialect
        self.names = names
        self.recursive: frozenset[str] = find_recursive_references(root)
        self.pending: deque[str] = deque()
        self.definitions: dict[str, str] = {}
        self._used: set[str] = set()
        self._counts: defaultdict[str, int] = defaultdict(lambda: 1)
        self._write = write
        self._nodes = _NODES
        self._characters = _CHARACTERS
        self._sizes: dict[int, tuple[Json, int]] = {}
        self._level = 0

    def write_inner(self, node: Json, followed: References) -> dict[str, Json]:
        """Write the schema ``node`` and return it."""
        self._nodes -= 1
        self._characters -= self._weigh(node) if self._characters >= 0 and isinstance(node, Mapping) else 0
        self._level += 1
        try:
            return self._write(self, node, followed)
        finally:
            self._level -= 1

    @property
    def is_full(self) -> bool:
        """Whether the limit of nodes, characters or levels is reached."""
        return self._nodes < 0 or self._characters < 0 or self._level > _LEVELS

    def describe_limit(self, key: str, value: Json) -> str:
        """Return a limit that the written schema does not state as text."""
        written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        self._characters -= len(written)  # writing it took work for all of it, though little is kept
        most = _EXAMPLE_CHARACTERS if key == "examples" else _NOTE_CHARACTERS
        return f"{key}: {written}" if len(written) <= most else f"{key}: {written[:most]}..."

    def reference_definition(self, reference: str) -> str:
        """Return the reference to write for ``reference``, and put its definition on the list to write."""
        if reference == "#":
            return reference
        if reference not in self.definitions:
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2])[:64] or "definition"
            self.definitions[reference] = self._reserve_name(plain)
            self.pending.append(reference)
        return f"#/$defs/{self.definitions[reference]}"

    def _weigh(self, node: Schema) -> int:
        """Return roughly how many characters ``node`` itself adds, without the schemas inside it."""
        total = 0
        for key, value in node.items():
            if isinstance(value, str):
                total += len(value)
            elif isinstance(value, list | tuple | Mapping) and key not in _SUBSCHEMAS:
                if id(value) not in self._sizes:
                    self._sizes[id(value)] = (
                        value,
                        _count_characters(value),
                    )  # the value is kept, so that its id stays its own
                total += self._sizes[id(value)][1]
        return total

    def _reserve_name(self, plain: str) -> str:
        """Return ``plain`` as the name of a definition, with a number where it is taken, and reserve it."""
        name = plain
        while name in self._used:
            self._counts[plain] += 1  # the count is kept, so that thousands of equal names stay linear
            name = f"{plain}_{self._counts[plain]}"
        self._used.add(name)
        return name


WriteNode: TypeAlias = Callable[[ConversionContext, Json, References], dict[str, Json]]
"""Writes one node of a schema."""


def _count_characters(data: Json) -> int:
    """Return roughly how many characters ``data`` has as JSON."""
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
