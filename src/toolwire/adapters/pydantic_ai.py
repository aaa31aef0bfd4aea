"""Build tools for Pydantic AI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_ai import BinaryContent, Tool

from toolwire.consent.tool_facts import build_facts
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .dialects import Provider
from .tool_declarations import NamedCaller, ToolDeclaration, declare_tools, run_named_call, run_named_call_sync

_PROVIDER = Provider.OPENAI  # full JSON Schema: Pydantic AI itself adapts it to the model's provider


def build_tools(toolbox: Toolbox, *, images: bool = False) -> list[Tool[Any]]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...)``; the agent runs their calls.

    The ``metadata`` of each tool holds its consent level, costs and scopes. With ``images``, the model sees the images
    of a result: PNG, JPEG, GIF and WebP, at most 4, of 3,750,000 bytes each. Without it, and for other content, it
    reads a sentence.
    """

    # XL-085, XL-090
    def build(declaration: ToolDeclaration) -> Tool[Any]:
        async def call(**arguments: Any) -> str | list[str | BinaryContent]:
            return _build_return(await run_named_call(toolbox, _PROVIDER, declaration.name, arguments, images=images))

        return _build(declaration, call)

    return [build(declaration) for declaration in declare_tools(toolbox.catalog(), _PROVIDER)]


def build_tools_sync(remote: NamedCaller, *, images: bool = False) -> list[Tool[Any]]:
    """Return like ``build_tools``; the tools block, in threads of the agent."""

    def build(declaration: ToolDeclaration) -> Tool[Any]:
        def call(**arguments: Any) -> str | list[str | BinaryContent]:
            return _build_return(run_named_call_sync(remote, _PROVIDER, declaration.name, arguments, images=images))

        return _build(declaration, call)

    return [build(declaration) for declaration in declare_tools(remote.catalog(), _PROVIDER)]


def _build_return(result: ModelResult) -> str | list[str | BinaryContent]:
    """Return the text of a result, and the images beside it as parts, which Pydantic AI sends as the result."""
    # MC-07
    if not result.images:
        return result.text
    return [
        result.text,
        *(BinaryContent(data=one.data, media_type=one.media_type.lower()) for one in result.images),
    ]


def _build(declaration: ToolDeclaration, call: Callable[..., Any]) -> Tool[Any]:
    schema = dict(declaration.input_schema.schema)
    tool = Tool.from_schema(call, declaration.name, declaration.description, schema)
    tool.metadata = build_facts(declaration.tool)
    return tool
