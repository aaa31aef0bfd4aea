"""Shorten the longest parts of large JSON data, so that the result is still JSON of the same shape."""

from __future__ import annotations

from toolwire.core.model import Json
from toolwire.framing import jsontext

_MIN_PART = 32
_MARK = "..."


def count_characters(data: Json) -> int:
    """Return the number of characters of ``data``: of the string, or of its compact JSON."""
    return len(data) if isinstance(data, str) else _count_json(data)


def truncate(data: Json, characters: int) -> Json:
    """Return ``data`` in at most about ``characters`` characters of JSON.

    Strings are cut, arrays lose their last items, and the largest members of an object shrink first. Members and items
    for which no room is left are removed.
    """
    # XL-103
    if isinstance(data, str):
        return data[:characters]
    return _truncate(data, characters)


def _count_json(data: Json) -> int:
    return len(jsontext.write(data).decode())


def _truncate(data: Json, characters: int) -> Json:
    if isinstance(data, str):
        return data if _count_json(data) <= characters else _cut_text(data, characters)
    if isinstance(data, list):
        return _truncate_items(data, characters)
    if isinstance(data, dict):
        return _truncate_members(data, characters)
    return data


def _cut_text(text: str, characters: int) -> str:
    """Return the start of ``text`` that fits; escapes count too, so the length is found in several steps."""
    room = max(0, characters - len(_MARK) - 2)
    text = text[:room]
    # Each step shortens in proportion to the excess, so a few steps are enough for any number of escapes.
    while text and _count_json(text) - 2 > room:
        text = text[: min(len(text) - 1, len(text) * room // (_count_json(text) - 2))]
    return text + _MARK


def _truncate_items(data: list[Json], characters: int) -> list[Json]:
    shown: list[Json] = []
    room = characters - 2
    for item in data:
        cost = _count_json(item) + 1
        if cost > room:
            if not shown and room > _MIN_PART:  # the first item says what the others look like
                shown.append(_truncate(item, room))
            break
        shown.append(item)
        room -= cost
    return shown


def _truncate_members(data: dict[str, Json], characters: int) -> dict[str, Json]:
    """Return the members that fit unchanged, the smallest first; the others share the remaining room equally."""
    costs = {name: _count_json(name) + _count_json(value) + 2 for name, value in data.items()}
    shown: dict[str, Json] = {}
    room, left = characters - 2, len(costs)
    for name in sorted(costs, key=lambda one: (costs[one], one)):
        # What a small member leaves of its share goes to the larger ones that follow.
        room_each = room // left
        left -= 1
        if costs[name] <= room_each:
            shown[name] = data[name]
            room -= costs[name]
        elif room_each - _count_json(name) > _MIN_PART:
            shown[name] = _truncate(data[name], room_each - _count_json(name) - 2)
            room -= _count_json(name) + _count_json(shown[name]) + 2
    return {name: shown[name] for name in data if name in shown}
