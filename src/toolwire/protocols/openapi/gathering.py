"""Which definitions a schema carries: all that it leads to, those nearest to it first, as far as there is room."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from toolwire.core.model import Json

from .cutting import CUT


class Definition(NamedTuple):
    """A converted definition, the names of those it refers to, and its size in bytes."""

    schema: dict[str, Json]
    names: tuple[str, ...]
    size: int


def gathered(
    names: Iterable[str], size: int, most: int, define: Callable[[str], Definition]
) -> tuple[dict[str, dict[str, Json]], set[str], int]:
    """Return the definitions that ``names`` lead to, which of them are cut, and ``size`` with all of them."""
    found: dict[str, dict[str, Json]] = {}
    left_out: set[str] = set()
    waiting = deque(sorted(names))
    while waiting:
        name = waiting.popleft()
        if name in found:
            continue
        definition = define(name)
        size += len(name) + 4
        if size + definition.size > most:
            found[name] = CUT
            size += 40
            left_out.add(name)
            continue
        found[name] = definition.schema
        size += definition.size
        waiting.extend(definition.names)
    return found, left_out, size
