"""Read and write OpenAPI documents: the operations they offer, or all of them if there is no ``x-llm``.

How an operation is called over HTTP, and at which server, has no place in a catalog: that is a loss of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from toolwire.core.catalog import VERSION, Catalog
from toolwire.core.codec import Site
from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json, Kind, Problem, Tool
from toolwire.framing.jsontext import get_object
from toolwire.protocols.openapi import document_writer
from toolwire.protocols.openapi.document import hidden_text, identity, swagger_20
from toolwire.protocols.openapi.document.consent_policy import get_extension as get_policy
from toolwire.protocols.openapi.document.descriptions import describe_own
from toolwire.protocols.openapi.document.operation_list import METHODS, inline_path_items
from toolwire.protocols.openapi.document.paths import ACCEPT_QUERY
from toolwire.protocols.openapi.document.references import Unusable, follow
from toolwire.protocols.openapi.request.plan import Plan
from toolwire.protocols.openapi.tools import operations
from toolwire.protocols.openapi.tools.operations import OperationToolSet

from .document_kind import POLICY_POINTERS, DocumentContent, DocumentEntry, DocumentForm
from .extension import get_extension
from .loss import Loss, format_value, list_unread

_HOME = "https://localhost/openapi.json"
# What its server accepts is no part of the tools, and is left out with "servers" that a converted list does not have.
_ROOT = (
    "openapi",
    "info",
    "x-llm",
    "x-opentools",
    "paths",
    "components",
    "jsonSchemaDialect",
    "x-toolwire",
    ACCEPT_QUERY,
)
_INFO = ("title", "version", "description")
_ITEM = (*METHODS, "parameters", "$ref")
_OPERATION = (
    "operationId",
    "summary",
    "tags",
    "deprecated",
    "x-llm",
    "x-opentools",
    "parameters",
    "requestBody",
    "responses",
    identity.MEMBER,
)
_OLDER = re.compile(rf"/api/[A-Za-z0-9_-]+@{VERSION.pattern}", re.ASCII)


class _Operation(NamedTuple):
    method: str
    path: str
    node: Mapping[str, Json]

    @property
    def pointer(self) -> str:
        return join_pointer("/paths", self.path, self.method.lower())


def _write(catalog: Catalog) -> Json:
    return document_writer.write(catalog, Site())


def _read(data: Json) -> DocumentContent | Problem:
    data, notes = swagger_20.upgrade(data) if swagger_20.is_swagger(data) else (data, [])
    data = inline_path_items(data)
    offers_all = not isinstance(get_policy(data), dict) and all(
        get_policy(dict(one.node)) is None for one in _list_operations(data)
    )
    prepared = _prepare_document(data, {"x-llm": True} if offers_all else {})
    if reason := operations.explain_unfit(prepared):
        return Problem(kind=Kind.BAD_ANSWER, message=f"This {reason}.")
    found_tools = operations.read_operations(prepared, _HOME, hides=hidden_text.NOTHING)
    catalog = found_tools.catalog
    by_place = {_locate_operation(one): one for one in _list_operations(data)}
    entries = [_build_entry(by_place[_locate_plan(found_tools.memo.plans[tool.id])], tool) for tool in catalog.tools]
    if offers_all:
        entries = [entry._replace(tool=replace(entry.tool, approval=None)) for entry in entries]
    description = get_object(data, "info").get("description")
    return DocumentContent(
        title=catalog.title,
        version=catalog.version,
        description=catalog.description or (description if isinstance(description, str) else ""),
        entries=tuple(entries),
        losses=(
            *(Loss(note.pointer, note.text) for note in notes),
            *_list_unread(data),
            *_list_operation_losses(data, found_tools, {entry.pointer: entry.tool for entry in entries}),
            *_list_hidden(data),
        ),
    )


def _list_hidden(data: dict[str, Any]) -> Iterator[Loss]:
    """Yield what texts hide from people; of a document of ours, the exact texts stand beside."""
    if not get_extension(data, OPENAPI.extension_path):
        yield from (
            Loss(place, "what this text hides from people") for place in hidden_text.find_hidden_text(data).places
        )


def _prepare_document(data: dict[str, Any], extension: dict[str, Json]) -> dict[str, Json]:
    """Return ``data`` as if it came from the server it speaks of, its operations with what ``extension`` adds."""
    paths = dict(get_object(data, "paths"))
    for path, item in _list_path_items(data):
        inner = {name: one for name, one in item.items() if name != "servers"}
        for method in METHODS:
            if isinstance(inner.get(method), dict):
                inner[method] = {name: one for name, one in inner[method].items() if name != "servers"} | extension
        paths[path] = inner
    return {name: value for name, value in data.items() if name != "servers"} | {"paths": paths}


def _list_operations(data: Mapping[str, Json]) -> Iterator[_Operation]:
    for path, item in _list_path_items(data):
        for method in METHODS:
            if isinstance(item.get(method), dict):
                yield _Operation(method.upper(), path, item[method])


def _list_path_items(data: Mapping[str, Json]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each path with its item, without those that cannot be read: the reader of the document reports these."""
    for path, item in get_object(data, "paths").items():
        if path.startswith("x-"):
            continue
        try:
            yield path, follow(dict(data), item, "path item")
        except Unusable:
            continue


