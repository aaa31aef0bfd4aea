"""OpenTool documents: what of one is read, and what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Problem
from toolwire.framing.jsontext import member
from toolwire.protocols.opentool import document

from .document_kind import POLICY_SPOTS, Entry, Form, Sheet
from .loss import Loss, at, shown, unread

_ROOT = ("opentool", "info", "functions", "schemas", "x-toolwire")
_INFO = ("title", "version", "description")
_FUNCTION = ("name", "description", "parameters", "return", "stream", document.POLICY, document.EXACT)
_PROGRESS = {"name", "schema"}
_RETURN = ("name", "description", "schema", document.EXACT)
_PARAMETER = (*_RETURN, "required")
_SCHEMA = ("type", "description", "properties", "required", "items", "enum", "$ref")
_TYPES = ("boolean", "integer", "number", "string", "array", "object")
_LEFT_OUT = re.compile(r"function (\d+) is left out: (.*)", re.DOTALL)
_MAX_DEPTH = 40


def _write(catalog: Catalog) -> Json:
    empty = {"opentool": document.SPECIFICATION, "info": {"title": catalog.title, "version": catalog.version}}
    return document.write(catalog) or {**empty, "functions": []}


def _read(data: Json) -> Sheet | Problem:
    found = document.read(data)
    if isinstance(found, Problem):
        return found
    catalog = found.catalog
    places: dict[Json, int] = {}
    for number, function in enumerate(data["functions"]):
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            places.setdefault(function["name"], number)
    entries: list[Entry] = []
    for tool in catalog.tools:
        label = found.methods.get(tool.name, tool.name)
        where = at("/functions", places[label])
        renamed = Loss(at(where, "name"), f"the name {shown(label)}", tool.name) if label != tool.name else None
        entries.append(Entry(label, where, tool, renamed))
    return Sheet(
        title=catalog.title,
        version=catalog.version,
        description=catalog.description,
        entries=tuple(entries),
        losses=(*_noted(found.notes), *_unread(data, [places[entry.label] for entry in entries])),
    )


def _noted(notes: tuple[str, ...]) -> Iterator[Loss]:
    for note in notes:
        match = _LEFT_OUT.fullmatch(note)
        if match is None:
            yield Loss("", note, "any value")
        else:
            yield Loss(at("/functions", int(match[1]) - 1), f"the function: {match[2]}")


def _unread(data: Mapping[str, Json], numbers: list[int]) -> Iterator[Loss]:
    yield from unread(data, _ROOT, "")
    yield from unread(member(data, "info"), _INFO, "/info")
    for name, schema in member(data, "schemas").items():
        yield from _schema(schema, at("/schemas", name), 0)
    for number in sorted(numbers):
        yield from _function(data["functions"][number], at("/functions", number))


def _function(function: Mapping[str, Json], where: str) -> Iterator[Loss]:
    yield from unread(function, _FUNCTION, where)
    parameters = function.get("parameters")
    names: set[str] = set()
    for number, one in enumerate(parameters if isinstance(parameters, list) else ()):
        place = at(where, "parameters", number)
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not name or name in names:
            yield Loss(place, "the parameter: it has no name, or that of another")
            continue
        names.add(name)
        if document.EXACT not in function:
            yield from _described(one, _PARAMETER, place)
    gives, streams = function.get("return"), member(member(function, "stream"), "data")
    if isinstance(gives, dict):
        yield from _described(gives, _RETURN, at(where, "return"))
    known = (gives, document.streamed(gives)) if isinstance(gives, dict) else ()
    if streams and streams not in known:
        yield Loss(at(where, "stream", "data"), "the schema of what is streamed", "the word that it streams")
    yield from unread(member(function, "stream"), ("data", document.PROGRESS), at(where, "stream"))
    if document.PROGRESS in member(function, "stream"):
        progress = member(function["stream"], document.PROGRESS)
        if progress.get("schema") != document.PROGRESS_SCHEMA or not progress.keys() <= _PROGRESS:
            place = at(where, "stream", document.PROGRESS)
            yield Loss(place, "the schema of the progress", "the word that it says how far it is")


def _described(node: Mapping[str, Json], known: tuple[str, ...], where: str) -> Iterator[Loss]:
    yield from unread(node, known, where)
    if document.EXACT not in node:
        yield from _schema(node.get("schema"), at(where, "schema"), 0)


def _schema(schema: Json, where: str, depth: int) -> Iterator[Loss]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    yield from unread(schema, _SCHEMA if "$ref" not in schema else ("$ref",), where)
    if "type" in schema and schema["type"] not in _TYPES:
        yield Loss(at(where, "type"), f"the type {shown(schema['type'])}", "any value")
    for name, inner in member(schema, "properties").items():
        yield from _schema(inner, at(where, "properties", name), depth + 1)
    yield from _schema(schema.get("items"), at(where, "items"), depth + 1)


OPENTOOL = Form(
    kind="opentool",
    fits=lambda data: isinstance(data, dict) and "opentool" in data,
    write=_write,
    read=_read,
    labels=lambda catalog: catalog.names,
    spots={
        **POLICY_SPOTS,
        "name": "/name",
        "description": "/description",
        "input_schema": "/parameters",
        "output_schema": "/return",
        "output_name": "/return/name",
        "streams": "/stream",
    },
)
