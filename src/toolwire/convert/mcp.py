"""The result of MCP's ``tools/list`` as a document. What is ours stands under ``_meta``, where MCP has room for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json
from toolwire.framing.jsontext import member
from toolwire.protocols.mcp import document
from toolwire.protocols.mcp.revision import IDENTITY_META, POLICY_META

from .document_kind import Entry, Form, Sheet
from .loss import Loss, at, shown, unread

_ROOM = ("_meta", "toolwire/convert")
_TOOL = ("name", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_META = (POLICY_META, IDENTITY_META)


def _write(catalog: Catalog) -> Json:
    return {"tools": document.write(catalog)}


def _read(data: Json) -> Sheet:
    listed = data["tools"]
    catalog = document.read({}, "", listed).catalog
    numbers: dict[Json, int] = {}
    for number, one in enumerate(listed):
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            numbers.setdefault(one["name"], number)
    entries: list[Entry] = []
    for tool in catalog.tools:
        label = tool.hints["mcp"]["name"]
        where = at("/tools", numbers[label])
        renamed = None if not tool.original_name else Loss(at(where, "name"), f"the name {shown(label)}", tool.name)
        # A client asks any tool for progress of which it is not said that it has none; a document says what it says.
        declares = member(member(listed[numbers[label]], "_meta"), IDENTITY_META).get("reports") is True
        entries.append(Entry(label, where, replace(tool, reports=declares), renamed))
    return Sheet(title="Tools", entries=tuple(entries), losses=tuple(_unread(data, {one.pointer for one in entries})))


def _unread(data: Mapping[str, Json], read: set[str]) -> Iterator[Loss]:
    yield from unread(data, ("tools", "_meta"), "")
    yield from unread(member(data, "_meta"), _ROOM[1:], "/_meta")
    for number, one in enumerate(data["tools"]):
        place = at("/tools", number)
        if place not in read:
            yield Loss(place, "the tool: it cannot be called, is not for models, or is there already")
            continue
        yield from unread(one, _TOOL if one.get("description") else (*_TOOL, "title"), place)
        yield from unread(member(one, "_meta"), _META, at(place, "_meta"))
        if POLICY_META not in member(one, "_meta") and one.get("annotations"):
            yield Loss(at(place, "annotations"), "what the server says of the tool without declaring a policy")


def _is_listed(data: Json) -> bool:
    """Return whether ``data`` lists tools as MCP does, and not as the RFC does, whose list looks alike."""
    match data:
        case {"tools": [*tools]} if "openapi" not in data and "$schema" not in data and "items" not in data:
            return not tools or any(isinstance(one, dict) and "inputSchema" in one for one in tools)
        case _:
            return False


MCP = Form(
    kind="mcp",
    fits=_is_listed,
    write=_write,
    read=_read,
    labels=lambda catalog: catalog.names,
    room=_ROOM,
    spots={
        "name": "/name",
        "description": "/description",
        "input_schema": "/inputSchema",
        "output_schema": "/outputSchema",
        "safe": "/_meta/toolwire~1x-llm/readOnly",
        "destructive": "/annotations/destructiveHint",
    },
)
