"""One edit away: every message that differs from a good one in exactly one spot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from toolwire.core.model import Json

Spot: TypeAlias = tuple[str | int, ...]

ODD: tuple[Json, ...] = (None, 7, "x", [], {})
"""What is put in the place of each member."""


class Edit(NamedTuple):
    """A message after one edit: where (a path of keys), what was done, and the message."""

    spot: Spot
    done: str
    data: Json


def one_edit_away(data: Json) -> Iterator[Edit]:
    """Yield ``data`` with each of its spots deleted, and with each odd value in it. ``data`` itself stays as it is."""
    for spot in _spots(data, ()):
        if spot:
            yield Edit(spot, "deleted", _edited(data, spot, None, delete=True))
        for value in ODD:
            yield Edit(spot, repr(value), _edited(data, spot, value, delete=False))


def _spots(data: Json, spot: Spot) -> Iterator[Spot]:
    yield spot
    match data:
        case dict():
            for key, value in data.items():
                yield from _spots(value, (*spot, key))
        case list():
            for number, value in enumerate(data):
                yield from _spots(value, (*spot, number))
        case _:
            pass


def _edited(data: Json, spot: Spot, value: Json, *, delete: bool) -> Json:
    if not spot:
        return value
    first, *rest = spot
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    if delete and not rest:
        del copy[first]
    else:
        copy[first] = _edited(data[first], tuple(rest), value, delete=delete)
    return copy
