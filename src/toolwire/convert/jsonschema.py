"""Read and write a bundle of JSON Schemas: each tool by name, with the schemas of its input and output.

``{"$schema", "title", "version", "description", "tools": {NAME: {"description", "input", "output"}}}``, where
``output`` is null for a tool that gives nothing. Older versions of a tool are called ``NAME@VERSION``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from toolwire.core.catalog import NAME, VERSION, Catalog, build_toolkit_name
from toolwire.core.json_pointer import join_pointer
from toolwire.core.model import Json, Tool
from toolwire.framing.jsontext import get_object, get_text
from toolwire.validation.foreign_schema import read_foreign_tool

from .document_kind import DocumentContent, DocumentEntry, DocumentForm, label_every_version
from .loss import Loss, format_value, list_unread

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ROOT = ("$schema", "title", "version", "description", "tools", "x-toolwire")
_TOOL = ("description", "input", "output")


def _write(catalog: Catalog) -> Json:
    return {
        "$schema": _DRAFT,
        "title": catalog.title,
        "version": catalog.version,
        "description": catalog.description,
        "tools": {label: _write_tool(tool) for label, tool in label_every_version(catalog).items()},
    }


def _write_tool(tool: Tool) -> Json:
    output = None if tool.output_schema is None else dict(tool.output_schema)
    return {"description": tool.description, "input": dict(tool.input_schema), "output": output}


def _read(data: Json) -> DocumentContent:
    title, version = get_text(data, "title") or "Tools", get_text(data, "version") or "1.0.0"
    entries: dict[str, DocumentEntry] = {}
    losses = [*list_unread(data, _ROOT, "")]
    for label, one in data["tools"].items():
        where = join_pointer("/tools", label)
        if not label or not isinstance(one, dict):
            losses.append(Loss(where, "the tool: it has no name or is not an object"))
            continue
        entry = _build_entry(label, where, one, Tool(name="tool", toolkit=build_toolkit_name(title), version=version))
        if entry.tool.name in entries:
            losses.append(Loss(where, f"the tool: {entry.tool.name} is there already"))
            continue
        entries[entry.tool.name] = entry
        losses += _list_unread(one, where)
    return DocumentContent(
        title=title,
        version=version,
        description=get_text(data, "description"),
        entries=tuple(entries.values()),
        losses=tuple(losses),
    )


def _build_entry(label: str, where: str, one: Mapping[str, Json], base: Tool) -> DocumentEntry:
    name = label if NAME.fullmatch(label) else re.sub(r"[^A-Za-z0-9_-]", "_", label)[:64]
    output = one.get("output", {})
    tool = Tool(
        name=name,
        toolkit=base.toolkit,
        version=base.version if VERSION.fullmatch(base.version) else "1.0.0",
        description=get_text(one, "description"),
        input_schema=dict(get_object(one, "input")),
        output_schema=output if isinstance(output, dict | None) else {},
    )
    tool = read_foreign_tool(tool, [])  # O-34
    return DocumentEntry(
        label, where, tool, None if name == label else Loss(where, f"the name {format_value(label)}", name)
    )


def _list_unread(one: Mapping[str, Json], where: str) -> Iterator[Loss]:
    yield from list_unread(one, _TOOL, where)
    if "input" in one and not isinstance(one["input"], dict):
        yield Loss(join_pointer(where, "input"), "a schema that is not an object", "any arguments")
    if not isinstance(one.get("output"), dict | None):
        yield Loss(join_pointer(where, "output"), "a schema that is not an object", "any value")


def _fits(data: Json) -> bool:
    return isinstance(data, dict) and isinstance(data.get("tools"), dict)


JSONSCHEMA = DocumentForm(
    kind="jsonschema",
    fits=_fits,
    write=_write,
    read=_read,
    label_tools=label_every_version,
    field_pointers={"description": "/description", "input_schema": "/input", "output_schema": "/output"},
)
