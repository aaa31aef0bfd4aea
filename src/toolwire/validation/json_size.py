"""Say whether data has more parts than can be worked through, without looking at more of them than that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolwire.core.model import Json

TEXT_UNIT: Final = 64
"""Characters of a text that count like one more part of a value."""

MAX_PARTS: Final = 200_000
"""Objects, arrays and scalars of a schema that is used at all."""

TOO_LARGE: Final = f"its definition has more than {MAX_PARTS:,} parts"
"""Why a tool that another server lists is left out; it could not be called, and reading it further takes seconds."""


def is_within_size(data: Json, most: int) -> bool:
    """Return whether ``data`` has at most ``most`` parts; a long text counts as several."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind is int or kind is float or kind is bool or value is None:  # AT-38: the many parts of most large data
            most -= 1
        elif isinstance(value, str):
            most -= 1 + len(value) // TEXT_UNIT
        elif kind is not list and isinstance(value, Mapping):
            most -= 1 + sum(map(len, value)) // TEXT_UNIT
            if len(value) > most:
                return False
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            most -= 1
            if len(value) > most:
                return False
            waiting.extend(value)
        else:
            most -= 1
        if most < 0:
            return False
    return True
