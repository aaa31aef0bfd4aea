"""Offer a model three tools instead of a long list: ``find``, ``describe`` and ``call``."""
# FI-01

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from toolwire.core.call_by_name import CALL, TOOLKIT
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Json, Problem, Tool
from toolwire.framing.tool_description import describe_tool

from .answer import DEFAULT_LIMIT, MOST_LINES, View, find_tools, write_tool_line

FindMode: TypeAlias = Literal["auto", "always", "never"]
"""When a server lists ``find``, ``describe`` and ``call`` instead of its tools."""

BUDGET_TOKENS: Final = 8_000
"""A list of more tokens is too long for a model, if nobody says otherwise."""
_CHARACTERS_A_TOKEN: Final = 4
_MOST_DESCRIBED: Final = 20

FIND: Final = Tool(
    name="find",
    toolkit=TOOLKIT,
    description=(
        "Find tools by what they do. Each line of the answer shows a tool with its arguments (* is required) and says"
        " whether a call runs at once or asks the user first. Use `call` to call it."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "words": {"type": "string", "description": "What the tool does and with what, in English, or its name."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_LINES,
                "default": DEFAULT_LIMIT,
                "description": "How many tools to show.",
            },
        },
        "required": ["words"],
    },
    output_schema={"type": "string"},
    output_name="tools",
    safe=True,
    idempotent=True,
    approval=Approval.AUTO,
)
DESCRIBE: Final = Tool(
    name="describe",
    toolkit=TOOLKIT,
    description="Show the full descriptions and argument schemas of tools that `find` names.",
    input_schema={
        "type": "object",
        "properties": {
            "names": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": _MOST_DESCRIBED,
                "description": "The names of the tools.",
            }
        },
        "required": ["names"],
    },
    output_schema={"type": "string"},
    output_name="definitions",
    safe=True,
    idempotent=True,
    approval=Approval.AUTO,
)
OWN_TOOLS: Final = (FIND, DESCRIBE, CALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortList:
    """What a server lists: with ``always`` three tools and the ``pins``, with ``auto`` only if all tools are too long.

    With ``auto``, only MCP's list is shortened, which hosts give to a model as it is. The lists of the other protocols
    are read by programs, and so is that of a client of toolwire.
    """

    mode: FindMode
    pins: tuple[str, ...] = ()

    def shorten(self, catalog: Catalog, protocol: str) -> Catalog:
        """Return what is listed of ``catalog`` on ``protocol``; each of its tools is still found by its name."""
        if self.mode == "never" or not catalog.tools:
            return catalog
        if self.mode == "auto" and (protocol != "mcp" or fits_budget(catalog)):
            return catalog
        allows = catalog.allows
        pinned = {tool.id: tool for name in self.pins if isinstance(tool := catalog.find(name), Tool)}
        return Catalog(
            title=catalog.title,
            version=catalog.version,
            description=catalog.description,
            tools=(*OWN_TOOLS, *pinned.values()),
            offered=catalog.offered,
            allows=None if allows is None else lambda name, tool: is_own(tool) or allows(name, tool),
            whole=catalog,
        )


def is_own(tool: Tool) -> bool:
    """Return whether ``tool`` is one of those that are offered instead of a long list."""
    return any(tool is own for own in OWN_TOOLS)


def fits_budget(catalog: Catalog, tokens: int = BUDGET_TOKENS) -> bool:
    """Return whether the definitions of all tools of ``catalog`` take at most about this number of ``tokens``.

    Only as many schemas are built as fit.
    """
    room = tokens * _CHARACTERS_A_TOKEN
    for name, tool in catalog.names.items():
        room -= len(name) + len(describe_tool(tool)) + len(_write_schema(tool.input_schema)) + 40
        if room < 0:
            return False
    return True


def answer_own_call(tool: Tool, arguments: Mapping[str, Json], catalog: Catalog, view: View) -> str:
    """Return the text that a call of ``FIND`` or ``DESCRIBE`` returns, about what ``view`` shows of ``catalog``."""
    if tool is FIND:
        words, limit = arguments.get("words"), arguments.get("limit")
        most = limit if type(limit) is int else DEFAULT_LIMIT
        return find_tools(catalog, words if isinstance(words, str) else "", view, most).text
    names = arguments.get("names")
    listed = names[:_MOST_DESCRIBED] if isinstance(names, list) else []
    return "\n\n".join(_describe(catalog, str(name), view) for name in listed) or "Name the tools to describe."


def _describe(catalog: Catalog, name: str, view: View) -> str:
    found = catalog.find(name)
    if isinstance(found, Problem) or not view.permits(found):  # the same words: nothing says that there is a tool
        return f"There is no tool {name[:200]!r}. Use `find` to see which there are."
    line = write_tool_line(name, found, view)
    schema = _write_schema({**found.input_schema, "type": "object"})
    return f"{line}\n{describe_tool(found)}\narguments: {schema}"


def _write_schema(schema: Mapping[str, Json]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"), default=dict)
