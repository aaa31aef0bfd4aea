"""Decide what a tool lists as its ``outputSchema``, and how its results are written.

Rules:
- Only a promise that is kept is listed. What another server says of its results stays in ``_meta``, as a hint.
- A result is checked against what is listed before it leaves, unless its Toolbox has done so.
- A tool that returns a text lists nothing: the text would go twice, and the schema says no more than the text.
"""
# O-21: official clients discard a result that does not fit the listed schema, after the call has run.

from __future__ import annotations

import re
from typing import Final, NamedTuple

from toolwire.core.content import describes_content
from toolwire.core.model import Json, Schema, Tool
from toolwire.core.toolbox import OutputPromise
from toolwire.framing.jsontext import get_object
from toolwire.framing.jsontext import write as to_json
from toolwire.validation.results import FindFault, build_foreign_result_check

FASTMCP_MARK: Final = "x-fastmcp-wrap-result"
"""Tells FastMCP's clients that the value is under ``result``."""

_FOREIGN_REFERENCE: Final = re.compile(rb'"\$ref":"(?!#/\$defs/)')
_PLAIN_TEXT: Final = frozenset({"type", "description", "title", "default", "examples"})


class OutputForm(NamedTuple):
    """How the results of one tool are written.

    ``schema`` is what is listed, or None. With ``is_wrapped`` a value goes under ``result`` of the structured content.
    ``has_blocks``: the tool returns content, which has no schema in MCP. ``is_untyped``: it is one of another MCP
    server that does not say what it returns, and is passed on like that. ``returns_nothing``: its value means nothing.
    ``is_text``: its value is a text.
    ``find_fault`` checks the structured content; it is None if that was done, or nothing is promised.
    """

    schema: dict[str, Json] | None
    is_wrapped: bool = False
    has_blocks: bool = False
    is_untyped: bool = False
    returns_nothing: bool = False
    is_text: bool = False
    find_fault: FindFault | None = None


def build_output_form(tool: Tool, promise: OutputPromise = OutputPromise.KEPT) -> OutputForm:
    """Return how the results of ``tool`` are written, whose output schema is worth ``promise``."""
    declared = tool.output_schema
    if declared is None:
        return OutputForm(None, returns_nothing=True)
    # A schema would have the images of another server sent twice, and as text to models that read that first.
    if (untyped := is_untyped(tool)) or describes_content(declared):
        return OutputForm(None, is_untyped=untyped, has_blocks=not untyped)
    if (is_text := is_plain_text(declared)) or (promise is OutputPromise.FOREIGN and not _is_passed_on(tool)):
        return OutputForm(None, is_text=is_text)
    is_wrapped = declared.get("type") != "object"
    schema = _wrap(declared) if is_wrapped else dict(declared)
    if promise is OutputPromise.KEPT:
        return OutputForm(schema, is_wrapped)
    try:
        return OutputForm(schema, is_wrapped, find_fault=build_foreign_result_check(schema))
    except ValueError:  # nothing can be checked against it, and some clients would end with it
        return OutputForm(None)


def is_untyped(tool: Tool) -> bool:
    """Return whether ``tool`` is one of another MCP server, which does not say what it returns."""
    return not tool.output_schema and get_object(tool.hints, "mcp").get("untyped") is True


def is_plain_text(schema: Schema) -> bool:
    """Return whether ``schema`` says that a value is a text, and nothing more."""
    return schema.get("type") == "string" and schema.keys() <= _PLAIN_TEXT


def unwrap_schema(schema: Schema) -> Schema:
    """Return the schema of the value under ``result`` in ``schema``."""
    inner = get_object(get_object(schema, "properties"), "result")
    return inner if "$defs" not in schema else {**inner, "$defs": schema["$defs"]}


def lists_same(schema: Schema | None, listed: Json) -> bool:
    """Return whether a tool with the output schema ``schema`` would list just what ``listed`` promises."""
    if not isinstance(listed, dict) or schema is None:
        return False
    return schema == listed or _wrap(schema).items() <= {**listed, FASTMCP_MARK: True}.items()


def _is_passed_on(tool: Tool) -> bool:
    """Return whether ``tool`` is one of another MCP server which lists the same schema."""
    hints = get_object(tool.hints, "mcp")
    return "name" in hints and "hinted" not in hints


def _wrap(schema: Schema) -> dict[str, Json]:
    inner = dict(schema)
    definitions = inner.pop("$defs", None)
    if _FOREIGN_REFERENCE.search(to_json(schema)):
        inner, definitions = {}, None  # a reference to the schema's own root would now mean the wrapper
    wrapper: dict[str, Json] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    wrapper[FASTMCP_MARK] = True
    return wrapper if definitions is None else {**wrapper, "$defs": definitions}
