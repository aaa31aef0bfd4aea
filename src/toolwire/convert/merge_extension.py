"""A document's own words and our member beside them, joined into a catalog; and what that member has to say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json
from toolwire.framing.jsontext import member

from . import extension, fields
from .document_kind import Entry, Form, Sheet
from .loss import Loss, at

_ITSELF = "what the document itself says"


class Joined(NamedTuple):
    """The whole meaning of a document, each of its tools, and what of it was not read."""

    catalog: Catalog
    entries: tuple[Entry, ...]
    losses: tuple[Loss, ...]


def beside(form: Form, sheet: Sheet, catalog: Catalog) -> dict[str, Json]:
    """Return what must stand beside ``sheet``, which is ``catalog`` in the words of ``form``, to lose nothing of it."""
    wanted = form.labels(catalog)
    about = extension.exact(_about(sheet), named(catalog))
    tools = {
        entry.label: marks
        for entry in _without_hints(sheet)
        if entry.label in wanted
        and (marks := extension.exact(fields.write(entry.tool), fields.write(wanted[entry.label])))
    }
    return {name: part for name, part in (("catalog", about), ("tools", tools)) if part}


def joined(form: Form, document: Json, sheet: Sheet) -> Joined:
    """Return what ``document`` means: ``sheet`` with the exact values that still fit it."""
    ours = extension.taken(document, form.room) if form.carries else {}
    place = at("", *form.room)
    values, stale = extension.valid(_about(sheet), ours.get("catalog"))
    about: dict[str, Any] = _about(sheet) | {name: text for name, text in values.items() if isinstance(text, str)}
    losses = [*sheet.losses, *(_stale(place, name) for name in stale)]
    plain = _without_hints(sheet)
    entries: list[Entry] = []
    for entry in plain:
        exact, more = _exact(entry, member(ours, "tools").get(entry.label))
        entries.append(exact)
        losses += more
    try:
        return Joined(Catalog(**about, tools=tuple(entry.tool for entry in entries)), tuple(entries), tuple(losses))
    except ValueError as error:  # somebody edited the exact names; those of the document itself are in order
        losses.append(Loss(place, f"the exact values: {error}", _ITSELF))
        return Joined(Catalog(**about, tools=tuple(entry.tool for entry in plain)), plain, tuple(losses))


def named(catalog: Catalog) -> dict[str, str]:
    """Return what ``catalog`` says of itself, beside its tools."""
    return {"title": catalog.title, "version": catalog.version, "description": catalog.description}


def _about(sheet: Sheet) -> dict[str, Json]:
    return {"title": sheet.title, "version": sheet.version, "description": sheet.description}


def _without_hints(sheet: Sheet) -> tuple[Entry, ...]:
    """Return the entries without what a codec remembers for its own calls."""
    return tuple(entry._replace(tool=replace(entry.tool, hints={})) for entry in sheet.entries)


def _exact(entry: Entry, said: Json) -> tuple[Entry, list[Loss]]:
    values, stale = extension.valid(fields.write(entry.tool), said)
    losses = [_stale(entry.pointer, name) for name in stale]
    tool = entry.tool
    try:
        tool = fields.changed(tool, values)
    except ValueError as error:
        losses.append(Loss(entry.pointer, f"the exact values: {error}", _ITSELF))
        values = {}
    if entry.renamed is not None and not {"name", "toolkit"} & values.keys():
        losses.append(entry.renamed)
    return entry._replace(tool=tool), losses


def _stale(pointer: str, name: str) -> Loss:
    return Loss(pointer, f"the exact {name}: what it stood beside was edited", _ITSELF)
