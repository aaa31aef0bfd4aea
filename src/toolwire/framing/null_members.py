"""Remove members that are null and mean "not set": some libraries write every member they know."""

from __future__ import annotations

from collections.abc import Set

from toolwire.core.model import Json

from .report import Path


def remove_nulls(data: Json, start: Path = None, *, maps: Set[str], values: Set[str], nullable: Set[str]) -> list[Path]:
    """Remove each member of ``data`` that is null, in place, and return their paths.

    Members of the objects under ``maps`` are names of the author's and stay. What stands under ``values`` or in an
    ``enum`` is data, and is not looked at. The members ``nullable`` stay, and what is in them is looked at.
    """
    nulls: list[Path] = []
    skipped = values | nullable
    waiting: list[tuple[Json, Path, bool]] = [(data, start, False)]
    while waiting:
        node, path, is_map = waiting.pop()
        if isinstance(node, list):
            waiting += [
                (item, (path, place), False) for place, item in enumerate(node) if isinstance(item, dict | list)
            ]
            continue
        if not isinstance(node, dict):
            continue
        if not is_map:
            gone = [name for name, value in node.items() if value is None and name not in skipped and name[:2] != "x-"]
            for name in gone:
                del node[name]
                nulls.append((path, name))
        for name, value in node.items():
            looked_at = is_map or (name not in values and name != "enum" and not name.startswith("x-"))
            if looked_at and isinstance(value, dict | list):
                waiting.append((value, (path, name), not is_map and name in maps))
    return nulls
