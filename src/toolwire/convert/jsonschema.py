"""A bundle of JSON Schemas: each tool by name, with the exact schema of what it takes and of what it gives.

``{"$schema", "title", "version", "description", "tools": {NAME: {"description", "input", "output"}}}``, where
``output`` is null for a tool that gives nothing. Older versions of a tool are called ``NAME@x.y.z``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from toolwire.core.catalog import NAME, VERSION, Catalog, identifier
from toolwire.core.model import Json, Tool
from toolwire.framing.jsontext import member

from .document_kind import Entry, Form, Sheet, every_version
from .loss import Loss, at, shown, unread

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ROOT = ("$schema", "title", "version", "description", "tools", "x-toolwire")
_TOOL = ("description", "input", "output")


def _write(catalog: Catalog) -> Json:
    return {
        "$schema": _DRAFT,
        "title": catalog.title,
        "version": catalog.version,
        "description": catalog.description,
        "tools": {label: _write_tool(tool) for label, tool in every_version(catalog).items()},
    }


def _write_tool(tool: Tool) -> Json:
    output = None if tool.output_schema is None else dict(tool.output_schema)
    return {"description": tool.description, "input": dict(tool.input_schema), "output": output}


def _read(data: Json) -> Sheet:
    title, version = _text(data, "title") or "Tools", _text(data, "version") or "1.0.0"
    entries: dict[str, Entry] = {}
    losses = [*unread(data, _ROOT, "")]
    for label, one in data["tools"].items():
        where = at("/tools", label)
        if not label or not isinstance(one, dict):
            losses.append(Loss(where, "the tool: it has no name, or is no object"))
            continue
        entry = _entry(label, where, one, Tool(name="tool", toolkit=identifier(title), version=version))
        if entry.tool.name in entries:
            losses.append(Loss(where, f"the tool: {entry.tool.name} is there already"))
            continue
        entries[entry.tool.name] = entry
        losses += _unread(one, where)
    return Sheet(
        title=title,
        version=version,
        description=_text(data, "description"),
        entries=tuple(entries.values()),
        losses=tuple(losses),
    )


def _entry(label: str, where: str, one: Mapping[str, Json], base: Tool) -> Entry:
    name = label if NAME.fullmatch(label) else re.sub(r"[^A-Za-z0-9_-]", "_", label)[:64]
    output = one.get("output", {})
    tool = Tool(
        name=name,
        toolkit=base.toolkit,
        version=base.version if VERSION.fullmatch(base.version) else "1.0.0",
        description=_text(one, "description"),
        input_schema=dict(member(one, "input")),
        output_schema=output if isinstance(output, dict | None) else {},
    )
    return Entry(label, where, tool, None if name == label else Loss(where, f"the name {shown(label)}", name))


def _unread(one: Mapping[str, Json], where: str) -> Iterator[Loss]:
    yield from unread(one, _TOOL, where)
    if "input" in one and not isinstance(one["input"], dict):
        yield Loss(at(where, "input"), "a schema that is no object", "any arguments")
    if not isinstance(one.get("output"), dict | None):
        yield Loss(at(where, "output"), "a schema that is no object", "any value")


def _fits(data: Json) -> bool:
    return isinstance(data, dict) and isinstance(data.get("tools"), dict)


def _text(data: Mapping[str, Json], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


JSONSCHEMA = Form(
    kind="jsonschema",
    fits=_fits,
    write=_write,
    read=_read,
    labels=every_version,
    spots={"description": "/description", "input_schema": "/input", "output_schema": "/output"},
)
