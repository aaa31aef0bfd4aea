"""Data made to fit: large JSON with its longest parts shortened, so that what is left is still JSON of its shape."""

from __future__ import annotations

from toolwire.core.model import Json
from toolwire.framing import jsontext

_LEAST = 32
_MARK = "..."


def count_characters(data: Json) -> int:
    """Return the characters of ``data``: those of a text, or of compact JSON."""
    return len(data) if isinstance(data, str) else _count_json(data)


def truncate(data: Json, characters: int) -> Json:
    """Return ``data`` in at most about ``characters`` characters of JSON.

    Texts are cut, arrays lose their last items, and the largest members of an object shrink first; a member or item
    for which no room is left goes. [XL-103]
    """
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
    """Return the start of ``text``: escapes count, so that it may take some tries to find how much of it fits."""
    room = max(0, characters - len(_MARK) - 2)
    text = text[:room]
    while text and _count_json(text) - 2 > room:
        text = text[: min(len(text) - 1, len(text) * room // (_count_json(text) - 2))]
    return text + _MARK


def _truncate_items(data: list[Json], characters: int) -> list[Json]:
    kept: list[Json] = []
    room = characters - 2
    for item in data:
        cost = _count_json(item) + 1
        if cost > room:
            if not kept and room > _LEAST:  # the first item says what the others look like
                kept.append(_truncate(item, room))
            break
        kept.append(item)
        room -= cost
    return kept


def _truncate_members(data: dict[str, Json], characters: int) -> dict[str, Json]:
    """Return the members that fit whole, smallest first, and then the others with an equal share of what is left."""
    costs = {name: _count_json(name) + _count_json(value) + 2 for name, value in data.items()}
    kept: dict[str, Json] = {}
    room, left = characters - 2, len(costs)
    for name in sorted(costs, key=lambda one: (costs[one], one)):
        share = room // left
        left -= 1
        if costs[name] <= share:
            kept[name] = data[name]
            room -= costs[name]
        elif share - _count_json(name) > _LEAST:
            kept[name] = _truncate(data[name], share - _count_json(name) - 2)
            room -= _count_json(name) + _count_json(kept[name]) + 2
    return {name: kept[name] for name in data if name in kept}
