"""Read and write the lists of Open Tool Calling: RFC ``tools``, OXP ``items``, and the array of universal-tool.

OXP lets no member stand in a definition beyond its own: what those do not say is lost, though the list itself has
room for the text it was made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolwire.core.catalog import Catalog
from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json, Problem, Tool
from toolwire.framing.jsontext import get_object, get_text
from toolwire.protocols.otc import document, standard

from .document_kind import POLICY_POINTERS, DocumentContent, DocumentEntry, DocumentForm
from .loss import Loss, format_value, list_unread

_ROOT = ("$schema", "items", "tools", "x-toolwire")
_DEFINITION = (
    "id",
    "name",
    "description",
    "version",
    "input_schema",
    "inputSchema",
    "input",
    "output_schema",
    "output",
    "requirements",
    "toolkit",
    "x-llm",
)
_SPOTS = {
    "name": "/name",
    "description": "/description",
    "version": "/version",
    "input_schema": "/input_schema",
    "output_schema": "/output_schema",
    "requirements": "/requirements",
}


def _write_otc(catalog: Catalog) -> Json:
    return {"$schema": standard.RFC, "tools": document.write(catalog)["tools"]}


def _write_oxp(catalog: Catalog) -> Json:
    return {"$schema": standard.OXP, "items": document.write(catalog)["items"]}


def _write_universal(catalog: Catalog) -> Json:
    return document.write_array(catalog)


def _read(data: Json) -> DocumentContent | Problem:
    if not (_find_list(data)[1] or isinstance(data, dict)):
        return DocumentContent(title="Tools")
    found = document.read(data, "Tools")
    if isinstance(found, Problem):
        return found
    where, listed = _find_list(data)
    numbers: dict[str, int] = {}
    for number, one in enumerate(listed):
        if isinstance(one, dict):
            numbers.setdefault(get_text(one, "id") or get_text(one, "name"), number)
    entries = tuple(
        _build_entry(found.ids[tool.id], join_pointer(where, numbers[found.ids[tool.id]]), tool)
        for tool in found.catalog.tools
    )
    return DocumentContent(title=found.catalog.title, entries=entries, losses=tuple(_list_unread(data, entries)))


def _build_entry(label: str, where: str, tool: Tool) -> DocumentEntry:
    wanted, name = label.partition("@")[0].lstrip("."), tool.id.partition("@")[0]
    is_same = name == wanted or name.endswith(f".{wanted.replace('-', '_')}")
    return DocumentEntry(label, where, tool, None if is_same else Loss(where, f"the id {format_value(label)}", tool.id))


def _find_list(data: Json) -> tuple[str, list[Any]]:
    """Return the pointer of the list that counts, and the list."""
    if isinstance(data, list):
        return "", data
    name = "items" if isinstance(data.get("items"), list) else "tools"
    return f"/{name}", data[name] if isinstance(data.get(name), list) else []


def _list_unread(data: Json, entries: tuple[DocumentEntry, ...]) -> Iterator[Loss]:
    if isinstance(data, dict):
        yield from list_unread(data, _ROOT, "")
    where, listed = _find_list(data)
    read = {entry.pointer: entry.tool for entry in entries}
    for number, one in enumerate(listed):
        place = join_pointer(where, number)
        if place not in read:
            yield Loss(place, "the tool: it cannot be called, is not for models, or is there already")
            continue
        yield from list_unread(one, _DEFINITION, place)
        yield from list_unread(get_object(one, "toolkit"), ("name", "version"), join_pointer(place, "toolkit"))
        version = one.get("version")
        if isinstance(version, str) and version != read[place].version:
            yield Loss(join_pointer(place, "version"), f"the version {format_value(version)}", read[place].version)


def _has_tools(data: Json) -> bool:
    return isinstance(data, Mapping) and isinstance(data.get("tools"), list)


def _is_oxp(data: Json) -> bool:
    return isinstance(data, dict) and isinstance(data.get("items"), list) and "tools" not in data


OTC = DocumentForm(
    kind="otc",
    fits=lambda data: _has_tools(data) and "openapi" not in data,
    write=_write_otc,
    read=_read,
    label_tools=lambda catalog: {tool.id: tool for tool in catalog.tools},
    field_pointers={**_SPOTS, **POLICY_POINTERS},
)
OXP = DocumentForm(
    kind="oxp",
    fits=_is_oxp,
    write=_write_oxp,
    read=_read,
    label_tools=lambda catalog: {tool.id: tool for tool in catalog.tools},
    keeps_exact_values=False,
    field_pointers=_SPOTS,
)
UNIVERSAL = DocumentForm(
    kind="universal",
    fits=lambda data: isinstance(data, list),
    write=_write_universal,
    read=_read,
    label_tools=lambda catalog: {tool.id: tool for tool in catalog.tools},
    extension_path=(),
    keeps_exact_values=False,
    field_pointers={**_SPOTS, **POLICY_POINTERS},
)
