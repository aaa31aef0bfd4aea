"""Offer a model three tools instead of a long list: ``find``, ``describe`` and ``call``."""
# FI-01

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from toolwire.core.call_by_name import CALL, TOOLKIT
from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval, Json, Problem, Tool
from toolwire.framing.tool_description import describe_tool, write_schema

from .answer import DEFAULT_LIMIT, MAX_LINES, View, find_tools, write_tool_line

_MAX_DESCRIBED: Final = 20

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
                "maximum": MAX_LINES,
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
                "maxItems": _MAX_DESCRIBED,
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


def shorten_list(catalog: Catalog, pins: Iterable[str] = ()) -> Catalog:
    """Return the list of three tools and ``pins`` for a model, which finds the others of ``catalog`` by words.

    Each tool of ``catalog`` is still found by its name. A list without tools stays as it is.
    """
    if not catalog.tools:
        return catalog
    allows = catalog.allows
    pinned = {tool.id: tool for name in pins if isinstance(tool := catalog.find(name), Tool)}
    return Catalog(
        title=catalog.title,
        version=catalog.version,
        description=catalog.description,
        tools=(*OWN_TOOLS, *pinned.values()),
        features=catalog.features,
        allows=None if allows is None else lambda name, tool: is_own(tool) or allows(name, tool),
        whole=catalog,
    )


def is_own(tool: Tool) -> bool:
    """Return whether ``tool`` is one of those that are offered instead of a long list."""
    return any(tool is own for own in OWN_TOOLS)


def answer_own_call(tool: Tool, arguments: Mapping[str, Json], catalog: Catalog, view: View) -> str:
    """Return the text that a call of ``FIND`` or ``DESCRIBE`` returns, about what ``view`` shows of ``catalog``."""
    if tool is FIND:
        words, limit = arguments.get("words"), arguments.get("limit")
        most = limit if type(limit) is int else DEFAULT_LIMIT
        return find_tools(catalog, words if isinstance(words, str) else "", view, most).text
    names = arguments.get("names")
    listed = names[:_MAX_DESCRIBED] if isinstance(names, list) else []
    return "\n\n".join(_describe(catalog, str(name), view) for name in listed) or "Name the tools to describe."


def _describe(catalog: Catalog, name: str, view: View) -> str:
    found = catalog.find(name)
    if isinstance(found, Problem) or not view.permits(found):  # the same words: nothing says that there is a tool
        return f"Unknown tool {name[:200]!r}. Use `find` to list the tools."
    line = write_tool_line(name, found, view)
    schema = write_schema({**found.input_schema, "type": "object"})
    return f"{line}\n{describe_tool(found)}\narguments: {schema}"
