"""Read and write OpenTool documents, and list what is not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from toolwire.core.catalog import Catalog
from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json, Problem
from toolwire.framing.jsontext import get_object
from toolwire.protocols.opentool import document

from .document_kind import POLICY_POINTERS, DocumentContent, DocumentEntry, DocumentForm
from .loss import Loss, format_value, list_unread

_ROOT = ("opentool", "info", "functions", "schemas", "x-toolwire")
_INFO = ("title", "version", "description")
_FUNCTION = (
    "name",
    "description",
    "parameters",
    "return",
    "stream",
    document.POLICY,
    document.EXACT,
    document.REQUIREMENTS,
)
_PROGRESS = {"name", "schema"}
_RETURN = ("name", "description", "schema", document.EXACT)
_PARAMETER = (*_RETURN, "required")
_SCHEMA = ("type", "description", "properties", "required", "items", "enum", "$ref")
_TYPES = ("boolean", "integer", "number", "string", "array", "object")
_SCHEMAS = {"input_schema": "the input schema", "output_schema": "the output schema"}
_LEFT_OUT = re.compile(r"function (\d+) is left out: (.*)", re.DOTALL)
_MAX_DEPTH = 40


def _write(catalog: Catalog) -> Json:
    empty = {"opentool": document.SPECIFICATION, "info": {"title": catalog.title, "version": catalog.version}}
    return document.write(catalog) or {**empty, "functions": []}


def _read(data: Json) -> DocumentContent | Problem:
    found = document.read(data)
    if isinstance(found, Problem):
        return found
    catalog = found.catalog
    places: dict[Json, int] = {}
    for number, function in enumerate(data["functions"]):
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            places.setdefault(function["name"], number)
    entries: list[DocumentEntry] = []
    for tool in catalog.tools:
        label = found.methods.get(tool.name, tool.name)
        where = join_pointer("/functions", places[label])
        renamed = (
            Loss(join_pointer(where, "name"), f"the name {format_value(label)}", tool.name)
            if label != tool.name
            else None
        )
        entries.append(DocumentEntry(label, where, tool, renamed, tuple(_list_mended(tool.name, found.notes))))
    mended = {loss.what for entry in entries for _, loss in entry.mended}
    notes = [note for note in found.notes if note not in mended]
    return DocumentContent(
        title=catalog.title,
        version=catalog.version,
        description=catalog.description,
        entries=tuple(entries),
        losses=(*_list_note_losses(notes), *_list_unread(data, [places[entry.label] for entry in entries])),
    )


def _list_mended(name: str, notes: Iterable[str]) -> Iterator[tuple[str, Loss]]:
    """Yield what of the schemas of the tool ``name`` was not usable as it stood, with the field of the tool."""
    for note in notes:
        for field, declared in _SCHEMAS.items():
            if note.startswith(f"{declared} of the tool {name!r}: "):
                yield field, Loss("", note, "any value")


def _list_note_losses(notes: Iterable[str]) -> Iterator[Loss]:
    for note in notes:
        match = _LEFT_OUT.fullmatch(note)
        if match is None:
            yield Loss("", note, "any value")
        else:
            yield Loss(join_pointer("/functions", int(match[1]) - 1), f"the function: {match[2]}")


def _list_unread(data: Mapping[str, Json], numbers: list[int]) -> Iterator[Loss]:
    yield from list_unread(data, _ROOT, "")
    yield from list_unread(get_object(data, "info"), _INFO, "/info")
    for name, schema in get_object(data, "schemas").items():
        yield from _list_schema_losses(schema, join_pointer("/schemas", name), 0)
    for number in sorted(numbers):
        yield from _list_function_losses(data["functions"][number], join_pointer("/functions", number))


def _list_function_losses(function: Mapping[str, Json], where: str) -> Iterator[Loss]:
    yield from list_unread(function, _FUNCTION, where)
    parameters = function.get("parameters")
    names: set[str] = set()
    for number, one in enumerate(parameters if isinstance(parameters, list) else ()):
        place = join_pointer(where, "parameters", number)
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not name or name in names:
            yield Loss(place, "the parameter: it has no name, or that of another")
            continue
        names.add(name)
        if document.EXACT not in function:
            yield from _list_described_losses(one, _PARAMETER, place)
    gives, streams = function.get("return"), get_object(get_object(function, "stream"), "data")
    if isinstance(gives, dict):
        yield from _list_described_losses(gives, _RETURN, join_pointer(where, "return"))
    known = (gives, document.write_streamed(gives)) if isinstance(gives, dict) else ()
    if streams and streams not in known:
        yield Loss(join_pointer(where, "stream", "data"), "the schema of what is streamed", "the word that it streams")
    yield from list_unread(get_object(function, "stream"), ("data", document.PROGRESS), join_pointer(where, "stream"))
    if document.PROGRESS in get_object(function, "stream"):
        progress = get_object(function["stream"], document.PROGRESS)
        if progress.get("schema") != document.PROGRESS_SCHEMA or not progress.keys() <= _PROGRESS:
            place = join_pointer(where, "stream", document.PROGRESS)
            yield Loss(place, "the schema of the progress", "the word that it says how far it is")


def _list_described_losses(node: Mapping[str, Json], known: tuple[str, ...], where: str) -> Iterator[Loss]:
    yield from list_unread(node, known, where)
    if document.EXACT not in node:
        yield from _list_schema_losses(node.get("schema"), join_pointer(where, "schema"), 0)


def _list_schema_losses(schema: Json, where: str, depth: int) -> Iterator[Loss]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    yield from list_unread(schema, _SCHEMA if "$ref" not in schema else ("$ref",), where)
    if "type" in schema and schema["type"] not in _TYPES:
        yield Loss(join_pointer(where, "type"), f"the type {format_value(schema['type'])}", "any value")
    for name, inner in get_object(schema, "properties").items():
        yield from _list_schema_losses(inner, join_pointer(where, "properties", name), depth + 1)
    yield from _list_schema_losses(schema.get("items"), join_pointer(where, "items"), depth + 1)


OPENTOOL = DocumentForm(
    kind="opentool",
    fits=lambda data: isinstance(data, dict) and "opentool" in data,
    write=_write,
    read=_read,
    label_tools=lambda catalog: catalog.names,
    field_pointers={
        **POLICY_POINTERS,
        "name": "/name",
        "description": "/description",
        "input_schema": "/parameters",
        "output_schema": "/return",
        "output_name": "/return/name",
        "streams": "/stream",
    },
)
