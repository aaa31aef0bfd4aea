"""Build LangChain tools, for LangChain and the frameworks on top of it."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from toolwire.consent.tool_facts import build_facts
from toolwire.core.toolbox import Toolbox

from .conversation import ModelResult
from .dialects import Provider
from .tool_declarations import NamedCaller, ToolDeclaration, declare_tools, run_named_call, run_named_call_sync

_PROVIDER = Provider.OPENAI  # full JSON Schema, with keys that every model behind LangChain accepts


def build_tools(toolbox: Toolbox) -> list[BaseTool]:
    """Return the tools of ``toolbox`` as LangChain tools with a coroutine each, which makes the call.

    The ``metadata`` of each tool holds its consent level, costs and scopes.
    """

    # XL-085, XL-090
    def build(declaration: ToolDeclaration) -> BaseTool:
        async def call(**arguments: Any) -> str:
            return (await run_named_call(toolbox, _PROVIDER, declaration.name, arguments)).text

        return StructuredTool(**_describe(declaration), coroutine=call)

    return [build(declaration) for declaration in declare_tools(toolbox.catalog(), _PROVIDER)]


def build_tools_sync(remote: NamedCaller) -> list[BaseTool]:
    """Return like ``build_tools``; the tools block."""

    def build(declaration: ToolDeclaration) -> BaseTool:
        def call(**arguments: Any) -> str:
            return run_named_call_sync(remote, _PROVIDER, declaration.name, arguments).text

        return StructuredTool(**_describe(declaration), func=call)

    return [build(declaration) for declaration in declare_tools(remote.catalog(), _PROVIDER)]


async def run_tool_call(toolbox: Toolbox, call: ToolCall) -> ToolMessage:
    """Run ``call`` and return the message that answers it."""
    return _build_message(call, await run_named_call(toolbox, _PROVIDER, call["name"], call["args"]))


def run_tool_call_sync(remote: NamedCaller, call: ToolCall) -> ToolMessage:
    """Return like ``run_tool_call``, blocking."""
    return _build_message(call, run_named_call_sync(remote, _PROVIDER, call["name"], call["args"]))


def _describe(declaration: ToolDeclaration) -> dict[str, Any]:
    return {
        "name": declaration.name,
        "description": declaration.description,
        "args_schema": dict(declaration.input_schema.schema),
        "metadata": build_facts(declaration.tool),
    }


def _build_message(call: ToolCall, result: ModelResult) -> ToolMessage:
    return ToolMessage(result.text, tool_call_id=call["id"] or "", status="error" if result.is_error else "success")
