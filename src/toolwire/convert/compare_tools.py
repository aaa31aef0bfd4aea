"""What is missing when a written document is read back: the losses of writing it, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Tool
from toolwire.framing.positions import Step

from . import fields
from .extension import digest, exact
from .loss import NOTHING, Loss, at, shown
from .merge_extension import named

Where: TypeAlias = Callable[[Tool, str], str]
"""Where in the source a field of a tool stands; the tool itself, for the field ``""``."""

_MISSING = {"\0": "missing"}


def about_losses(wanted: Catalog, found: Catalog, where: Callable[[str], str]) -> Iterator[Loss]:
    """Yield a loss for each thing that ``wanted`` says of itself and ``found`` does not."""
    said = named(found)
    for name, text in named(wanted).items():
        if said[name] != text:
            yield Loss(where(name), f"the {name} {shown(text)} of all the tools", _said(said[name]))


def tool_losses(catalog: Catalog, wanted: Mapping[str, Tool], back: Mapping[str, Tool], where: Where) -> Iterator[Loss]:
    """Yield a loss for each tool of ``catalog`` that is not ``back``, and for each field that is another there.

    ``wanted`` and ``back`` are by what the document calls a tool.
    """
    labels = {tool.id: label for label, tool in wanted.items()}
    for tool in catalog.tools:
        found = back.get(labels.get(tool.id, ""))
        if found is None:
            yield Loss(where(tool, ""), f"the tool {tool.id}", _newer(tool, wanted))
        else:
            yield from _field_losses(tool, found, where)


def _field_losses(tool: Tool, found: Tool, where: Where) -> Iterator[Loss]:
    said = fields.write(found)
    for name, difference in exact(said, fields.write(tool)).items():
        steps, value, stands = _first(difference["is"], said[name])
        inside = f", at {at('', *steps)}" if steps else ""
        yield Loss(
            where(tool, name), f"the {fields.FIELDS[name].words} of {tool.id}{inside}: {_said(value)}", _said(stands)
        )
    if fields.has_odd_hints(tool):
        yield Loss(where(tool, "hints"), f"the hints of {tool.id}, which are no JSON data")


def _first(one: Json, other: Json) -> tuple[tuple[Step, ...], Json, Json]:
    """Return the way to the first thing in which two values differ, and what stands there in each."""
    steps: list[Step] = []
    while True:
        if isinstance(one, dict) and isinstance(other, dict):
            names = list(dict.fromkeys([*one, *other]))
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            one, other = dict(enumerate(one)), dict(enumerate(other))
            names = list(one)
        else:
            return tuple(steps), one, other
        different = [name for name in names if digest(one.get(name, _MISSING)) != digest(other.get(name, _MISSING))]
        if not different:
            return tuple(steps), list(one), list(other)  # the order of the members
        steps.append(different[0])
        one, other = one.get(different[0]), other.get(different[0])


def _newer(tool: Tool, wanted: Mapping[str, Tool]) -> str:
    same = [one for one in wanted.values() if (one.toolkit, one.name) == (tool.toolkit, tool.name)]
    return f"its newest version, {same[0].version}" if same else NOTHING


def _said(value: Json) -> str:
    return NOTHING if value in (None, "", [], {}) or value is False else shown(value)
