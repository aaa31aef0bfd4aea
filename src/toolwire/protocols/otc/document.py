"""The list of tools: one body that is valid for the RFC and for OXP, and the bare array of universal-tool.

Rules:
- ``items`` holds OXP's definitions and no member beyond them; ``tools`` holds the RFC's, with ``x-llm``. [A-34, OXP-005]
- Reading takes every form that is in use, and drops what is no tool definition. [A-35, A-36]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Kind, Problem, Requirements, Tool
from toolwire.framing import xllm
from toolwire.framing.jsontext import kind_of

from . import definition
from .dialect import OPEN_TOOL, OXP, RFC, UNIVERSAL, Dialect
from .schema import described, inlined
from .standard import RFC as RFC_SCHEMA


class Listing(NamedTuple):
    """What a server listed: in which dialect, the tools, and by our id of each the id the server gave it."""

    dialect: Dialect
    tools: tuple[Tool, ...]
    ids: Mapping[str, str]


def write(catalog: Catalog) -> dict[str, Json]:
    """Return the body of ``GET /tools``, versions ascending. [OTC-034, OXP-003, A-51, S-9]"""
    plain = list(_definitions(catalog))
    tools = [
        {**entry, "input_schema": {"parameters": entry["input_schema"]}, "x-llm": _policy(tool)}
        for tool, entry in zip(catalog.tools, plain, strict=True)
    ]
    return {"$schema": RFC_SCHEMA, "items": plain, "tools": tools}


def write_array(catalog: Catalog) -> list[dict[str, Json]]:
    """Return the list as a universal-tool client reads it: a bare array. [S-13]"""
    pairs = zip(catalog.tools, _definitions(catalog), strict=True)
    return [{**entry, "x-llm": _policy(tool)} for tool, entry in pairs]


def read(data: Json) -> Listing | Problem:
    """Return what the body of ``GET /tools`` lists, or a Problem that says why it is no such list. [C-8]"""
    match data:
        case {"items": list(entries)}:
            tools = data.get("tools")
            return _listing(OXP, entries, "id", policies=tools if isinstance(tools, list) else ())
        case {"tools": list(entries)}:
            return _listing(RFC, entries, "id")
        case list():
            if any(isinstance(entry, dict) and "inputSchema" in entry for entry in data):
                return _listing(OPEN_TOOL, data, "inputSchema", legacy=data)
            return _listing(UNIVERSAL, data, "input_schema")
        case _:
            return _no_list(f'{kind_of(data)} without "items" or "tools"')
