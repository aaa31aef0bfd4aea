"""The result of MCP's ``tools/list`` as a document. What is ours stands under ``_meta``, where MCP has room for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from toolwire.core.catalog import Catalog
from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json
from toolwire.framing.jsontext import get_object
from toolwire.protocols.mcp import document
from toolwire.protocols.mcp.revision import IDENTITY_META, POLICY_META

from .document_kind import DocumentContent, DocumentEntry, DocumentForm
from .loss import Loss, format_value, list_unread

_ROOM = ("_meta", "toolwire/convert")
_TOOL = ("name", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_META = (POLICY_META, IDENTITY_META)


def _write(catalog: Catalog) -> Json:
    return {"tools": document.write(catalog)}


def _read(data: Json) -> DocumentContent:
    listed = data["tools"]
    catalog = document.read({}, "", listed).catalog
    numbers: dict[Json, int] = {}
    for number, one in enumerate(listed):
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            numbers.setdefault(one["name"], number)
    entries: list[DocumentEntry] = []
    for tool in catalog.tools:
        label = tool.hints["mcp"]["name"]
        where = join_pointer("/tools", numbers[label])
        renamed = (
            None
            if not tool.original_name
            else Loss(join_pointer(where, "name"), f"the name {format_value(label)}", tool.name)
        )
        # A client asks any tool for progress of which it is not said that it has none; a document says what it says.
        declares = get_object(get_object(listed[numbers[label]], "_meta"), IDENTITY_META).get("reports") is True
        hints = {**tool.hints, "mcp": {**tool.hints["mcp"], "members": {}}}  # the losses name these members
        entries.append(DocumentEntry(label, where, replace(tool, reports=declares, hints=hints), renamed))
    return DocumentContent(
        title="Tools", entries=tuple(entries), losses=tuple(_list_unread(data, {one.pointer for one in entries}))
    )


def _list_unread(data: Mapping[str, Json], read: set[str]) -> Iterator[Loss]:
    yield from list_unread(data, ("tools", "_meta"), "")
    yield from list_unread(get_object(data, "_meta"), _ROOM[1:], "/_meta")
    for number, one in enumerate(data["tools"]):
        place = join_pointer("/tools", number)
        if place not in read:
            yield Loss(place, "the tool: it cannot be called, is not for models, or is there already")
            continue
        yield from list_unread(one, _TOOL if one.get("description") else (*_TOOL, "title"), place)
        yield from list_unread(get_object(one, "_meta"), _META, join_pointer(place, "_meta"))
        if POLICY_META not in get_object(one, "_meta") and one.get("annotations"):
            yield Loss(
                join_pointer(place, "annotations"), "what the server says of the tool without declaring a policy"
            )


def _is_tool_list(data: Json) -> bool:
    """Return whether ``data`` lists tools as MCP does, and not as the RFC does, whose list looks alike."""
    match data:
        case {"tools": [*tools]} if "openapi" not in data and "$schema" not in data and "items" not in data:
            return not tools or any(isinstance(one, dict) and "inputSchema" in one for one in tools)
        case _:
            return False


MCP = DocumentForm(
    kind="mcp",
    fits=_is_tool_list,
    write=_write,
    read=_read,
    label_tools=lambda catalog: catalog.names,
    extension_path=_ROOM,
    field_pointers={
        "name": "/name",
        "description": "/description",
        "input_schema": "/inputSchema",
        "output_schema": "/outputSchema",
        "safe": "/_meta/toolwire~1x-llm/readOnly",
        "destructive": "/annotations/destructiveHint",
    },
)
