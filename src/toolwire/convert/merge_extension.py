"""Merge the content of a document and our own member into a catalog, and build that member."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json
from toolwire.framing.jsontext import get_object

from . import extension, fields
from .document_kind import DocumentContent, DocumentEntry, DocumentForm
from .loss import Loss

_ITSELF = "what the document itself says"


class MergedDocument(NamedTuple):
    """The whole meaning of a document, each of its tools, and what of it was not read."""

    catalog: Catalog
    entries: tuple[DocumentEntry, ...]
    losses: tuple[Loss, ...]


def build_extension(form: DocumentForm, sheet: DocumentContent, catalog: Catalog) -> dict[str, Json]:
    """Return what must stand beside ``sheet``, which is ``catalog`` in the words of ``form``, to lose nothing of it."""
    wanted = form.label_tools(catalog)
    about = extension.build_exact_values(_describe_content(sheet), describe_catalog(catalog))
    tools = {
        entry.label: marks
        for entry in _drop_hints(sheet)
        if entry.label in wanted
        and (marks := extension.build_exact_values(fields.write(entry.tool), fields.write(wanted[entry.label])))
    }
    return {name: part for name, part in (("catalog", about), ("tools", tools)) if part}


def merge_extension(form: DocumentForm, document: Json, sheet: DocumentContent) -> MergedDocument:
    """Return what ``document`` means: ``sheet`` with the exact values that still fit it."""
    ours = extension.get_extension(document, form.extension_path) if form.keeps_exact_values else {}
    place = join_pointer("", *form.extension_path)
    values, stale = extension.read_exact_values(_describe_content(sheet), ours.get("catalog"))
    about: dict[str, Any] = _describe_content(sheet) | {
        name: text for name, text in values.items() if isinstance(text, str)
    }
    losses = [*sheet.losses, *(_build_stale_loss(place, name) for name in stale)]
    plain = _drop_hints(sheet)
    entries: list[DocumentEntry] = []
    for entry in plain:
        exact, more = _apply_exact_values(entry, get_object(ours, "tools").get(entry.label))
        entries.append(exact)
        losses += more
    try:
        return MergedDocument(
            Catalog(**about, tools=tuple(entry.tool for entry in entries)), tuple(entries), tuple(losses)
        )
    except ValueError as error:  # an edited file: its exact names are not legal
        losses.append(Loss(place, f"the exact values: {error}", _ITSELF))
        return MergedDocument(Catalog(**about, tools=tuple(entry.tool for entry in plain)), plain, tuple(losses))


def describe_catalog(catalog: Catalog) -> dict[str, str]:
    """Return what ``catalog`` says of itself, beside its tools."""
    return {"title": catalog.title, "version": catalog.version, "description": catalog.description}


def _describe_content(sheet: DocumentContent) -> dict[str, Json]:
    return {"title": sheet.title, "version": sheet.version, "description": sheet.description}


def _drop_hints(sheet: DocumentContent) -> tuple[DocumentEntry, ...]:
    """Return the entries without what a codec remembers for its own calls."""
    return tuple(entry._replace(tool=replace(entry.tool, hints={})) for entry in sheet.entries)


def _apply_exact_values(entry: DocumentEntry, exact_values: Json) -> tuple[DocumentEntry, list[Loss]]:
    values, stale = extension.read_exact_values(fields.write(entry.tool), exact_values)
    losses = [_build_stale_loss(entry.pointer, name) for name in stale]
    tool = entry.tool
    try:
        tool = fields.replace_fields(tool, values)
    except ValueError as error:
        losses.append(Loss(entry.pointer, f"the exact values: {error}", _ITSELF))
        values = {}
    if entry.renamed is not None and not {"name", "toolkit"} & values.keys():
        losses.append(entry.renamed)
    losses += [loss for name, loss in entry.mended if name not in values]
    return entry._replace(tool=tool), losses


def _build_stale_loss(pointer: str, name: str) -> Loss:
    return Loss(pointer, f"the exact {name}: what it stood beside was edited", _ITSELF)
