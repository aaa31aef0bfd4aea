"""Define the tool ``call``, by which a model calls a tool that is not in its list, and read what such a call means.

A call of it is read as the call of the tool that it names before anything else happens: the same checks, the same
question, the same record. Nothing runs, asks or logs under the name ``call``.
"""
# FI-07

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from .catalog import Catalog
from .model import Json, Kind, Problem, Tool

TOOLKIT: Final = "toolwire"
NAMES: Final = frozenset({"find", "describe", "call"})
"""The names of the tools by which a model finds the others and calls them."""

CALL: Final = Tool(
    name="call",
    toolkit=TOOLKIT,
    description="Call a tool by its name, with the arguments that `find` or `describe` show.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool."},
            "arguments": {"type": "object", "description": "The arguments of the tool."},
        },
        "required": ["name"],
    },
    # What comes back is what the tool returns, so no schema is promised.
    hints={"mcp": {"untyped": True}},
)


class NamedCall(NamedTuple):
    """The tool that a call means, and its arguments."""

    tool: Tool
    arguments: Mapping[str, Json]


def read_named_call(catalog: Catalog, arguments: Mapping[str, Json]) -> NamedCall | Problem:
    """Return the call that ``arguments`` of a call of ``CALL`` name, of a tool of ``catalog``; or what is wrong."""
    name, inner = arguments.get("name"), arguments.get("arguments")
    if not isinstance(name, str):
        text = '"name" must be the name of a tool, as a string.'
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)
    if inner is not None and not isinstance(inner, Mapping):
        text = f'"arguments" of {name[:200]!r} must be an object.'
        return Problem(kind=Kind.INVALID_ARGUMENTS, message=text)
    # The whole list is asked first: a tool of the server may be named like one of ours.
    tool = catalog.find(name) if catalog.whole is None else catalog.whole.find(name)
    if isinstance(tool, Problem) and catalog.whole is not None:
        own = catalog.find(name)
        if isinstance(own, Tool) and own is not CALL:
            tool = own
    return tool if isinstance(tool, Problem) else NamedCall(tool, {} if inner is None else inner)
