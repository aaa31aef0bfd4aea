"""Build tools for Pydantic AI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_ai import Tool

from toolwire.consent.tool_facts import build_facts
from toolwire.core.toolbox import Toolbox

from .dialects import Provider
from .tool_declarations import NamedCaller, ToolDeclaration, declare_tools, run_named_call, run_named_call_sync

_PROVIDER = Provider.OPENAI  # full JSON Schema: Pydantic AI itself adapts it to the model's provider


def build_tools(toolbox: Toolbox) -> list[Tool[Any]]:
    """Return the tools of ``toolbox`` for ``Agent(tools=...)``; the agent runs their calls.

    The ``metadata`` of each tool holds its consent level, costs and scopes.
    """

    # XL-085, XL-090
    def build(declaration: ToolDeclaration) -> Tool[Any]:
        async def call(**arguments: Any) -> str:
            return (await run_named_call(toolbox, _PROVIDER, declaration.name, arguments)).text

        return _build(declaration, call)

    return [build(declaration) for declaration in declare_tools(toolbox.catalog(), _PROVIDER)]


def build_tools_sync(remote: NamedCaller) -> list[Tool[Any]]:
    """Return like ``build_tools``; the tools block, in threads of the agent."""

    def build(declaration: ToolDeclaration) -> Tool[Any]:
        def call(**arguments: Any) -> str:
            return run_named_call_sync(remote, _PROVIDER, declaration.name, arguments).text

        return _build(declaration, call)

    return [build(declaration) for declaration in declare_tools(remote.catalog(), _PROVIDER)]


def _build(declaration: ToolDeclaration, call: Callable[..., Any]) -> Tool[Any]:
    schema = dict(declaration.input_schema.schema)
    tool = Tool.from_schema(call, declaration.name, declaration.description, schema)
    tool.metadata = build_facts(declaration.tool)
    return tool
