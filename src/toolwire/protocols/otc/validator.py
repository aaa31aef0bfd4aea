"""Validate Open Tool Calling definitions: all faults of a text, with pointer, line and column."""

from __future__ import annotations

from typing import Final

from toolwire.core.model import Json
from toolwire.core.subschemas import NAMED
from toolwire.framing.null_members import remove_nulls
from toolwire.framing.report import Path, PathFault, warn_of_nulls
from toolwire.framing.text_faults import Fault, find_faults

from .rules import examine

_MAPS: Final = frozenset(NAMED)
_VALUES: Final = frozenset(("const", "default", "examples"))
_NEEDED: Final = frozenset(("id", "name", "description", "version", "input_schema", "output_schema"))
_NULLABLE: Final = frozenset(("id", "parameters"))


def check(text: str | bytes) -> tuple[Fault, ...]:
    """Return everything that is wrong with ``text``: the body of a list of tools, or the definition of one tool.

    An error is what the RFC, or OXP for what stands in ``items``, does not allow; a warning is what will surprise a
    reader. After 1,000 faults the check ends.
    """
    # OTC-001..012, OTC-016, OTC-017, OTC-034
    return find_faults(text, _find_faults, not_json="OTC-034")


def _find_faults(data: Json) -> list[PathFault]:
    nulls = [path for tool, start in _tools(data) for path in _nulls(tool, start)]
    return [*warn_of_nulls(nulls, "OTC-010"), *examine(data)]


def _nulls(tool: Json, start: Path) -> list[Path]:
    if not isinstance(tool, dict):
        return []
    unset = [name for name, value in tool.items() if value is None and name not in _NEEDED]
    for name in unset:
        del tool[name]
    nulls: list[Path] = [(start, name) for name in unset]
    for name, part in tool.items():
        nulls += remove_nulls(part, (start, name), maps=_MAPS, values=_VALUES, nullable=_NULLABLE)
    return nulls


def _tools(data: Json) -> list[tuple[Json, Path]]:
    """Return each definition in ``data``, with the path to it."""
    if isinstance(data, list):
        return [(tool, (None, place)) for place, tool in enumerate(data)]
    lists = [(name, data[name]) for name in ("items", "tools") if isinstance(data, dict) and name in data]
    if not lists:
        return [(data, None)]
    return [
        (tool, ((None, name), place))
        for name, tools in lists
        if isinstance(tools, list)
        for place, tool in enumerate(tools)
    ]
