"""Generate every message that differs from a valid one in exactly one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from toolwire.core.model import Json

Spot: TypeAlias = tuple[str | int, ...]

ODD: tuple[Json, ...] = (None, 7, "x", [], {})
"""The values that replace each member."""


class Edit(NamedTuple):
    """A message after one edit: the place (a path of keys), the change, and the message."""

    spot: Spot
    change: str
    data: Json


def generate_edits(data: Json) -> Iterator[Edit]:
    """Yield copies of ``data``: each place is deleted once, and replaced once by each value of ``ODD``."""
    for spot in _list_spots(data, ()):
        if spot:
            yield Edit(spot, "deleted", _apply_edit(data, spot, None, delete=True))
        for value in ODD:
            yield Edit(spot, repr(value), _apply_edit(data, spot, value, delete=False))


def _list_spots(data: Json, spot: Spot) -> Iterator[Spot]:
    yield spot
    match data:
        case dict():
            for key, value in data.items():
                yield from _list_spots(value, (*spot, key))
        case list():
            for number, value in enumerate(data):
                yield from _list_spots(value, (*spot, number))
        case _:
            pass


def _apply_edit(data: Json, spot: Spot, value: Json, *, delete: bool) -> Json:
    if not spot:
        return value
    first, *rest = spot
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    if delete and not rest:
        del copy[first]
    else:
        copy[first] = _apply_edit(data[first], tuple(rest), value, delete=delete)
    return copy