def _locate_operation(one: _Operation) -> tuple[str, str, str]:
    path, _, query = one.path.partition("#")[0].partition("?")
    return one.method, path, query


def _locate_plan(plan: Plan) -> tuple[str, str, str]:
    return plan.method, plan.path, plan.fixed_query


def _build_entry(one: _Operation, tool: Tool) -> DocumentEntry:
    id_ = one.node.get("operationId")
    label = id_ if isinstance(id_, str) and id_ else f"{one.method} {one.path}"
    output = None if tool.output_schema is None else dict(tool.output_schema)
    plain = replace(
        tool, description=describe_own(tool), input_schema=dict(tool.input_schema), output_schema=output
    )  # as data: in a document nothing waits to be looked at
    same = label == tool.name or identity.read(dict(one.node)) is not None
    renamed = (
        None if same else Loss(join_pointer(one.pointer, "operationId"), f"the id {format_value(label)}", tool.name)
    )
    return DocumentEntry(label, one.pointer, plain, renamed)


def _list_unread(data: Mapping[str, Json]) -> Iterator[Loss]:
    yield from list_unread(data, (*_ROOT, "servers"), "")
    if data.get("servers", [{"url": "/"}]) != [{"url": "/"}]:
        yield Loss("/servers", "where the servers are")
    if get_object(data, "components").get("securitySchemes"):
        yield Loss("/components/securitySchemes", "what a caller has to show")
    yield from list_unread(get_object(data, "info"), _INFO, "/info")
    for path, item in _list_path_items(data):
        yield from list_unread(item, _ITEM, join_pointer("/paths", path))


def _list_operation_losses(
    data: Mapping[str, Json], found_tools: OperationToolSet, read: Mapping[str, Tool]
) -> Iterator[Loss]:
    findings: dict[str, list[str]] = {}
    for text in found_tools.memo.findings:
        findings.setdefault(text.partition(": ")[0], []).append(text)
    for one in _list_operations(data):
        start = f"{one.method} {one.path[:200]}"
        found = [text.removeprefix(f"{start}: ") for text in findings.pop(start, ())]
        tool = read.get(one.pointer)
        if tool is None:
            yield Loss(one.pointer, f"the operation {start}: {' '.join(found) or 'it has no x-llm.'}")
            continue
        yield from (Loss(one.pointer, text) for text in found)
        yield from _list_call_losses(one, tool)
    rest = [text for texts in findings.values() for text in texts]
    yield from (Loss("", text) for text in rest if not text.endswith("not offered."))


def _list_call_losses(one: _Operation, tool: Tool) -> Iterator[Loss]:
    known = _OPERATION if one.node.get("summary") else (*_OPERATION, "description")
    yield from list_unread(one.node, known, one.pointer)
    if one.path != f"/api/{one.node.get('operationId')}" and not _OLDER.fullmatch(one.path):
        yield Loss(one.pointer, f"how it is called over HTTP: {one.method} {one.path}", f"a call of {tool.name}")


OPENAPI = DocumentForm(
    kind="openapi",
    fits=lambda data: isinstance(data, dict) and ("openapi" in data or "swagger" in data),
    write=_write,
    read=_read,
    label_tools=lambda catalog: {one.operation_id: one.tool for one in document_writer.list_published(catalog)},
    field_pointers={
        **POLICY_POINTERS,
        "name": "/operationId",
        "description": "/summary",
        "input_schema": "/requestBody",
        "output_schema": "/responses",
        "deprecated": "/deprecated",
    },
)
