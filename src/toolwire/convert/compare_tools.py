"""Compare a catalog with its document read back, and list the losses of writing field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.json_pointer import PathStep, join_pointer
from toolwire.core.model import Json, Tool

from . import fields
from .extension import build_exact_values, compute_digest
from .loss import NOTHING, Loss, format_value
from .merge_extension import describe_catalog

Where: TypeAlias = Callable[[Tool, str], str]
"""Where in the source a field of a tool stands; the tool itself, for the field ``""``."""

_MISSING = {"\0": "missing"}


def list_catalog_losses(wanted: Catalog, found: Catalog, where: Callable[[str], str]) -> Iterator[Loss]:
    """Yield a loss for each thing that ``wanted`` says of itself and ``found`` does not."""
    described = describe_catalog(found)
    for name, text in describe_catalog(wanted).items():
        if described[name] != text:
            yield Loss(where(name), f"the {name} {format_value(text)} of all the tools", _format_found(described[name]))


def list_tool_losses(
    catalog: Catalog, wanted: Mapping[str, Tool], back: Mapping[str, Tool], where: Where
) -> Iterator[Loss]:
    """Yield a loss for each tool of ``catalog`` that is not ``back``, and for each field that is another there.

    ``wanted`` and ``back`` are by what the document calls a tool.
    """
    labels = {tool.id: label for label, tool in wanted.items()}
    for tool in catalog.tools:
        found = back.get(labels.get(tool.id, ""))
        if found is None:
            yield Loss(where(tool, ""), f"the tool {tool.id}", _name_newest(tool, wanted))
        else:
            yield from _list_field_losses(tool, found, where)


def _list_field_losses(tool: Tool, found: Tool, where: Where) -> Iterator[Loss]:
    described = fields.write(found)
    for name, difference in build_exact_values(described, fields.write(tool)).items():
        steps, value, stands = _find_difference(difference["is"], described[name])
        inside = f", at {join_pointer('', *steps)}" if steps else ""
        yield Loss(
            where(tool, name),
            f"the {fields.FIELDS[name].words} of {tool.id}{inside}: {_format_found(value)}",
            _format_found(stands),
        )
    if fields.has_odd_hints(tool):
        yield Loss(where(tool, "hints"), f"the hints of {tool.id}, which are not JSON data")


def _find_difference(one: Json, other: Json) -> tuple[tuple[PathStep, ...], Json, Json]:
    """Return the way to the first thing in which two values differ, and what stands there in each."""
    steps: list[PathStep] = []
    while True:
        if isinstance(one, dict) and isinstance(other, dict):
            names = list(dict.fromkeys([*one, *other]))
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            one, other = dict(enumerate(one)), dict(enumerate(other))
            names = list(one)
        else:
            return tuple(steps), one, other
        different = [
            name
            for name in names
            if compute_digest(one.get(name, _MISSING)) != compute_digest(other.get(name, _MISSING))
        ]
        if not different:
            return tuple(steps), list(one), list(other)  # the order of the members
        steps.append(different[0])
        one, other = one.get(different[0]), other.get(different[0])


def _name_newest(tool: Tool, wanted: Mapping[str, Tool]) -> str:
    same = [one for one in wanted.values() if (one.toolkit, one.name) == (tool.toolkit, tool.name)]
    return f"its newest version, {same[0].version}" if same else NOTHING


def _format_found(value: Json) -> str:
    return NOTHING if value in (None, "", [], {}) or value is False else format_value(value)
