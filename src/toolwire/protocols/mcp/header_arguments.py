"""Find the arguments that a tool wants in headers too, and the faults in how its schema says so.

Rules:
- A mark is ``x-mcp-header`` on a string, an integer or a boolean that is reached by ``properties`` alone.
- Its value is a token of HTTP, and no two of a schema are the same but for upper and lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from toolwire.core.catalog import Catalog
from toolwire.core.model import Json, Schema, Tool
from toolwire.core.subschemas import list_subschemas

Mirror: TypeAlias = tuple[tuple[tuple[str, ...], bytes], ...]
"""The path of each argument that goes into a header too, with the name of that header."""

_MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}")
_MARKED_TYPES = ("string", "integer", "boolean")
_MAX_DEPTH = 20


def find_mirrored(schema: Schema) -> Mirror:
    """Return the arguments that ``schema`` wants in headers: scalars marked ``x-mcp-header``, not within arrays."""
    return tuple(_iterate_marked(schema, ()))


def find_tool_mirror(catalog: Catalog, name: str) -> Mirror | None:
    """Return the arguments that go into headers of the tool that a call names; None if there is no such tool."""
    tool = catalog.names.get(name) or catalog.find(name)
    return find_mirrored(tool.input_schema) if isinstance(tool, Tool) else None


def find_fault(schema: Json) -> str:
    """Return what is wrong with a mark of ``schema``, empty where nothing is: no client may offer such a tool."""
    names: set[str] = set()
    left: list[tuple[Any, int | None]] = [(schema, 0)]
    while left:
        inner, depth = left.pop()
        if not isinstance(inner, Mapping):
            continue
        if _MARK in inner:
            why = _check_mark(inner, depth)
            name = "" if why else inner[_MARK].lower()
            if why or name in names:
                return why or f"two arguments are for the header {name!r}"
            names.add(name)
        below = None if depth is None else depth + 1
        left.extend((one, below if key == "properties" else None) for key, _, one in list_subschemas(inner))
    return ""


def _check_mark(schema: Mapping[str, Any], depth: int | None) -> str:
    """Return what is wrong with the mark of ``schema`` by itself; ``depth`` is None where more than properties lead."""
    token = schema[_MARK]
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        return "it names a header that HTTP cannot have"
    if schema.get("type") not in _MARKED_TYPES:
        return f"the header {token!r} is for what is not a string, integer or boolean"
    if depth is None or depth > _MAX_DEPTH:
        return f"the header {token!r} is for what properties alone do not lead to"
    return ""


def _iterate_marked(schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bytes]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or len(path) == _MAX_DEPTH:
        return
    for name, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue
        token = inner.get(_MARK)
        if isinstance(token, str) and _TOKEN.fullmatch(token) and inner.get("type") in _MARKED_TYPES:
            yield (*path, name), b"mcp-param-" + token.lower().encode("ascii")
        yield from _iterate_marked(inner, (*path, name))
