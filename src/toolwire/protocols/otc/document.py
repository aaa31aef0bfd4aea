"""Read and write the list of tools: one body that is valid for the RFC and OXP, and the array of universal-tool.

Rules:
- ``items`` holds OXP's definitions and no member beyond them; ``tools`` the RFC's, with ``x-llm``.
- Reading takes every form that is in use, and drops what is no definition of a tool.
"""
# A-34, OXP-005

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.codec import Describe
from toolwire.core.model import Json, Kind, Problem, Tool
from toolwire.core.tool_names import add_digest, describe_renamed
from toolwire.framing import xllm
from toolwire.framing.jsontext import describe_type
from toolwire.validation.foreign_schema import read_foreign_tool
from toolwire.validation.json_size import MAX_PARTS, TOO_LARGE, is_within_size

from . import definition
from .definition import WireSchemas
from .dialect import OPEN_TOOL, OXP, RFC, UNIVERSAL, Dialect
from .standard import RFC as RFC_SCHEMA


class Listing(NamedTuple):
    """What a server listed: in which dialect, its tools, and by our id of each the id the server gave it.

    ``findings`` has a sentence for each tool that is renamed or left out.
    """

    dialect: Dialect
    catalog: Catalog
    ids: Mapping[str, str]
    findings: tuple[str, ...]


class Definitions(NamedTuple):
    """How each form of the list defines one tool: OXP's ``items``, the RFC's ``tools``, universal-tool's array."""

    item: Describe
    tool: Describe
    entry: Describe


def write(catalog: Catalog, definitions: Definitions | None = None) -> dict[str, Json]:
    """Return the body of ``GET /tools``, versions ascending."""
    # OTC-034, OXP-003, A-51, S-9
    by = _DEFINITIONS if definitions is None else definitions
    named = _name_tools(catalog)
    return {
        "$schema": RFC_SCHEMA,
        "items": [by.item(tool, name) for tool, name in named],
        "tools": [by.tool(tool, name) for tool, name in named],
    }


def write_array(catalog: Catalog, definitions: Definitions | None = None) -> list[Json]:
    """Return the list as a universal-tool client reads it: a bare array."""
    # S-13
    describe = (_DEFINITIONS if definitions is None else definitions).entry
    return [describe(tool, name) for tool, name in _name_tools(catalog)]


def write_tool(tool: Tool, name: str, schemas: WireSchemas | None = None) -> dict[str, Json]:
    """Return the RFC's definition of ``tool``, listed as ``name``."""
    plain = definition.write(tool, name, schemas)
    return {**plain, "input_schema": {"parameters": plain["input_schema"]}, "x-llm": definition.write_policy(tool)}


def write_entry(tool: Tool, name: str, schemas: WireSchemas | None = None) -> dict[str, Json]:
    """Return the definition of ``tool`` in the array of universal-tool."""
    return {**definition.write(tool, name, schemas), "x-llm": definition.write_policy(tool)}


_DEFINITIONS = Definitions(definition.write, write_tool, write_entry)


def read(data: Json, title: str) -> Listing | Problem:
    """Return what the body of ``GET /tools`` lists, or a Problem that says why it is no such list.

    ``title`` is for the catalog, unless all tools belong to one toolkit: then it is that toolkit's name.
    """
    # C-8
    match data:
        case {"items": list(entries)}:
            return _build_listing(OXP, _add_policies(entries, data.get("tools")), "id", title)
        case {"tools": list(entries)}:
            return _build_listing(RFC, entries, "id", title)
        case list() if _any_has(data, "inputSchema"):
            return _build_listing(OPEN_TOOL, data, "inputSchema", title)
        case list() if _any_has(data, "input_schema"):
            return _build_listing(UNIVERSAL, data, "input_schema", title)
        case list():
            return _build_no_list("an array without a tool in it")
        case _:
            return _build_no_list(f'{describe_type(data)} without "items" or "tools"')


def _build_listing(dialect: Dialect, entries: Sequence[Json], mark: str, title: str) -> Listing | Problem:
    """Keep each entry that has the member ``mark`` and names a tool; two that differ for their server stay two."""
    ids: dict[str, str] = {}
    tools: list[Tool] = []
    findings: list[str] = []
    unmarked = xllm.Policy() if _any_has(entries, "x-llm") else xllm.SILENT_POLICY  # QF-03
    for number, entry in enumerate(entries, 1):
        if not is_within_size(entry, MAX_PARTS):  # D-17
            findings.append(f"tool {number} of the list is left out: {TOO_LARGE}")
            continue
        found = definition.read(entry, unmarked) if isinstance(entry, dict) and mark in entry else None
        if found is None:
            continue
        tool, wire_id = found
        tool = read_foreign_tool(tool, findings)  # O-34
        wire_name = wire_id.partition("@")[0]
        if tool.id in ids and ids[tool.id].partition("@")[0] != wire_name:
            tool = replace(tool, name=add_digest(tool.name, wire_name), original_name=wire_name)
        if tool.id in ids:
            findings.append(f"tool {number} of the list is left out: {wire_id[:100]!r} is there already")
            continue
        if tool.original_name:
            findings.append(describe_renamed(tool.original_name, tool.name))
        ids[tool.id] = wire_id
        tools.append(tool)
    if entries and not ids and not findings:
        return _build_no_list("a list without a tool in it")
    return Listing(dialect, _build_catalog(tools, title), ids, tuple(findings))


def _build_catalog(tools: Sequence[Tool], title: str) -> Catalog:
    toolkits = {tool.toolkit for tool in tools}
    title = toolkits.pop() if len(toolkits) == 1 else title
    try:
        return Catalog(title=title, tools=tuple(tools))
    except ValueError:  # two toolkits whose tools would be called alike: each name stays with its first toolkit
        owner: dict[str, str] = {}
        unique = tuple(tool for tool in tools if owner.setdefault(tool.name, tool.toolkit) == tool.toolkit)
        return Catalog(title=title, tools=unique)


def _add_policies(items: list[Json], tools: Json) -> list[Json]:
    """Give each of ``items`` the ``x-llm`` that its twin in ``tools`` has: OXP leaves no room for it."""
    # OXP-005
    policies: dict[Json, Json] = {}
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("id"), str) and "x-llm" in tool:
            policies.setdefault(tool["id"], tool["x-llm"])
    return [
        {"x-llm": policies[item["id"]], **item}
        if isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"] in policies
        else item
        for item in items
    ]


def _name_tools(catalog: Catalog) -> list[tuple[Tool, str]]:
    """Return each tool with a name that is unique in the catalog, all versions of a tool under one."""
    #
    names = {(tool.toolkit, tool.name): name for name, tool in catalog.names.items()}
    return [(tool, names[tool.toolkit, tool.name]) for tool in catalog.tools]


def _any_has(entries: Sequence[Json], name: str) -> bool:
    return any(isinstance(entry, dict) and name in entry for entry in entries)


def _build_no_list(what: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=f"This is not a tool list: {what}.")
